//! The hottest paths and clients, the largest nodes, the log of slow requests and large replies, and the
//! limit of watches: the binary under load.

mod common;
#[path = "common/preloaded.rs"]
mod preloaded;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use zebu_proto::{ErrorCode, OpCode};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder, four_letter};

/// More than a busy machine needs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const BATCHES: usize = 40;
const BATCH: usize = 200;

fn top_server() -> ServerProcessBuilder {
    whitelisted_server().line("zebu.top.sampling=16")
}

fn whitelisted_server() -> ServerProcessBuilder {
    ServerProcess::builder(env!("CARGO_BIN_EXE_zebu"))
        .property("zookeeper.4lw.commands.whitelist", "srvr, mntr, topp, topn")
}

fn word(server: &ServerProcess, word: &str) -> String {
    four_letter::ask(server.address(), word, TIME_LIMIT).expect("the word is answered")
}

/// Reads one path ten times as often as each of many others.
fn drive_reads(client: &mut RawClient) {
    for batch in 0..BATCHES {
        for number in 0..BATCH {
            let path = match number % 2 {
                0 => "/app/hot/leaf/node".to_owned(),
                _ => format!("/app/cold/leaf/{}", batch * BATCH + number),
            };
            client.queue(OpCode::Exists, path_and_watch(&path, false));
        }
        client.flush().expect("the server reads");
        client.receive_messages(BATCH).expect("answers");
    }
}

fn zebu_top(servers: &[&ServerProcess], options: &[&str]) -> (bool, String) {
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .args(["top", "--once"])
        .args(options)
        .arg(addresses.join(","))
        .output()
        .expect("zebu top runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn as_json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_hot_path_and_the_busy_client_are_named() {
    let servers = [top_server().start().expect("a server"), top_server().start().expect("a server")];
    let sessions = servers.each_ref().map(|server| {
        let (mut client, session) = open(server);
        done(&mut client, OpCode::Auth, auth_body("digest", b"ann:secret"));
        create(&mut client, "/written", b"");
        drive_reads(&mut client);
        for _ in 0..BATCHES {
            for _ in 0..BATCH {
                let _ = client.queue(OpCode::SetData, set_data_body("/written", b"x", -1));
            }
            client.flush().expect("the server reads");
            client.receive_messages(BATCH).expect("answers");
        }
        (session, client)
    });
    let text = word(&servers[0], "topp");
    assert!(text.starts_with("sampling\t16\n"), "{text}");
    let first =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(first("reads\tpath\t").ends_with("\t/app/hot/leaf/node"), "{text}");
    assert!(first("bytes\tpath\t").ends_with("\t/app/hot/leaf/node"), "{text}");
    assert!(first("writes\tpath\t").ends_with("\t/written"), "{text}");
    assert!(first("requests\tuser\t").ends_with("\tann"), "{text}");
    assert!(first("requests\taddress\t").ends_with("\t127.0.0.1"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    let id = sessions[0].0.id.0;
    assert!(first("requests\tsession\t").ends_with(&format!("\t0x{id:x}")), "{text}");
    let subtrees: Vec<&str> = text.lines().filter(|line| line.starts_with("reads\tsubtree\t")).collect();
    assert!(subtrees.iter().any(|line| line.ends_with("\t/app/cold/leaf")), "{text}");

    let both: Vec<&ServerProcess> = servers.iter().collect();
    let (success, table) = zebu_top(&both, &[]);
    assert!(success && table.starts_with("READS/S"), "{table}");
    let (success, json) = zebu_top(&both, &["--json", "--by", "writes"]);
    let joined = as_json(&json);
    let entry = &joined["lists"]["path"][0];
    assert!(success && entry["key"] == "/written", "{json}");
    let rate = |json: &str| as_json(json)["lists"]["path"][0]["per_second"].as_f64().expect("a rate");
    let single = rate(&zebu_top(&both[..1], &["--json", "--by", "writes"]).1);
    assert!(rate(&json) > single * 1.2, "two servers together: {json}, one: {single}");
}

/// The words show the paths of all clients, so `*` does not include them.
#[test]
fn the_words_must_be_listed_by_name() {
    let server = server().start().expect("a server");
    for name in ["topp", "topn"] {
        assert_eq!(
            word(&server, name),
            format!("{name} is not executed because it is not in the whitelist.\n")
        );
    }
    let (success, table) = zebu_top(&[&server], &[]);
    assert!(!success && table.contains("not in the whitelist"), "{table}");
}

#[test]
fn samples_can_be_switched_off() {
    let server = whitelisted_server().line("zebu.top.sampling=0").start().expect("a server");
    let (mut client, _) = open(&server);
    drive_reads(&mut client);
    assert_eq!(word(&server, "topp"), "sampling\t0\n");
    let (success, table) = zebu_top(&[&server], &[]);
    assert!(!success && table.contains("zebu.top.sampling"), "{table}");
}

#[test]
fn the_largest_nodes_are_named() {
    let server = top_server().start().expect("a server");
    let (mut client, _) = open(&server);
    create(&mut client, "/parent", b"");
    for number in 0..2000 {
        create(&mut client, &format!("/parent/n{number}"), b"xyz");
    }
    create(&mut client, "/large", &[b'x'; 5000]);
    let text = word(&server, "topn");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("nodes\t") && lines[0].ends_with("\tcomplete"), "{text}");
    assert_eq!(lines[1], "size\t5000\t/large", "{text}");
    let children = lines.iter().find(|line| line.starts_with("children\t"));
    assert_eq!(children, Some(&"children\t2000\t/parent"), "{text}");
    let (success, json) = zebu_top(&[&server], &["--json", "--by", "children", "--limit", "1"]);
    assert!(success, "{json}");
    let joined = as_json(&json);
    assert_eq!(joined["lists"]["path"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(joined["lists"]["path"][0]["key"], "/parent", "{json}");
}

/// The JSON lines of the log with this message.
fn logged(server: &ServerProcess, message: &str) -> Vec<serde_json::Value> {
    let output = server.output();
    let lines = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line.to_string().contains(&format!("\"{message}\""))).collect()
}

fn await_logged(server: &ServerProcess, message: &str) -> Vec<serde_json::Value> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let lines = logged(server, message);
        if !lines.is_empty() {
            return lines;
        }
        assert!(Instant::now() < deadline, "no \"{message}\" in:\n{}", server.output());
        thread::sleep(Duration::from_millis(20));
    }
}

/// A field of a line, wherever the form of the log puts it.
fn field<'a>(line: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    if line[name].is_null() { &line["fields"][name] } else { &line[name] }
}

