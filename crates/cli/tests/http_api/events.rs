//! Watches as server-sent events.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::json as object;

use crate::admin_common::{connect, eventually};
use crate::api::{Api, json, refused, request, server};
use crate::processes::TIME_LIMIT;
use zebu_testing::four_letter;

/// An open event stream and what it has sent.
pub(crate) struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    pub(crate) fn open(api: Api, path: &str, lines: &[&str]) -> Events {
        let mut stream = connect(api.address);
        stream.write_all(&request("GET", path, lines, b"")).unwrap();
        let mut events = Events { stream, text: String::new() };
        events.wait_for("event: ready");
        assert!(events.text.contains("content-type: text/event-stream"), "{}", events.text);
        events
    }

    /// Reads until the text has come; the stream must not end before.
    pub(crate) fn wait_for(&mut self, expected: &str) {
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + TIME_LIMIT;
        while !self.text.contains(expected) {
            assert!(Instant::now() < deadline, "no {expected:?} came: {}", self.text);
            let count =
                self.stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error}: {}", self.text));
            assert!(count > 0, "the stream ended before {expected:?}: {}", self.text);
            self.text += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    /// The rest of the stream. A stream that does not end has comments, so that a read alone never times out.
    pub(crate) fn read_to_end(mut self) -> String {
        let mut buffer = [0; 65_536];
        let deadline = Instant::now() + TIME_LIMIT;
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            self.text += &String::from_utf8_lossy(&buffer[..count]);
            assert!(Instant::now() < deadline, "the stream does not end: {}", self.text);
        }
        self.text
    }
}

#[test]
fn events_come_in_order_with_their_zxids() {
    let mut server = server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/w", b"0").status, 201);
    let mut node = Events::open(api, "/tree/w?watch", &[]);
    let mut data = Events::open(api, "/tree/w?watch=data", &[]);
    let mut tree = Events::open(api, "/tree/w?watch=recursive", &[]);
    assert_eq!(api.put("/tree/w/child", b"").status, 201);
    let changed = api.put("/tree/w", b"1");
    let zxid = json(&changed)["stat"]["mzxid"].as_str().unwrap().to_owned();
    assert_eq!(api.delete("/tree/w?recursive").status, 200);
    for events in [&mut node, &mut data, &mut tree] {
        events.wait_for("event: NodeDeleted\n");
        assert!(
            events.text.contains(&format!("event: NodeDataChanged\nid: {zxid}\ndata: ")),
            "{}",
            events.text
        );
    }
    assert!(node.text.contains("event: NodeChildrenChanged"));
    assert!(!data.text.contains("NodeChildrenChanged") && !tree.text.contains("NodeChildrenChanged"));
    tree.wait_for("\"path\":\"/w/child\"");
    let places: Vec<usize> =
        ["event: ready", "event: NodeCreated", "event: NodeDataChanged", "event: NodeDeleted"]
            .iter()
            .map(|name| tree.text.find(name).unwrap())
            .collect();
    assert!(places.is_sorted(), "{}", tree.text);
    refused(&api.get("/tree/w?watch=all"), 400, "BADARGUMENTS");
    refused(&api.get("/tree/w?watch&stat"), 400, "BADARGUMENTS");

    // A client that goes away takes its session along.
    let streams = json(&api.get("/sessions"))["total"].as_u64().unwrap();
    drop((node, data));
    eventually("the sessions of the streams end", || {
        json(&api.get("/sessions"))["total"].as_u64().unwrap() == streams - 2
    });
    // A server that stops says so.
    server.stop().unwrap();
    let text = tree.read_to_end();
    assert!(text.contains("event: end\ndata: ") && text.contains("CONNECTIONLOSS"), "{text}");
}

#[test]
fn a_stream_shows_only_nodes_that_its_caller_may_read() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/w", b"0").status, 201);
    let mut anonymous = Events::open(api, "/tree/w?watch=recursive", &[]);
    let mut owner = Events::open(api, "/tree/w?watch=recursive", &["Authorization: digest a:b"]);
    let line = ["Authorization: digest a:b"];
    assert_eq!(api.call("POST", "/tree/w/secret?acl=auth::cdrwa", &line, b"").status, 201);
    assert_eq!(api.put("/tree/w/open", b"").status, 201);
    anonymous.wait_for("/w/open");
    owner.wait_for("/w/open");
    assert!(owner.text.contains("/w/secret") && !anonymous.text.contains("/w/secret"), "{}", anonymous.text);
}

/// Events that a client does not read are bounded in bytes, also if their paths are long.
#[test]
fn a_client_that_reads_nothing_loses_its_stream() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let long = format!("/w/{}", "x".repeat(50_000));
    let create = object!({"ops": [{"create": "/w"}, {"create": long}]}).to_string();
    assert_eq!(api.post("/multi", create.as_bytes()).status, 200);
    let events = Events::open(api, "/tree/w?watch=recursive", &[]);
    let streams = || json(&api.get("/sessions"))["total"].as_u64().unwrap();
    let before = streams();
    let sets = object!({"ops": vec![object!({"set": long}); 18]}).to_string();
    for _ in 0..100 {
        assert_eq!(api.post("/multi", sets.as_bytes()).status, 200);
        if streams() < before {
            break;
        }
    }
    eventually("the session of the stream ends", || streams() < before);
    let expired = four_letter::ask(server.address(), "mntr", TIME_LIMIT).unwrap();
    assert!(expired.contains("zk_stale_sessions_expired\t0\n"), "the stream ends its session: {expired}");
    let text = events.read_to_end();
    assert!(text.contains("event: end\ndata: ") && text.contains("OVERRUN"), "{} bytes", text.len());
    assert!(text.len() < 16 << 20, "{} bytes", text.len());
}

/// A client that reads nothing costs only its own stream, and streams have a limit.
#[test]
fn slow_and_many_streams_are_bounded() {
    let server = server().line("maxClientCnxns=0").start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/w", b"0").status, 201);
    let streams: Vec<Events> = (0..64).map(|_| Events::open(api, "/tree/w?watch", &[])).collect();
    let refusal = api.get("/tree/w?watch");
    refused(&refusal, 503, "THROTTLEDOP");
    assert!(refusal.header("retry-after").is_some());
    // None of them reads; the server goes on.
    for number in 0..400 {
        assert_eq!(api.put("/tree/w", number.to_string().as_bytes()).status, 200);
    }
    drop(streams);
    eventually("a place is free", || {
        let mut stream = connect(api.address);
        stream.write_all(&request("GET", "/tree/w?watch", &[], b"")).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        &head == b"HTTP/1.1 200"
    });
}
