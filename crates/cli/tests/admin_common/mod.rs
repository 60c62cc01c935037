//! Recorded HTTP exchanges and a blocking HTTP client for tests of the admin server.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use zebu_proto::client::ConnectRequest;
use zebu_proto::{Acl, OpCode, Permissions};
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, ServerProcess};

use crate::common::{create_body, path_and_watch};

pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
/// `super:secret` as `superDigest`.
pub(crate) const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
pub(crate) const AS_SUPER: &str = "digest super:secret";

/// A response, with header names in lower case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the headers");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let (status, headers) = parse_head(&head);
        let mut body = bytes[end + 4..].to_vec();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            body = join_chunks(&body);
        }
        Answer { status, headers, body }
    }
}

fn parse_head(head: &str) -> (u16, BTreeMap<String, String>) {
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    });
    (status.unwrap_or_else(|| panic!("no status in {head:?}")), headers.collect())
}

fn join_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[(end + length + 4).min(bytes.len())..];
    }
    body
}

/// Sends bytes and reads to the end of the connection.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Answer {
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.read_to_end(&mut answer);
    Answer::parse(&answer)
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, TIME_LIMIT).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// A request with the header that it needs and further lines.
pub(crate) fn request(method: &str, path: &str, lines: &[&str], body: &str) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{length}{lines}\r\n{body}")
        .into_bytes()
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(connect(address), &request("GET", path, &[], ""))
}

pub(crate) fn get_as(address: SocketAddr, path: &str, authorization: &str) -> Answer {
    let line = format!("Authorization: {authorization}");
    exchange(connect(address), &request("GET", path, &[&line], ""))
}

/// The value of a key in a JSON answer.
pub(crate) fn value(answer: &Answer, key: &str) -> serde_json::Value {
    let object: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| {
        panic!("{error} in {}", answer.text());
    });
    object[key].clone()
}

/// A recorded exchange.
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// The request line and headers, without `Content-Length`.
    head: Vec<String>,
    body: String,
    pub(crate) answer: Answer,
}

impl Recorded {
    /// The request as it was sent, with other credentials if they are given.
    pub(crate) fn request(&self, authorization: Option<&str>) -> Vec<u8> {
        self.request_with(authorization, self.body.as_bytes())
    }

    /// The request with another body: recorded snapshots are files of their own.
    pub(crate) fn request_with(&self, authorization: Option<&str>, body: &[u8]) -> Vec<u8> {
        let mut text = String::new();
        for line in &self.head {
            match (line.split_once(": "), authorization) {
                (Some(("Authorization", _)), Some(other)) => text += &format!("Authorization: {other}\r\n"),
                _ => text += &format!("{line}\r\n"),
            }
        }
        if !self.head.iter().any(|line| line == "Connection: close") {
            text += "Connection: close\r\n";
        }
        if self.head[0].starts_with("P") {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        [format!("{text}\r\n").as_bytes(), body].concat()
    }
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../admin/testdata/exchanges"))
}

/// All recorded exchanges whose name begins so, by name.
pub(crate) fn recorded(prefix: &str) -> Vec<Recorded> {
    let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "http"))
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    files.sort();
    let exchanges: Vec<Recorded> = files.iter().map(read_exchange).collect();
    assert!(!exchanges.is_empty(), "no exchanges {prefix}");
    exchanges
}

fn read_exchange(path: &PathBuf) -> Recorded {
    let text = fs::read_to_string(path).unwrap();
    let begin = text.find("\nHTTP/1.1 ").expect("a status line") + 1;
    let (sent, received) = text.split_at(begin);
    let (head, body) = sent.split_once("\n\n").unwrap_or((sent, ""));
    let head = head
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("Content-Length"))
        .map(str::to_owned)
        .collect();
    let (answer_head, answer_body) = received.split_once("\n\n").unwrap_or((received, ""));
    let (status, headers) = parse_head(answer_head);
    let answer = Answer { status, headers, body: answer_body.trim_end_matches('\n').as_bytes().to_vec() };
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    Recorded { name, head, body: body.trim_end_matches('\n').to_owned(), answer }
}