#[test]
fn a_slow_request_and_a_large_reply_are_logged() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(library) = preloaded::build("slow_sync.c", home.path()) else { return };
    let delay = home.path().join("delay");
    let mut server = top_server()
        .line("zebu.slowRequestMs=1000")
        .line("zebu.largeReplyBytes=10000")
        .line("zebu.log.format=json")
        .start()
        .expect("a server");
    server.stop().expect("it stops");
    server.set_launch(zebu_testing::Launch {
        program: "env".into(),
        before: vec![
            format!("LD_PRELOAD={}", library.display()).into(),
            format!("ZEBU_SLOW_SYNC={}", delay.display()).into(),
            env!("CARGO_BIN_EXE_zebu").into(),
            "serve".into(),
        ],
        after: Vec::new(),
    });
    server.start().expect("it starts again");
    let (mut client, session) = open(&server);
    client.set_patience(TIME_LIMIT);
    create(&mut client, "/quick", &[b'x'; 20_000]);
    done(&mut client, OpCode::GetData, path_and_watch("/quick", false));
    let large = await_logged(&server, "large reply");
    assert_eq!(large.len(), 1, "{large:?}");
    assert_eq!(field(&large[0], "path"), "/quick");
    assert_eq!(field(&large[0], "op"), "getData");
    assert!(field(&large[0], "reply_bytes").as_u64().is_some_and(|bytes| bytes > 20_000), "{large:?}");
    assert_eq!(field(&large[0], "session"), &serde_json::json!(format!("0x{:x}", session.id.0)));
    let peer = field(&large[0], "peer").as_str().expect("an address");
    assert!(peer.starts_with("127.0.0.1:"), "{large:?}");
    let quick = logged(&server, "slow request").len();
    fs::write(&delay, "1500").expect("the delay is written");
    assert_eq!(
        refused(&mut client, OpCode::SetData, set_data_body("/missing\u{1}", b"value-of-the-node", -1)),
        Some(ErrorCode::BadArguments)
    );
    fs::write(&delay, "0").expect("the delay is written");
    let deadline = Instant::now() + TIME_LIMIT;
    while logged(&server, "slow request").len() == quick {
        assert!(Instant::now() < deadline, "{}", server.output());
        thread::sleep(Duration::from_millis(20));
    }
    let slow = logged(&server, "slow request");
    let line = slow.last().expect("a line");
    assert_eq!(field(line, "path"), "/missing\\u{1}", "{line}");
    assert_eq!(field(line, "op"), "setData", "{line}");
    assert!(field(line, "duration_ms").as_i64().is_some_and(|ms| ms >= 1000), "{line}");
    assert!(!server.output().contains("value-of-the-node"), "data never reaches the log");
}

#[test]
fn a_connection_has_a_limit_of_watches() {
    let server = top_server().line("zebu.maxWatchesPerConnection=3").start().expect("a server");
    let (mut client, _) = open(&server);
    for number in 0..3 {
        let code = refused(&mut client, OpCode::Exists, path_and_watch(&format!("/n{number}"), true));
        assert_eq!(code, Some(ErrorCode::NoNode));
    }
    let code = refused(&mut client, OpCode::Exists, path_and_watch("/n3", true));
    assert_eq!(code, Some(ErrorCode::BadArguments));
    assert_eq!(monitored(&server, "watch_count"), 3);
    let (mut writer, _) = open(&server);
    (0..4).for_each(|number| create(&mut writer, &format!("/n{number}"), b""));
    let (events, _) = done(&mut client, OpCode::Exists, path_and_watch("/n3", true));
    assert_eq!(events.len(), 3, "the others are not disturbed, and there is room again");
    let paths: Vec<String> = (0..4).map(|number| format!("/n{number}")).collect();
    let (mut other, _) = open(&server);
    let code = refused(&mut other, OpCode::SetWatches, set_watches_body(i64::MAX, &paths));
    assert_eq!(code, Some(ErrorCode::BadArguments));
}
