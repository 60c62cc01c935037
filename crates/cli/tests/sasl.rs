//! SASL for clients: the outcomes, enforcement, ACLs, limits and the reload of users.

mod common;
mod sasl_common;

use std::fs;
use std::time::{Duration, Instant};

use common::*;
use sasl_common::*;
use tempfile::TempDir;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, OpCode, Permissions};
use zebu_testing::{RawClient, Received};

const TIME_LIMIT: Duration = Duration::from_secs(20);

fn expect_closed(client: &mut RawClient, what: &str) {
    assert_eq!(client.receive(TIME_LIMIT).expect(what), Received::Closed, "{what}");
}

/// The outcome of a wrong password: the error, and whether the connection stays.
fn wrong_password(server: &SaslServer) -> (i32, bool) {
    let (mut client, session) = open(&server.server);
    let nonce = challenge(&mut client, b"");
    let response = DigestResponse::of("bob", "wrong").token(&nonce);
    let (header, token) = send_token(&mut client, Some(&response)).expect("an answer");
    assert_eq!(token, None, "a body with a null token");
    let is_open = client.receive(Duration::from_millis(200)).expect("an answer") == Received::Nothing;
    drop(client);
    let (_, resumed) = RawClient::resume(server.server.address(), &session).expect("an answer");
    assert_eq!(resumed.session_id, session.id.0, "the session lives on");
    (header.err, is_open)
}

#[test]
fn outcomes_of_a_failure() {
    assert_eq!(wrong_password(&SaslServer::start(&[])), (-115, false));
    assert_eq!(wrong_password(&SaslServer::start(&["allowSaslFailedClients=true"])), (0, true));
    assert_eq!(wrong_password(&SaslServer::start(&["sessionRequireClientSASLAuth=true"])), (-124, false));
    let both = ["sessionRequireClientSASLAuth=true", "allowSaslFailedClients=true"];
    assert_eq!(wrong_password(&SaslServer::start(&both)), (-124, false));
    let named = ["enforce.auth.enabled=true", "enforce.auth.schemes=digest, sasl"];
    assert_eq!(wrong_password(&SaslServer::start(&named)), (-124, false));
}

#[test]
fn a_server_without_users_refuses() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("jaas.conf");
    fs::write(&path, jaas(&[])).unwrap();
    let empty = directory.path().join("empty.conf");
    fs::write(&empty, "").unwrap();
    for builder in [
        server(),
        server().line(PROVIDER),
        builder(&empty).line(PROVIDER),
        builder(&path).line(PROVIDER).line("fips-mode=true"),
        builder(&path).property("zookeeper.sasl.serverconfig", "Other"),
    ] {
        let server = builder.start().unwrap();
        let (mut client, session) = open(&server);
        let (header, token) = send_token(&mut client, Some(b"")).unwrap();
        assert_eq!((header.err, header.zxid, token), (-115, 0, None));
        expect_closed(&mut client, "no SASL");
        RawClient::resume(server.address(), &session).unwrap();
        assert_eq!(monitored(&server, "auth_failed_count"), 1);
    }
}

#[test]
fn enforcement_ends_connections_without_the_scheme() {
    let server = SaslServer::start(&["sessionRequireClientSASLAuth=true"]);
    let requests: [(OpCode, &[u8]); 5] = [
        (OpCode::GetData, b"\0\0\0\x01/\0"),
        (OpCode::Ping, b""),
        (OpCode::CloseSession, b""),
        (OpCode::WhoAmI, b""),
        (OpCode::Create, b""),
    ];
    for (op, body) in requests {
        let mut client = server.client();
        challenge(&mut client, b"");
        let (_, header, rest) = client.call(op, |out| out.extend_from_slice(body)).unwrap();
        assert_eq!((header.err, header.zxid, rest.len()), (-124, 0, 0), "{op:?}");
        expect_closed(&mut client, "not authenticated");
    }
    // auth packets are answered, but their scheme is not the required one.
    let mut client = server.client();
    for _ in 0..100 {
        done(&mut client, OpCode::Auth, auth_body("digest", b"me:pw"));
    }
    assert_eq!(refused(&mut client, OpCode::Ping, |_| ()), Some(ErrorCode::SessionClosedRequireSaslAuth));
    let mut client = server.client();
    assert_eq!(authenticate(&mut client, "bob", "bobsecret"), 0);
    create(&mut client, "/works", b"");
    done(&mut client, OpCode::CloseSession, |_| ());
}

