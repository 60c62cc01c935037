//! The first section of docs/security.md, command by command, with the real program.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/manual.rs"]
mod manual;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use manual::{command, succeed, text};
use tempfile::TempDir;

/// The port of the page; the test replaces it by a free one.
const PAGE_PORT: u16 = 2281;

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A shell with commands on its input.
fn shell(home: &Path, line: &str, variable: Option<(&str, &str)>, input: &[String]) -> Output {
    let mut command = command(home, line);
    command.envs(variable).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    input.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    drop(stdin);
    child.wait_with_output().unwrap()
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn from_nothing_to_tls_sasl_and_acls() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let page = manual::with_free_ports(include_str!("../../../docs/security.md"), &[PAGE_PORT]);
    let section = manual::section(&page, "From nothing to TLS, SASL and ACLs");
    let blocks: Vec<Vec<String>> = manual::blocks(section).into_iter().map(|block| block.lines).collect();
    let [certificates, jaas, permissions, config, start, session, refused] = blocks.try_into().unwrap();

    certificates.iter().for_each(|line| drop(succeed(home, line)));
    fs::write(home.join("jaas.conf"), jaas.join("\n")).unwrap();
    permissions.iter().for_each(|line| drop(succeed(home, line)));
    fs::write(home.join("zoo.cfg"), config.join("\n")).unwrap();

    let [check, serve] = start.try_into().unwrap();
    let told = succeed(home, &check);
    for expected in ["a certificate is needed", "DIGEST-MD5, users shop, super", "sasl:super"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("warning:") && !told.contains("choose-"), "{told}");
    let log = fs::File::create(home.join("log")).unwrap();
    let child = command(home, &serve).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let _server = Server(child);

    let (export, rest) = session.split_first().unwrap();
    let variable = export.strip_prefix("export ").unwrap().split_once('=').unwrap();
    let (connect, commands) = rest.split_first().unwrap();
    let connect = format!("{connect} -waitforconnection");
    let deadline = Instant::now() + TIME_LIMIT;
    let answer = loop {
        // The first attempts may come before the port is open.
        let answer = text(&shell(home, &connect, Some(variable), commands));
        if answer.contains("sasl: shop") || Instant::now() > deadline {
            break answer;
        }
    };
    for expected in ["Created /shop", "sasl: shop", "x509: CN=shop"] {
        assert!(
            answer.contains(expected),
            "{expected}: {answer}{}",
            fs::read_to_string(home.join("log")).unwrap()
        );
    }
    let refused = shell(home, &refused[0], None, &[]);
    assert!(!refused.status.success() && text(&refused).contains("/shop"), "{}", text(&refused));
    assert!(text(&refused).contains("NoAuth") || text(&refused).contains("Insufficient permission"));
}
