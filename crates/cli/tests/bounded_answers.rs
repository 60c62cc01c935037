//! Answers that a short request could multiply: they have a limit, and long answers below it arrive.

mod common;

use std::time::Duration;

use common::*;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader};
use zebu_testing::ServerProcess;

/// More than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory that the server may need beyond what it had, in KiB: two answers of the longest kind and room to grow.
const GROWTH_KIB: u64 = 256 << 10;

/// The most memory that the server has had, in KiB.
fn peak_kib(server: &ServerProcess) -> u64 {
    let id = server.id().expect("the server runs");
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn multi_read(op: OpCode, path: &str, count: usize) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        for _ in 0..count {
            op.wire().encode(out);
            false.encode(out);
            (-1i32).encode(out);
            path_and_watch(path, false)(out);
        }
        (-1i32).encode(out);
        true.encode(out);
        (-1i32).encode(out);
    }
}

/// One request of half a megabyte that asks for thirty gigabytes.
#[test]
fn a_multi_read_of_very_much_is_refused() {
    let server = server().start().expect("a server");
    let (mut client, _) = open(&server);
    client.set_patience(PATIENCE);
    create(&mut client, "/large", &vec![b'x'; 1_000_000]);
    let before = peak_kib(&server);
    let code = refused(&mut client, OpCode::MultiRead, multi_read(OpCode::GetData, "/large", 30_000));
    assert_eq!(code, Some(ErrorCode::MarshallingError));
    let peak = peak_kib(&server);
    assert!(peak < before + GROWTH_KIB, "from {before} to {peak} KiB");
    let (_, body) = done(&mut client, OpCode::MultiRead, multi_read(OpCode::GetData, "/large", 10));
    assert!(body.len() > 10_000_000, "what is not too much arrives");
}

/// The answer is longer than several results may be together; a single one may have any length.
#[test]
fn a_very_long_listing_arrives() {
    const CHILDREN: usize = 20_000;
    let server = server().start().expect("a server");
    let (mut client, _) = open(&server);
    client.set_patience(PATIENCE);
    create(&mut client, "/many", b"");
    let name = "n".repeat(1_000);
    for number in 0..CHILDREN {
        client.queue(OpCode::Create, create_body(&format!("/many/{name}{number:05}"), b"", Acl::open(), 0));
        if number % 500 == 499 {
            client.flush().expect("the server reads");
            client.receive_messages(500).expect("answers");
        }
    }
    for (op, body) in [
        (OpCode::GetChildren, Box::new(path_and_watch("/many", false)) as Box<dyn FnOnce(&mut Vec<u8>)>),
        (OpCode::MultiRead, Box::new(multi_read(OpCode::GetChildren, "/many", 1))),
    ] {
        let (_, body) = done(&mut client, op, body);
        assert!(body.len() > 20_000_000, "{op:?}: {} bytes", body.len());
        let skipped = if op == OpCode::MultiRead { 9 } else { 0 };
        assert_eq!(Reader::new(&body[skipped..]).int().expect("a count"), CHILDREN as i32);
    }
    let two = refused(&mut client, OpCode::MultiRead, multi_read(OpCode::GetChildren, "/many", 2));
    assert_eq!(two, Some(ErrorCode::MarshallingError));
}
