//! Feeds as server-sent events: order, resume, and the answer for what is gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;
use zebu_testing::{ServerProcess, ServerProcessBuilder};

use crate::admin_common::connect;
use crate::api::{Api, json, refused, request, server};
use crate::processes::TIME_LIMIT;

fn feeding_server() -> ServerProcessBuilder {
    server().line("feed.readers=world:anyone")
}

/// An open stream and the lines that came.
struct FeedStream {
    stream: TcpStream,
    text: String,
}

impl FeedStream {
    fn open(api: Api, path: &str, lines: &[&str]) -> FeedStream {
        let mut stream = connect(api.address);
        stream.write_all(&request("GET", path, lines, b"")).unwrap();
        let mut feed = FeedStream { stream, text: String::new() };
        feed.wait_for("event: ready\nid: 0x");
        assert!(feed.text.contains("content-type: text/event-stream"), "{}", feed.text);
        feed
    }

    fn wait_for(&mut self, expected: &str) {
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + TIME_LIMIT;
        // The whole event must have come.
        while !self.text.rfind(expected).is_some_and(|place| self.text[place..].contains("\n\n")) {
            assert!(Instant::now() < deadline, "no {expected:?} came: {}", self.text);
            let count =
                self.stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error}: {}", self.text));
            assert!(count > 0, "the stream ended before {expected:?}: {}", self.text);
            self.text += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    /// The transactions up to the one that changes this path.
    fn until(mut self, path: &str) -> Vec<Value> {
        self.wait_for(&format!("\"path\":\"{path}\""));
        let mut transactions = Vec::new();
        for block in self.text.split("\n\n").filter(|block| block.contains("event: change\n")) {
            let id = block.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
            let data = block.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            let Ok(transaction) = serde_json::from_str::<Value>(data) else { break };
            assert_eq!(transaction["zxid"], id);
            transactions.push(transaction);
        }
        transactions
    }
}

/// Type and path of each change.
fn changes(transactions: &[Value]) -> Vec<(String, String)> {
    let changes = transactions.iter().flat_map(|transaction| transaction["changes"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    changes.map(|change| (text(&change["type"]), text(&change["path"]))).collect()
}

fn expected(changes: &[(&str, &str)]) -> Vec<(String, String)> {
    changes.iter().map(|(kind, path)| ((*kind).to_owned(), (*path).to_owned())).collect()
}

fn restarted(server: &mut ServerProcess) -> Api {
    server.restart().unwrap();
    Api::of(server)
}

#[test]
fn a_stream_goes_on_behind_the_last_event_over_a_restart() {
    let mut server = feeding_server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/f", b"0").status, 201);
    let feed = FeedStream::open(api, "/feed?prefix=/f&data", &[]);
    assert_eq!(api.put("/tree/other", b"x").status, 201);
    let multi =
        br#"{"ops":[{"create":"/f/a","data":"1"},{"set":"/other","data":"y"},{"set":"/f","data":"2"}]}"#;
    assert_eq!(api.post("/multi", multi).status, 200);
    assert_eq!(api.put("/tree/f/bytes", &[255, 0]).status, 201);
    let shown = feed.until("/f/bytes");
    let all = [("created", "/f/a"), ("data", "/f"), ("created", "/f/bytes")];
    assert_eq!(changes(&shown), expected(&all));
    assert_eq!(shown.len(), 2, "a multi is one transaction");
    assert_eq!(shown[0]["changes"][1]["data"], "2");
    assert_eq!(shown[1]["changes"][0]["base64"], "/wA=");
    let api = restarted(&mut server);
    assert_eq!(api.delete("/tree/f/bytes").status, 204);
    let last = format!("Last-Event-ID: {}", shown[0]["zxid"].as_str().unwrap());
    let rest = FeedStream::open(api, "/feed?prefix=/f&data&after=0", &[&last]);
    let rest = {
        let mut rest = rest;
        rest.wait_for("\"type\":\"deleted\"");
        rest.until("/f/bytes")
    };
    assert_eq!(rest[0], shown[1]);
    assert_eq!(changes(&rest), expected(&[("created", "/f/bytes"), ("deleted", "/f/bytes")]));
    let from_the_begin = FeedStream::open(api, "/feed?prefix=/f&prefix=/other&after=0", &[]);
    let from_the_begin = from_the_begin.until("/f/bytes");
    assert_eq!(changes(&from_the_begin)[..2], expected(&[("created", "/f"), ("created", "/other")]));
    assert!(from_the_begin[0]["changes"][0].get("data").is_none());
}

#[test]
fn what_the_log_no_longer_has_is_gone() {
    let mut server = feeding_server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/f", b"0").status, 201);
    let version_dir = server.data_dir().join("version-2");
    let logs: Vec<_> = std::fs::read_dir(&version_dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
        .collect();
    let api = restarted(&mut server);
    assert_eq!(api.put("/tree/f", b"1").status, 200);
    logs.iter().for_each(|log| std::fs::remove_file(log).unwrap());
    let answer = api.get("/feed?prefix=/f&after=0");
    assert!(json(&answer)["oldest"].as_str().unwrap().starts_with("0x"));
    refused(&answer, 410, "LOGPURGED");
}

#[test]
fn a_feed_that_makes_no_sense_or_is_not_permitted_is_refused() {
    let server = feeding_server().start().unwrap();
    let api = Api::of(&server);
    for path in ["/feed?prefix=f", "/feed?after=x", "/feed?after=-2", "/feed?prefix=/f&stat"] {
        refused(&api.get(path), 400, "BADARGUMENTS");
    }
    let many: String = (0..17).map(|number| format!("&prefix=/{number}")).collect();
    refused(&api.get(&format!("/feed?data{many}")), 400, "BADARGUMENTS");
    let owner = ["Authorization: digest a:b"];
    assert_eq!(api.call("POST", "/tree/secret?acl=auth::cdrwa", &owner, b"").status, 201);
    refused(&api.get("/feed?prefix=/secret"), 401, "NOAUTH");
    let closed = crate::api::server().start().unwrap();
    refused(&Api::of(&closed).get("/feed"), 401, "NOAUTH");
    let off = crate::api::server().line("feed.max=0").start().unwrap();
    refused(&Api::of(&off).get("/feed"), 501, "UNIMPLEMENTED");
}
