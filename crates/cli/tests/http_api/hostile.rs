//! Input that no honest client sends.

use std::io::{Read, Write};

use crate::admin_common::{Answer, connect, eventually};
use crate::api::{Api, json, refused, request, server};

#[test]
fn paths_that_are_no_paths_are_refused() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    for path in [
        "/tree/../etc/passwd",
        "/tree/a/../b",
        "/tree/%2e%2e/x",
        "/tree/a%2F..%2Fb",
        "/tree/.",
        "/tree//a",
        "/tree/a/",
        "/tree/%00",
        "/tree/a%0Ab",
        "/tree/%ff",
        "/tree/%C3%28",
        "/tree/%ED%A0%80",
        "/tree/%",
        "/tree/%4",
        "/tree/%zz",
        "/acl/../x",
    ] {
        for method in ["GET", "PUT"] {
            refused(&api.call(method, path, &[], b"{}"), 400, "BADARGUMENTS");
        }
    }
    for query in ["%", "a=%ff", "stat&stat", "nothing", "STAT", "watch=&watch="] {
        refused(&api.get(&format!("/tree/zookeeper?{query}")), 400, "BADARGUMENTS");
    }
    assert_eq!(
        json(&api.get("/tree/?children"))["children"].as_array().unwrap().len(),
        1,
        "nothing was created"
    );
}

#[test]
fn broken_requests_end_their_connection_only() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let long = vec![b'a'; 100_000];
    for bytes in [
        &b"\x00\x00\x00\x2d\x00\x00\x00\x00"[..],
        b"GET /v1/tree/\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"PUT /v1/tree/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\nx",
        b"PUT /v1/tree/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxxx",
        b"PUT /v1/tree/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PUT /v1/tree/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nshort",
        b"GET /v1/tree/zookeeper HTTP/9\r\n\r\n",
        &long,
    ] {
        let answer = api.raw(bytes);
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
    refused(&api.get("/tree/x"), 404, "NONODE");
    assert_eq!(api.put("/tree/ok", b"").status, 201);
}

#[test]
fn bodies_are_bounded() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    // The length is refused before the body comes.
    let head = "PUT /v1/tree/big HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n";
    let answer = Answer::parse(&api.raw(head.as_bytes()));
    refused(&answer, 413, "BADARGUMENTS");
    // A body without a length is refused when it is too long.
    let mut chunked =
        b"PUT /v1/tree/big HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..17 {
        chunked.extend(b"10000\r\n");
        chunked.extend(vec![b'x'; 0x10000]);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let answer = api.raw(&chunked);
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    refused(&api.get("/tree/big"), 404, "NONODE");
    // Deep JSON does not end the process.
    let deep = format!("{{\"ops\":{}", "[".repeat(200_000));
    refused(&api.post("/multi", deep.as_bytes()), 400, "BADARGUMENTS");
    let many = format!("{{\"ops\":[{}]}}", vec!["{\"check\":\"/a\"}"; 10_001].join(","));
    refused(&api.post("/multi", many.as_bytes()), 413, "BADARGUMENTS");
    assert_eq!(api.put("/tree/ok", &vec![b'x'; 1_000_000]).status, 201);
    assert_eq!(api.get("/tree/ok").body.len(), 1_000_000);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let mut stream = connect(api.address);
    let mut bytes = Vec::new();
    for number in 0..20 {
        let body = format!("{number}");
        bytes.extend(
            format!(
                "PUT /v1/tree/p HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}\
                 GET /v1/tree/p HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                body.len()
            )
            .bytes(),
        );
    }
    bytes.extend(request("GET", "/tree/p?stat", &[], b""));
    stream.write_all(&bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut rest = answer.as_str();
    for number in 0..20 {
        // Each read sees the write before it.
        let place =
            rest.find(&format!("\r\n\r\n{number}HTTP/1.1")).unwrap_or_else(|| panic!("{number} in {rest}"));
        rest = &rest[place + 4..];
    }
    assert!(rest.contains("\"version\":19"), "{rest}");
}

/// Clients that send or read nothing take no place from others for long.
#[test]
fn slow_clients_cost_only_themselves() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.put("/tree/big", &vec![b'x'; 900_000]).status, 201);
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut stream = connect(api.address);
        let bytes = match number % 3 {
            0 => {
                b"PUT /v1/tree/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\nx".to_vec()
            }
            1 => b"GET /v1/tree/big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_vec(),
            _ => b"GET /v1/tr".to_vec(),
        };
        stream.write_all(&bytes).unwrap();
        slow.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(api.get("/tree/zookeeper").status, 200);
        assert!(api.put("/tree/quick", b"x").status < 300);
    }
    // Long bodies that are announced and not sent use up their memory, and others are told so.
    let refusal = api.put("/tree/other", &vec![b'x'; 100_000]);
    refused(&refusal, 503, "THROTTLEDOP");
    drop(slow);
    eventually("the memory is free again", || api.put("/tree/other", &vec![b'x'; 100_000]).status < 300);
    refused(&api.get("/tree/slow"), 404, "NONODE");
}
