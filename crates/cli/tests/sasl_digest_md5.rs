//! Every recorded variation of a DIGEST-MD5 response, through a socket to the server.

mod common;
mod sasl_common;

use std::fs;
use std::time::Duration;

use common::*;
use sasl_common::*;
use serde_json::Value;
use zebu_proto::OpCode;
use zebu_testing::{RawClient, Received};

const TIME_LIMIT: Duration = Duration::from_secs(20);

fn expect_closed(client: &mut RawClient, what: &str) {
    assert_eq!(client.receive(TIME_LIMIT).expect(what), Received::Closed, "{what}");
}

fn expect_refused(client: &mut RawClient, token: &[u8], what: &str) {
    let (header, token) = send_token(client, Some(token)).expect(what);
    assert_eq!((header.err, header.zxid, token), (-115, 0, None), "{what}");
    expect_closed(client, what);
}

#[test]
fn recorded_cases() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../security/testdata/digest-md5-cases.json");
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(cases.len(), 48);
    let server = SaslServer::start(&[]);
    for case in &cases {
        let name = case["case"].as_str().unwrap();
        let mut client = server.client();
        let nonce = challenge(&mut client, if name.starts_with("first token") { b"x" } else { b"" });
        if name.starts_with("create between") {
            create(&mut client, "/between", b"");
        }
        let token = token_of(name, &nonce);
        // Java closes without a reply where its library throws; no id is given either way.
        let is_refused = case["err"] == -115 || name == "maxbuf=abc" || name.starts_with("user al@ice");
        if name == "a further token after success" {
            assert_eq!(send_token(&mut client, token.as_deref()).unwrap().0.err, 0);
            expect_refused(&mut client, b"", name);
        } else if token.is_none() {
            client.send(OpCode::Sasl, |out| out.extend([0xff; 4])).unwrap();
            expect_closed(&mut client, name);
        } else if is_refused {
            expect_refused(&mut client, &token.unwrap(), name);
        } else {
            let (header, proof) = send_token(&mut client, token.as_deref()).expect(name);
            assert_eq!(header.err, 0, "{name}");
            assert!(proof.unwrap().starts_with(b"rspauth="), "{name}");
            let expected: Vec<String> = match case["then"].as_str().unwrap() {
                "create is carried out" => vec!["sasl:bob".to_owned()],
                then => then.split(" and ").map(str::to_owned).collect(),
            };
            assert_eq!(ids(&mut client), expected, "{name}");
        }
    }
    let failures = monitored(&server.server, "auth_failed_count");
    assert!(failures > 20, "{failures}");
}

#[test]
fn responses_at_the_limits() {
    let server = SaslServer::start(&[]);
    let filled = |nonce: &str, size: usize| {
        let token = bob().token(nonce);
        [&token[..], b",foo=", &vec![b'x'; size - token.len() - 5]].concat()
    };
    for (size, error) in [(4096, 0), (4097, -115)] {
        let mut client = server.client();
        let nonce = challenge(&mut client, b"");
        let (header, _) = send_token(&mut client, Some(&filled(&nonce, size))).unwrap();
        assert_eq!(header.err, error, "{size}");
    }
    let mut client = server.client();
    let nonce = challenge(&mut client, b"");
    let many = [&bob().token(&nonce)[..], &b",a=b".repeat(900)].concat();
    assert_eq!(send_token(&mut client, Some(&many)).unwrap().0.err, 0);
    for broken in [&b",a=\"b\\"[..], b",a=\"b", b",realm=\"zk-sasl-md5\"", b",=b", b",a b"] {
        let mut client = server.client();
        let nonce = challenge(&mut client, b"");
        expect_refused(&mut client, &[&bob().token(&nonce)[..], broken].concat(), "broken");
    }
    let mut client = server.client();
    let nonce = challenge(&mut client, b"");
    expect_refused(&mut client, &DigestResponse::of("bob\0", "bobsecret").token(&nonce), "NUL in the user");
    assert_eq!(authenticate(&mut server.client(), "bob", "bobsecret"), 0);
}

#[test]
fn a_nonce_serves_one_response_of_one_connection() {
    let server = SaslServer::start(&[]);
    let mut first = server.client();
    let nonce = challenge(&mut first, b"");
    let response = bob().token(&nonce);
    assert_eq!(send_token(&mut first, Some(&response)).unwrap().0.err, 0);
    let mut other = server.client();
    assert_ne!(challenge(&mut other, b""), nonce);
    expect_refused(&mut other, &response, "a replay on another connection");
    let kept = SaslServer::start(&["allowSaslFailedClients=true"]);
    let mut client = kept.client();
    let nonce = challenge(&mut client, b"");
    for token in [DigestResponse::of("bob", "wrong").token(&nonce), bob().token(&nonce)] {
        let (header, answer) = send_token(&mut client, Some(&token)).unwrap();
        assert_eq!((header.err, answer), (0, None), "the nonce is spent");
    }
    assert_eq!(ids(&mut client), Vec::<String>::new());
}

#[test]
fn known_and_unknown_users_get_the_same_answer() {
    let server = SaslServer::start(&[]);
    let mut answers = Vec::new();
    for (user, password) in [("bob", "wrong"), ("nobody", ""), ("empty", "x")] {
        let mut client = server.client();
        let nonce = challenge(&mut client, b"");
        let (header, token) =
            send_token(&mut client, Some(&DigestResponse::of(user, password).token(&nonce))).unwrap();
        answers.push((header.err, header.zxid, token));
        expect_closed(&mut client, user);
    }
    assert_eq!(answers, vec![(-115, 0, None); 3]);
    let output = server.server.output();
    assert!(output.contains("SASL authentication failed"), "{output}");
    assert!(!output.contains("bobsecret"), "no password in the log");
}
