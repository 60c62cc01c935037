//! DIGEST-MD5 over recorded hashes, cases and conversations.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zebu_security::sasl::digest_md5::{
    DigestClient, DigestInput, DigestProfile, DigestServer, DigestUsers, digest_pair,
};
use zebu_security::sasl::principal::{NamePart, PrincipalRules};
use zebu_security::sasl::{SaslClient, SaslClientStep, SaslFailure, SaslServer, SaslServerStep, TOKEN_MAX};
use zebu_security::secret::SecretText;

use crate::digest_response::{DigestResponse, bob, token_of};
use crate::recorded;

const NONCE: [u8; 30] = [7; 30];

fn users() -> Arc<DigestUsers> {
    let mut users = DigestUsers::default();
    for (user, password) in [
        ("bob", "bobsecret"),
        ("super", "adminsecret"),
        ("mü€", "pässwörd"),
        ("weird", "a\"b\\c,d=e"),
        ("empty", ""),
        ("al@ice", "alicesecret"),
    ] {
        users.insert(user, SecretText::new(password));
    }
    Arc::new(users)
}

fn rules() -> PrincipalRules {
    PrincipalRules::parse("DEFAULT", None, NamePart::Keep, NamePart::Keep).unwrap()
}

#[test]
fn recorded_hashes() {
    let cases: Vec<Value> = serde_json::from_str(&recorded::text("digest-md5-hashes.json")).unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let field = |key: &str| case[key].as_str().unwrap();
        let input = DigestInput {
            user: field("username"),
            realm: field("realm"),
            nonce: field("nonce").as_bytes(),
            client_nonce: field("cnonce").as_bytes(),
            uri: field("digest-uri").as_bytes(),
            authorization_id: case["authzid"].as_str().map(str::as_bytes),
        };
        let pair = digest_pair(&input, field("password"));
        assert_eq!(
            (pair.response.as_str(), pair.response_auth.as_str()),
            (field("response"), field("rspauth"))
        );
    }
}

fn nonce() -> String {
    STANDARD.encode(NONCE)
}

/// The id that the case leads to, or the failure.
fn run(server: &mut DigestServer, first: &[u8], second: Option<&[u8]>) -> Result<String, SaslFailure> {
    assert!(matches!(server.step(Some(first)), SaslServerStep::Continue(_)));
    match server.step(second) {
        SaslServerStep::Complete { token, identity } => {
            assert!(token.unwrap().starts_with(b"rspauth="));
            rules().id_of(&identity.authentication_id).map_err(|_| SaslFailure::BadCredentials)
        }
        SaslServerStep::Failed(failure) => Err(failure),
        SaslServerStep::Continue(_) => panic!("a third token"),
    }
}

#[test]
fn recorded_cases() {
    let cases: Vec<Value> = serde_json::from_str(&recorded::text("digest-md5-cases.json")).unwrap();
    assert_eq!(cases.len(), 48);
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let second = token_of(name, &nonce());
        let first: &[u8] = if name.starts_with("first token") { b"x" } else { b"" };
        let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
        let result = run(&mut server, first, second.as_deref());
        let then = case["then"].as_str().unwrap();
        match name {
            // Without a rule there is no id: the client must not choose it.
            _ if name.starts_with("user al@ice") => assert!(result.is_err(), "{name}"),
            "a further token after success" => {
                assert_eq!(result, Ok("bob".to_owned()));
                let again = server.step(second.as_deref());
                assert_eq!(again, SaslServerStep::Failed(SaslFailure::Finished));
            }
            "create between the two rounds" => assert_eq!(result, Ok("bob".to_owned())),
            "token null (length -1)" => assert_eq!(result, Err(SaslFailure::NullToken)),
            "wrong password" | "unknown user" => assert_eq!(result, Err(SaslFailure::BadCredentials)),
            _ if case["err"] == 0 => {
                let id = then.strip_prefix("sasl:").unwrap();
                assert_eq!(result, Ok(id.trim_end_matches(" and super:").to_owned()), "{name}");
            }
            _ => assert!(result.is_err(), "{name}"),
        }
    }
}

#[test]
fn a_nonce_serves_one_response() {
    let token = bob().token(&nonce());
    let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
    assert!(run(&mut server, b"", Some(&DigestResponse::of("bob", "wrong").token(&nonce()))).is_err());
    assert_eq!(server.step(Some(&token)), SaslServerStep::Failed(SaslFailure::Finished));
    let mut other = DigestServer::new(DigestProfile::CLIENTS, users(), [8; 30]);
    assert_eq!(run(&mut other, b"", Some(&token)), Err(SaslFailure::Directive("nonce")));
}

#[test]
fn tokens_are_bounded() {
    let fill = |size: usize| {
        let token = bob().token(&nonce());
        [&token[..], b",foo=", &vec![b'x'; size - token.len() - 5]].concat()
    };
    let result =
        |token: &[u8]| run(&mut DigestServer::new(DigestProfile::CLIENTS, users(), NONCE), b"", Some(token));
    assert_eq!(result(&fill(4096)), Ok("bob".to_owned()));
    assert_eq!(result(&fill(4097)), Err(SaslFailure::TokenTooLong { size: 4097, limit: 4096 }));
    let many = [&bob().token(&nonce())[..], &b",a=b".repeat(900)].concat();
    assert_eq!(result(&many), Ok("bob".to_owned()));
    for broken in [&b"a=\"b\\"[..], b"a=\"b\"c", b"=b", b"a b", b"a=", b"realm=x,realm=y", b"a,b"] {
        assert!(result(&[&bob().token(&nonce())[..], b",", broken].concat()).is_err(), "{broken:?}");
    }
    let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
    let first = vec![0; TOKEN_MAX + 1];
    assert!(matches!(server.step(Some(&first)), SaslServerStep::Failed(SaslFailure::TokenTooLong { .. })));
    assert_eq!(
        result(&DigestResponse::of("bob\0", "bobsecret").token(&nonce())),
        Err(SaslFailure::BadCredentials)
    );
}

