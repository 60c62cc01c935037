//! A random sequence of requests has the same results over HTTP and over the client protocol.

use std::fmt::Write as _;

use serde_json::{Value, json};
use zebu_proto::client::reply::{Create2Response, GetChildren2Response, GetDataResponse};
use zebu_proto::client::{CreateMode, DeleteRequest, SetAclRequest, SetDataRequest};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode, Reader, Stat};
use zebu_testing::RawClient;

use crate::admin_common::Answer;
use crate::api::{Api, json, server};
use crate::common::{create_body, open, path_and_watch};

/// A small generator; the seed names the sequence.
struct Choices(u64);

impl Choices {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }
}

#[derive(Clone, Debug)]
enum Request {
    Create(String, Vec<u8>, CreateMode),
    Set(String, Vec<u8>, Option<i32>),
    Delete(String, Option<i32>),
    Get(String),
    List(String),
    SetAcl(String, i32),
}

impl Request {
    fn random(choices: &mut Choices) -> Request {
        let mut path = String::new();
        for _ in 0..=choices.below(3) {
            write!(path, "/{}", ["a", "b", "c ä"][choices.below(3) as usize]).unwrap();
        }
        let data = vec![choices.below(256) as u8; choices.below(4) as usize];
        let version = (choices.below(2) == 0).then(|| choices.below(3) as i32);
        match choices.below(10) {
            0..=2 => Request::Create(path, data, CreateMode::Persistent),
            3 => Request::Create(path, data, CreateMode::PersistentSequential),
            4 | 5 => Request::Set(path, data, version),
            6 => Request::Delete(path, version),
            7 => Request::Get(path),
            8 => Request::List(path),
            // The permission to write comes and goes; those to read and to delete stay.
            _ => Request::SetAcl(path, [31, 29][choices.below(2) as usize]),
        }
    }
}

/// What a client sees, without zxids and times.
#[derive(Debug, PartialEq)]
struct Seen {
    error: Option<String>,
    path: Option<String>,
    data: Option<Vec<u8>>,
    children: Option<Vec<String>>,
    /// Version, cversion, aversion, length of the data and number of children.
    stat: Option<[i64; 5]>,
}

fn nothing() -> Seen {
    Seen { error: None, path: None, data: None, children: None, stat: None }
}

fn stat_of(stat: &Stat) -> Option<[i64; 5]> {
    let Stat { version, cversion, aversion, data_length, num_children, .. } = *stat;
    Some([version, cversion, aversion, data_length, num_children].map(i64::from))
}

fn encoded(path: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        match byte.is_ascii_alphanumeric() || byte == b'/' || byte == b'-' {
            true => text.push(char::from(byte)),
            false => write!(text, "%{byte:02x}").unwrap(),
        }
        text
    })
}

fn over_http(api: Api, root: &str, request: &Request) -> Seen {
    let url = |kind: &str, path: &str| format!("/{kind}{}", encoded(&format!("{root}{path}")));
    let if_match = |version: Option<i32>| match version {
        Some(version) => format!("If-Match: \"{version}\""),
        None => "If-Match: *".to_owned(),
    };
    let answer = match request {
        Request::Create(path, data, CreateMode::Persistent) => {
            api.call("PUT", &url("tree", path), &["If-None-Match: *"], data)
        }
        Request::Create(path, data, _) => api.post(&format!("{}?mode=sequential", url("tree", path)), data),
        Request::Set(path, data, version) => {
            api.call("PUT", &url("tree", path), &[&if_match(*version)], data)
        }
        Request::Delete(path, version) => api.call("DELETE", &url("tree", path), &[&if_match(*version)], b""),
        Request::Get(path) => api.get(&format!("{}?base64", url("tree", path))),
        Request::List(path) => api.get(&format!("{}?children&limit=1000", url("tree", path))),
        Request::SetAcl(path, perms) => {
            let perms = if *perms == 31 { "cdrwa" } else { "cdra" };
            let body = json!({"acl": [{"scheme": "world", "id": "anyone", "perms": perms}]});
            api.call("PUT", &url("acl", path), &[], body.to_string().as_bytes())
        }
    };
    seen_over_http(&answer, root)
}

fn seen_over_http(answer: &Answer, root: &str) -> Seen {
    if answer.status >= 400 {
        return Seen { error: json(answer)["code"].as_str().map(str::to_owned), ..nothing() };
    }
    if answer.status == 204 {
        return nothing();
    }
    let value = json(answer);
    let number = |name: &str| value["stat"][name].as_i64().unwrap();
    let stat = ["version", "cversion", "aversion", "dataLength", "numChildren"].map(number);
    let names = value["children"].as_array();
    let name = |child: &Value| child["name"].as_str().unwrap().to_owned();
    Seen {
        error: None,
        path: (answer.status == 201).then(|| value["path"].as_str().unwrap().replacen(root, "", 1)),
        data: value["base64"].as_str().map(|text| {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.decode(text).unwrap()
        }),
        children: names.map(|names| names.iter().map(name).collect()),
        stat: Some(stat),
    }
}

