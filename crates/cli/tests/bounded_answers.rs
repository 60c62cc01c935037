//! Answers that a short request could multiply: they have a limit, and long answers below it arrive.

mod common;

use std::io::Write as _;
use std::time::Duration;

use common::*;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader};
use zebu_testing::ServerProcess;

/// More than a busy machine needs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Memory that the server may need beyond what it had, in KiB: two answers of the longest kind and room to
/// grow.
const GROWTH_KIB: u64 = 256 << 10;

/// The same for four-letter words: all their answers here together are more than 600 MB.
const WORDS_GROWTH_KIB: u64 = 32 << 10;

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
    client.set_patience(TIME_LIMIT);
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
    client.set_patience(TIME_LIMIT);
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

/// Each path is kept once however many sessions watch it; `wchc` shows it for each of them.
#[test]
fn watches_by_session_are_not_built_in_memory() {
    const SESSIONS: usize = 20;
    const PATHS: usize = 100;
    const PATH_BYTES: usize = 100_000;
    let server = server().start().expect("a server");
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        let (mut client, _) = open(&server);
        client.set_patience(TIME_LIMIT);
        for number in 0..PATHS {
            let path = format!("/{}{number}", "p".repeat(PATH_BYTES));
            assert_eq!(
                refused(&mut client, OpCode::Exists, path_and_watch(&path, true)),
                Some(ErrorCode::NoNode)
            );
        }
        clients.push(client);
    }
    let before = peak_kib(&server);
    // Several that do not read, and one that does.
    let mut silent = Vec::new();
    for word in ["wchc", "wchp", "dump", "cons"].into_iter().cycle().take(8) {
        let mut asks = std::net::TcpStream::connect(server.address()).expect("a connection");
        asks.write_all(word.as_bytes()).expect("the word is sent");
        silent.push(asks);
    }
    let text = zebu_testing::four_letter::ask(server.address(), "wchc", TIME_LIMIT).expect("an answer");
    let sessions = text.lines().filter(|line| line.starts_with("0x")).count();
    let paths = text.lines().filter(|line| line.len() > PATH_BYTES).count();
    assert_eq!((sessions, paths), (SESSIONS, SESSIONS * PATHS));
    let text = zebu_testing::four_letter::ask(server.address(), "wchp", TIME_LIMIT).expect("an answer");
    let sessions = text.lines().filter(|line| line.starts_with("\t0x")).count();
    assert_eq!(sessions, SESSIONS * PATHS);
    let peak = peak_kib(&server);
    assert!(peak < before + WORDS_GROWTH_KIB, "from {before} to {peak} KiB");
}