#[test]
fn a_super_password_replaces_only_an_existing_one() {
    let mut users = DigestUsers::default();
    assert!(!users.replace_password("super", SecretText::new("x")));
    users.insert("super", SecretText::new("old"));
    assert!(users.replace_password("super", SecretText::new("new")));
    assert_eq!(users.names().collect::<Vec<_>>(), ["super"]);
    let mut server = DigestServer::new(DigestProfile::CLIENTS, Arc::new(users), NONCE);
    assert_eq!(
        run(&mut server, b"", Some(&DigestResponse::of("super", "new").token(&nonce()))),
        Ok("super".to_owned())
    );
}

fn nonce_of(challenge: &[u8]) -> [u8; 30] {
    let text = String::from_utf8_lossy(challenge).into_owned();
    let nonce = text.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    STANDARD.decode(nonce).unwrap().try_into().unwrap()
}

#[test]
fn recorded_conversations() {
    let lines = recorded::lines("sasl-digest-md5.jsonl");
    let scenarios = recorded::scenarios(&lines);
    assert_eq!(scenarios.len(), 5, "{scenarios:?}");
    for scenario in scenarios {
        let tokens = recorded::client_tokens(&lines, &scenario);
        let replies = recorded::server_replies(&lines, &scenario);
        assert_eq!((tokens.len(), replies.len()), (2, 2), "{scenario}");
        let challenge = replies[0].1.clone().unwrap();
        let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), nonce_of(&challenge));
        assert_eq!(server.step(Some(&tokens[0])), SaslServerStep::Continue(challenge), "{scenario}");
        match (server.step(Some(&tokens[1])), &replies[1]) {
            (SaslServerStep::Complete { token, .. }, (0, expected)) => assert_eq!(&token, expected),
            (SaslServerStep::Failed(failure), (-115, None)) => {
                assert_eq!(failure, SaslFailure::BadCredentials, "{scenario}");
            }
            other => panic!("{scenario}: {other:?}"),
        }
    }
}

#[test]
fn the_client_writes_what_java_writes() {
    let lines = recorded::lines("sasl-digest-md5.jsonl");
    let tokens = recorded::client_tokens(&lines, "java-bob-ok");
    let replies = recorded::server_replies(&lines, "java-bob-ok");
    let client_nonce = "NV+8sLhqPdtXV1NtN9CZaS4ieDcydryFFfUpFw1v";
    let new = || DigestClient::new(DigestProfile::CLIENTS, "bob", SecretText::new("bobsecret"), client_nonce);
    let mut client = new();
    assert_eq!(client.start(), Ok(tokens[0].clone()));
    let SaslClientStep::Respond(response) = client.step(replies[0].1.as_deref()) else { panic!() };
    assert_eq!(String::from_utf8_lossy(&response), String::from_utf8_lossy(&tokens[1]));
    assert_eq!(client.step(replies[1].1.as_deref()), SaslClientStep::Complete);
    assert_eq!(client.step(Some(b"")), SaslClientStep::Failed(SaslFailure::Finished));

    for proof in [Some(&b"rspauth=00000000000000000000000000000000"[..]), Some(b""), None] {
        let mut client = new();
        client.step(replies[0].1.as_deref());
        assert!(matches!(client.step(proof), SaslClientStep::Failed(_)), "{proof:?}");
    }
    for challenge in [
        &b""[..],
        b"realm=\"r\",nonce=\"n\"",
        b"realm=\"r\",nonce=\"n\",algorithm=md5",
        b"realm=\"r\",nonce=\"n\",algorithm=md5-sess,qop=\"auth-conf\"",
        b"realm=\"r\",nonce=\"n\",nonce=\"m\",algorithm=md5-sess",
        &[b'x'; 2049],
    ] {
        assert!(matches!(new().step(Some(challenge)), SaslClientStep::Failed(_)));
    }
}

#[test]
fn client_and_server_agree_on_every_user() {
    for (user, password) in
        [("bob", "bobsecret"), ("mü€", "pässwörd"), ("weird", "a\"b\\c,d=e"), ("empty", "")]
    {
        let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
        let mut client = DigestClient::new(DigestProfile::CLIENTS, user, SecretText::new(password), "c\"n");
        let first = client.start().unwrap();
        let SaslServerStep::Continue(challenge) = server.step(Some(&first)) else { panic!() };
        let SaslClientStep::Respond(response) = client.step(Some(&challenge)) else { panic!() };
        let SaslServerStep::Complete { token, identity } = server.step(Some(&response)) else { panic!() };
        assert_eq!(identity.authentication_id, user);
        assert_eq!(client.step(token.as_deref()), SaslClientStep::Complete);
    }
}