fn over_protocol(client: &mut RawClient, root: &str, request: &Request) -> Seen {
    let at = |path: &str| format!("{root}{path}");
    let text = |path: &str| Some(at(path).into_boxed_str());
    let version = |version: Option<i32>| version.unwrap_or(-1);
    let (op, reply) = match request {
        Request::Create(path, data, mode) => {
            let path = at(path);
            let body = create_body(&path, data, Acl::open(), mode.flags());
            (OpCode::Create2, client.call(OpCode::Create2, body))
        }
        Request::Set(path, data, wanted) => {
            let set = SetDataRequest {
                path: text(path),
                data: Some(data.clone().into()),
                version: version(*wanted),
            };
            (OpCode::SetData, client.call(OpCode::SetData, |out| set.encode(out)))
        }
        Request::Delete(path, wanted) => {
            let delete = DeleteRequest { path: text(path), version: version(*wanted) };
            (OpCode::Delete, client.call(OpCode::Delete, |out| delete.encode(out)))
        }
        Request::Get(path) => {
            (OpCode::GetData, client.call(OpCode::GetData, path_and_watch(&at(path), false)))
        }
        Request::List(path) => {
            (OpCode::GetChildren2, client.call(OpCode::GetChildren2, path_and_watch(&at(path), false)))
        }
        Request::SetAcl(path, perms) => {
            let acl = Some(vec![Acl::new(*perms, "world", "anyone")].into());
            let set = SetAclRequest { path: text(path), acl, version: -1 };
            (OpCode::SetAcl, client.call(OpCode::SetAcl, |out| set.encode(out)))
        }
    };
    let (_, header, body) = reply.unwrap();
    if let Some(code) = ErrorCode::from_wire(header.err) {
        return Seen { error: Some(code.name().to_uppercase()), ..nothing() };
    }
    let reader = &mut Reader::new(&body);
    match op {
        OpCode::Create2 => {
            let created = Create2Response::decode(reader).unwrap();
            let path = created.path.unwrap().replacen(root, "", 1);
            Seen { path: Some(path), stat: stat_of(&created.stat), ..nothing() }
        }
        OpCode::GetData => {
            let read = GetDataResponse::decode(reader).unwrap();
            Seen { data: read.data.map(|data| data.to_vec()), stat: stat_of(&read.stat), ..nothing() }
        }
        OpCode::GetChildren2 => {
            let read = GetChildren2Response::decode(reader).unwrap();
            let mut names: Vec<String> = read.children.into_iter().map(String::from).collect();
            names.sort();
            Seen { children: Some(names), stat: stat_of(&read.stat), ..nothing() }
        }
        OpCode::Delete => nothing(),
        _ => Seen { stat: stat_of(&Stat::decode(reader).unwrap()), ..nothing() },
    }
}

#[test]
fn http_and_the_client_protocol_agree() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let (mut client, _) = open(&server);
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 1..=6_u64 {
        let (http, protocol) = (format!("/h{seed}"), format!("/p{seed}"));
        for root in [&http, &protocol] {
            assert_eq!(api.put(&format!("/tree{root}"), b"").status, 201);
        }
        let mut choices = Choices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut history = Vec::new();
        for _ in 0..120 {
            let request = Request::random(&mut choices);
            let expected = over_protocol(&mut client, &protocol, &request);
            let seen = over_http(api, &http, &request);
            history.push(request);
            assert_eq!(seen, expected, "seed {seed}: {history:#?}");
            outcomes.extend(expected.error);
        }
        // The trees are equal, read crosswise.
        let mut paths = vec![String::new()];
        while let Some(path) = paths.pop() {
            for request in [Request::Get(path.clone()), Request::List(path.clone())] {
                let here = over_http(api, &http, &request);
                assert_eq!(here, over_http(api, &protocol, &request), "seed {seed} {path}");
                assert_eq!(here, over_protocol(&mut client, &http, &request), "seed {seed} {path}");
                paths.extend(here.children.into_iter().flatten().map(|name| format!("{path}/{name}")));
            }
        }
    }
    // The sequences reached these errors.
    for code in ["NONODE", "NODEEXISTS", "NOTEMPTY", "BADVERSION", "NOAUTH"] {
        assert!(outcomes.contains(code), "{outcomes:?}");
    }
}