#[test]
fn acls_of_sasl_users() {
    let server = SaslServer::start(&["letAnySaslUserDoX=users"]);
    let mut nobody = server.client();
    let mut bob = server.client();
    assert_eq!(authenticate(&mut bob, "bob", "bobsecret"), 0);
    let mut root = server.client();
    assert_eq!(authenticate(&mut root, "super", "adminsecret"), 0);
    assert_eq!(ids(&mut root), ["sasl:super", "super:"]);
    let with_acl = |client: &mut RawClient, path: &str, scheme: &str, id: &str| {
        let acl = vec![Acl::new(Permissions::ALL, scheme, id)];
        refused(client, OpCode::Create, create_body(path, b"", acl, 0))
    };
    assert_eq!(with_acl(&mut bob, "/bob", "auth", ""), None);
    assert_eq!(with_acl(&mut nobody, "/eve", "sasl", "eve/host@REALM"), None);
    assert_eq!(with_acl(&mut nobody, "/users", "sasl", "users"), None);
    assert_eq!(with_acl(&mut nobody, "/bad", "sasl", "a/b/c@R"), Some(ErrorCode::InvalidAcl));
    assert_eq!(with_acl(&mut nobody, "/none", "auth", ""), Some(ErrorCode::InvalidAcl));
    let read =
        |client: &mut RawClient, path: &str| refused(client, OpCode::GetData, path_and_watch(path, false));
    for (path, of_bob, of_nobody) in [
        ("/bob", None, Some(ErrorCode::NoAuth)),
        ("/eve", Some(ErrorCode::NoAuth), Some(ErrorCode::NoAuth)),
        ("/users", None, Some(ErrorCode::NoAuth)),
    ] {
        assert_eq!(read(&mut bob, path), of_bob, "{path}");
        assert_eq!(read(&mut nobody, path), of_nobody, "{path}");
        assert_eq!(read(&mut root, path), None, "{path}");
    }
    assert_eq!(refused(&mut nobody, OpCode::Auth, auth_body("sasl", b"bob")), Some(ErrorCode::AuthFailed));
}

#[test]
fn a_super_password_replaces_that_of_the_file() {
    let server = SaslServer::start(&["SASLAuthenticationProvider.superPassword=changed"]);
    assert_eq!(authenticate(&mut server.client(), "super", "changed"), 0);
    assert_eq!(authenticate(&mut server.client(), "super", "adminsecret"), -115);
}

#[test]
fn tokens_are_bounded_in_size_and_number() {
    let server = SaslServer::start(&["allowSaslFailedClients=true"]);
    let mut client = server.client();
    let (header, token) = send_token(&mut client, Some(&vec![0; (64 << 10) + 1])).unwrap();
    assert_eq!((header.err, token), (0, None));
    assert_eq!(ids(&mut client), Vec::<String>::new());
    challenge(&mut server.client(), &vec![0; 64 << 10]);
    // A token of a megabyte is no frame.
    let mut client = server.client();
    let _ = client.send(OpCode::Sasl, |out| encode_bytes(&vec![0; 1 << 20], out));
    expect_closed(&mut client, "a megabyte");
    // Ten thousand rounds in one write: eight are answered, one is refused, the others are not read.
    let mut client = server.client();
    for _ in 0..10_000 {
        client.queue(OpCode::Sasl, |out| encode_bytes(b"x", out));
    }
    let _ = client.flush();
    let mut errors = Vec::new();
    while let Ok(Received::Frame(frame)) = client.receive(TIME_LIMIT) {
        errors.push(i32::from_be_bytes(frame[12..16].try_into().unwrap()));
    }
    assert_eq!(errors, [0, 0, 0, 0, 0, 0, 0, 0, -115]);
    let mut client = server.client();
    client.send(OpCode::Sasl, |_| ()).unwrap();
    expect_closed(&mut client, "no body");
}