/// Keys whose texts depend on the machine, on time or on the implementation.
const FREE_TEXTS: [&str; 8] = [
    "version",
    "data_dir",
    "data_log_dir",
    "initial_configuration",
    "last_operation",
    "zxid",
    "leader_ip",
    "last_zxid",
];

/// The answer without numbers and without texts that are free. Layout, keys, order and types stay.
pub(crate) fn masked(text: &str) -> Vec<String> {
    // Empty sets of sessions come and go with time.
    let lines = text.lines().map(mask_line).filter(|line| !line.trim().starts_with("\"#\" : [ ]"));
    lines.collect()
}

fn mask_line(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            out += &mask_text(&rest[..end]);
            rest = &rest[end..];
        } else if first.is_ascii_digit() || first == '-' {
            let end = rest.find(|c: char| !c.is_ascii_digit() && !"-.E".contains(c)).unwrap_or(rest.len());
            out += if rest[..end].contains('.') { "#.#" } else { "#" };
            rest = &rest[end..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    if let Some((key, value)) = out.split_once(" : ")
        && value.starts_with('"')
        && FREE_TEXTS.contains(&key.trim().trim_matches('"'))
    {
        let comma = if value.ends_with(',') { "," } else { "" };
        return format!("{key} : \"*\"{comma}");
    }
    sort_array(&out)
}

fn mask_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match (c.is_ascii_digit(), out.ends_with('#')) {
            (true, true) => {}
            (true, false) => out.push('#'),
            (false, _) => out.push(c),
        }
    }
    out
}

/// The paths of a session have no order.
fn sort_array(line: &str) -> String {
    let (Some(begin), Some(end)) = (line.find("[ \""), line.rfind(" ]")) else { return line.to_owned() };
    let mut items: Vec<&str> = line[begin + 2..end].split(", ").collect();
    items.sort_unstable();
    format!("{}[ {}{}", &line[..begin], items.join(", "), &line[end..])
}

/// Creates the state of the recorded servers with two sessions, which stay open.
pub(crate) fn create_recorded_state(address: SocketAddr) -> Vec<RawClient> {
    let (mut first, _) = RawClient::open(address).unwrap();
    // Another timeout than the first one, as in the recorded state: they expire at different times.
    let mut second = RawClient::connect(address).unwrap();
    let short = ConnectRequest { timeout_ms: 5_000, ..new_session_request() };
    second.handshake(&short).unwrap();
    let open = || vec![Acl::new(Permissions::ALL, "world", "anyone")];
    for path in ["/app", "/app/config", "/app/members", "/locks", "/locks/one"] {
        call(&mut first, OpCode::Create, create_body(path, b"", open(), 0));
    }
    let locks = ["1", "2"].map(|digit| format!("/locks/one/{}__lock__", digit.repeat(32)));
    for (client, member, lock) in [(&mut first, "a", &locks[0]), (&mut second, "b", &locks[1])] {
        call(client, OpCode::Create, create_body(lock, b"", open(), 3));
        call(client, OpCode::Create, create_body(&format!("/app/members/{member}"), b"", open(), 1));
        call(client, OpCode::GetData, path_and_watch("/app/config", true));
    }
    let (_, reply, _) = first.call(OpCode::Exists, path_and_watch("/app/absent", true)).unwrap();
    assert_eq!(reply.err, -101);
    vec![first, second]
}

pub(crate) fn call(client: &mut RawClient, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) {
    let (_, reply, _) = client.call(op, body).unwrap();
    assert_eq!(reply.err, 0, "{op:?}");
}

/// The port that the server chose; its log names it.
pub(crate) fn port_of(server: &ServerProcess, what: &str) -> SocketAddr {
    let output = server.output();
    let line = output.lines().rev().find(|line| line.contains(&format!("{what} listens")));
    let line = line.unwrap_or_else(|| panic!("no {what} in {output}"));
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    address.parse().unwrap()
}

pub(crate) fn admin_port(server: &ServerProcess) -> SocketAddr {
    port_of(server, "admin server")
}

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {TIME_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
