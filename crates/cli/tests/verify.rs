//! `zebu verify`: trees of running servers that are equal, that differ, and that cannot be compared.

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::process::{Command, Output};
use std::time::Instant;

use common::*;
use processes::{Ensemble, TIME_LIMIT};
use serde_json::Value;
use zebu_testing::{RawClient, ServerProcess};

/// More than two transactions of which a server keeps the digest.
const WRITES: usize = 300;

fn zebu_verify(servers: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .arg("verify")
        .arg(servers)
        .args(options)
        .output()
        .expect("zebu verify runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn write(client: &mut RawClient) {
    for number in 0..WRITES {
        create(client, &format!("/n{number}"), b"x");
    }
}

#[test]
fn equal_servers_of_an_ensemble() {
    let ensemble = Ensemble::start_with(3, "initLimit=20");
    ensemble.await_leader(3);
    write(&mut RawClient::open(ensemble.clients[0]).expect("a session").0);
    let servers: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    let deadline = Instant::now() + TIME_LIMIT;
    // A follower may be some transactions behind.
    let (status, output, _) = loop {
        let verified = zebu_verify(&servers.join(","), &[]);
        if verified.0 == Some(0) || Instant::now() > deadline {
            break verified;
        }
    };
    assert_eq!(status, Some(0), "{output}");
    assert!(
        output.contains("compared after ") && output.contains("All trees are equal up to 0x1"),
        "{output}"
    );
    let (status, output, _) = zebu_verify(&servers.join(","), &["--json"]);
    let value: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(
        (status, &value["equal"], value["servers"].as_array().map(Vec::len)),
        (Some(0), &true.into(), Some(3))
    );
}

#[test]
fn servers_with_other_data_and_servers_without_digests() {
    let server = || {
        ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).property("zookeeper.4lw.commands.whitelist", "*")
    };
    let (one, other) = (server().start().expect("a server"), server().start().expect("a server"));
    let servers = format!("{},{}", one.address(), other.address());
    let (status, output, _) = zebu_verify(&servers, &[]);
    assert_eq!(status, Some(3), "{output}");
    assert!(output.contains("it has no digest yet"), "{output}");
    for server in [&one, &other] {
        write(&mut RawClient::open(server.address()).expect("a session").0);
    }
    let (status, output, _) = zebu_verify(&servers, &[]);
    assert_eq!(status, Some(1), "{output}");
    let expected = format!("different trees after 0x80: {} | {}", one.address(), other.address());
    assert!(output.contains(&expected) && output.contains("The trees differ"), "{output}");
    let (status, output, _) = zebu_verify(&servers, &["--json"]);
    let value: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(
        (status, &value["equal"], &value["differences"][0]["zxid"]),
        (Some(1), &false.into(), &"0x80".into())
    );

    let closed = ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).start().expect("a server");
    let (status, output, _) = zebu_verify(&format!("{},{}", one.address(), closed.address()), &[]);
    assert_eq!(status, Some(3), "{output}");
    assert!(output.contains("add hash to 4lw.commands.whitelist"), "{output}");
    let (status, _, error) = zebu_verify("127.0.0.1:1", &[]);
    assert!(status == Some(2) && error.contains("at least two servers"), "{error}");
}