#[test]
fn requests_around_an_exchange_keep_their_order() {
    let server = SaslServer::start(&[]);
    let mut client = server.client();
    let nonce = challenge(&mut client, b"");
    let acl = || vec![Acl::new(Permissions::ALL, "sasl", "bob")];
    client.queue(OpCode::Create, create_body("/order", b"", acl(), 0));
    client.queue(OpCode::GetData, path_and_watch("/order", false));
    let response = DigestResponse::of("bob", "bobsecret").token(&nonce);
    client.queue(OpCode::Sasl, |out| encode_bytes(&response, out));
    client.queue(OpCode::GetData, path_and_watch("/order", false));
    client.queue(OpCode::SetData, set_data_body("/order", b"x", -1));
    client.flush().unwrap();
    let errors: Vec<i32> = (0..5)
        .map(|_| {
            let frame = client.receive_frame().unwrap();
            i32::from_be_bytes(frame[12..16].try_into().unwrap())
        })
        .collect();
    assert_eq!(errors, [0, -102, 0, 0, 0]);
}

/// Repeats until it succeeds: the file is looked at every five seconds.
fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn users_are_reloaded_and_a_bad_file_keeps_the_old_ones() {
    let server = SaslServer::start(&[]);
    let mut bob = server.client();
    assert_eq!(authenticate(&mut bob, "bob", "bobsecret"), 0);
    let logs = |text: &str| server.server.output().contains(text);
    fs::write(server.jaas_path(), "Server {\n broken").unwrap();
    eventually("the bad file is reported", || logs("SASL users not reloaded"));
    assert_eq!(authenticate(&mut server.client(), "bob", "bobsecret"), 0, "the old users stay");
    let replaced = jaas(&[("eve", "evesecret")]).replace("bobsecret", "newsecret");
    let next = server.jaas_path().with_extension("next");
    fs::write(&next, replaced).unwrap();
    fs::rename(&next, server.jaas_path()).unwrap();
    eventually("the new file is read", || logs("SASL users reloaded"));
    assert_eq!(authenticate(&mut server.client(), "eve", "evesecret"), 0);
    assert_eq!(authenticate(&mut server.client(), "bob", "newsecret"), 0);
    assert_eq!(authenticate(&mut server.client(), "bob", "bobsecret"), -115);
    assert_eq!(ids(&mut bob), ["sasl:bob"], "an authenticated client keeps its id");
    fs::remove_file(server.jaas_path()).unwrap();
    eventually("the missing file is reported", || {
        server.server.output().matches("not reloaded").count() == 2
    });
    assert_eq!(authenticate(&mut server.client(), "eve", "evesecret"), 0);
}

#[test]
fn clients_of_another_ensemble_are_closed_without_a_reply() {
    let provider = "authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    let server = server().line(provider).line("ensembleAuthName=east, west").start().unwrap();
    let (mut client, session) = open(&server);
    done(&mut client, OpCode::Auth, auth_body("ensemble", b"west"));
    done(&mut client, OpCode::Auth, auth_body("ensemble", b""));
    client.send(OpCode::Auth, auth_body("ensemble", b"north")).unwrap();
    expect_closed(&mut client, "another ensemble");
    RawClient::resume(server.address(), &session).unwrap();
    let count = |name: &str| monitored(&server, name);
    let counts = [count("ensemble_auth_success"), count("ensemble_auth_skip"), count("ensemble_auth_fail")];
    assert_eq!(counts, [1, 1, 1]);
}

#[test]
fn an_exchange_that_does_not_end_is_closed() {
    let server = SaslServer::start(&[]);
    let mut client = server.client();
    challenge(&mut client, b"");
    assert_eq!(client.receive(Duration::from_secs(90)).unwrap(), Received::Closed);
    let output = server.server.output();
    assert!(output.contains("the exchange took too long"), "not closed for another reason: {output}");
    assert_eq!(authenticate(&mut server.client(), "bob", "bobsecret"), 0);
}
