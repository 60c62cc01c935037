//! SASL between servers, over recorded exchanges.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zebu_security::sasl::digest_md5::{DigestClient, DigestProfile, DigestServer, DigestUsers};
use zebu_security::sasl::gssapi::{GssContext, GssError, GssMessage, GssProgress, GssServer};
use zebu_security::sasl::quorum::{
    AcceptorStep, DiallerStep, EnsembleServer, QuorumAcceptor, QuorumAuthError, QuorumAuthPacket,
    QuorumAuthStatus, QuorumDialler, authorize_peer, begins_exchange, peer_principal,
};
use zebu_security::sasl::{SaslFailure, SaslIdentity, SaslServer, SaslServerStep};
use zebu_security::secret::SecretText;

use crate::recorded;

const MAGIC: [u8; 8] = [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc];

fn decode(bytes: &[u8]) -> QuorumAuthPacket {
    let (packet, size) = QuorumAuthPacket::decode(bytes).unwrap().unwrap();
    assert_eq!(size, bytes.len());
    packet
}

/// The packets of one side. Initial messages and notes about the connection are left out.
fn packets(lines: &[recorded::RecordedLine], scenario: &str, from: &str) -> Vec<QuorumAuthPacket> {
    let of_side = lines.iter().filter(|line| line.scenario == scenario && line.from == from);
    of_side.filter(|line| line.bytes.starts_with(&MAGIC)).map(|line| decode(&line.bytes)).collect()
}

fn users() -> Arc<DigestUsers> {
    let mut users = DigestUsers::default();
    users.insert("test", SecretText::new("quorumpw"));
    users.insert("a@b", SecretText::new("pw"));
    Arc::new(users)
}

fn nonce_of(packet: &QuorumAuthPacket) -> [u8; 30] {
    let text = String::from_utf8_lossy(packet.token.as_ref().unwrap()).into_owned();
    let nonce = text.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    STANDARD.decode(nonce).unwrap().try_into().unwrap()
}

#[test]
fn recorded_packets_are_written_again() {
    let lines = recorded::lines("quorum-sasl.jsonl");
    let count = lines.iter().filter(|line| line.bytes.starts_with(&MAGIC)).count();
    assert_eq!(count, 32);
    for line in lines.iter().filter(|line| line.bytes.starts_with(&MAGIC)) {
        assert_eq!(decode(&line.bytes).encode(), line.bytes);
        for cut in 0..line.bytes.len() {
            assert_eq!(QuorumAuthPacket::decode(&line.bytes[..cut]), Ok(None));
        }
    }
}

#[test]
fn recorded_digest_exchanges() {
    let lines = recorded::lines("quorum-sasl.jsonl");
    let scenarios = recorded::scenarios(&lines);
    let digest: Vec<&String> = scenarios.iter().filter(|name| name.starts_with("digest")).collect();
    assert_eq!(digest.len(), 6);
    for scenario in digest {
        let dialled = packets(&lines, scenario, "dialer");
        let answers = packets(&lines, scenario, "acceptor");
        let server = DigestServer::new(DigestProfile::QUORUM, users(), nonce_of(&answers[0]));
        let mut acceptor = QuorumAcceptor::new(server);
        assert_eq!(acceptor.receive(&dialled[0]), AcceptorStep::Send(answers[0].clone()), "{scenario}");
        match acceptor.receive(&dialled[1]) {
            AcceptorStep::Accept { packet, identity } => {
                assert!(scenario.ends_with("good"), "{scenario}");
                assert_eq!((&packet, identity.authentication_id.as_str()), (&answers[1], "test"));
            }
            AcceptorStep::Reject { packet, failure } => {
                assert!(scenario.contains("wrong-password"), "{scenario}");
                assert_eq!((&packet, failure), (&answers[1], SaslFailure::BadCredentials));
            }
            AcceptorStep::Send(packet) => panic!("{scenario}: {packet:?}"),
        }

        let password = if scenario.ends_with("good") { "quorumpw" } else { "wrong" };
        let client = DigestClient::new(DigestProfile::QUORUM, "test", SecretText::new(password), "cnonce99");
        let mut dialler = QuorumDialler::new(client);
        assert_eq!(dialler.start().unwrap(), dialled[0]);
        let DiallerStep::Send(response) = dialler.receive(&answers[0]) else { panic!("{scenario}") };
        if scenario.ends_with("good") {
            assert_eq!(response, dialled[1], "{scenario}");
            assert_eq!(dialler.receive(&answers[1]), DiallerStep::Done, "{scenario}");
        } else {
            assert_eq!(dialler.receive(&answers[1]), DiallerStep::Failed(SaslFailure::Refused));
        }
    }
}

/// The acceptor's context of a recorded exchange without mutual authentication.
struct RecordedContext {
    first: Vec<u8>,
    offer: Vec<u8>,
}

impl GssContext for RecordedContext {
    fn step(&mut self, token: &[u8]) -> Result<GssProgress, GssError> {
        assert_eq!(token, self.first);
        Ok(GssProgress { token: None, is_complete: true })
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        assert_eq!(message, &self.offer[16..20]);
        Ok(self.offer.clone())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<GssMessage, GssError> {
        Ok(GssMessage { content: token[16..token.len() - 12].to_vec(), is_encrypted: false })
    }

    fn source_name(&self) -> Result<String, GssError> {
        Ok("zkquorum/localhost@ZEBU.TEST".to_owned())
    }
}

#[test]
fn recorded_kerberos_exchanges() {
    let lines = recorded::lines("quorum-sasl.jsonl");
    for scenario in ["gssapi-election", "gssapi-learner"] {
        let dialled = packets(&lines, scenario, "dialer");
        let answers = packets(&lines, scenario, "acceptor");
        let context = RecordedContext {
            first: dialled[0].token.clone().unwrap(),
            offer: answers[0].token.clone().unwrap(),
        };
        let mut acceptor = QuorumAcceptor::new(GssServer::new(context));
        assert_eq!(acceptor.receive(&dialled[0]), AcceptorStep::Send(answers[0].clone()));
        let AcceptorStep::Accept { packet, identity } = acceptor.receive(&dialled[1]) else { panic!() };
        assert_eq!(packet, answers[1]);
        for (host, realm, is_accepted) in
            [("localhost", "ZEBU.TEST", true), ("zk1", "ZEBU.TEST", false), ("localhost", "OTHER", false)]
        {
            let context = RecordedContext {
                first: dialled[0].token.clone().unwrap(),
                offer: answers[0].token.clone().unwrap(),
            };
            let server = EnsembleServer::new(GssServer::new(context), vec![host.to_owned()], realm);
            let mut acceptor = QuorumAcceptor::new(server);
            acceptor.receive(&dialled[0]);
            match acceptor.receive(&dialled[1]) {
                AcceptorStep::Accept { .. } => assert!(is_accepted, "{host} {realm}"),
                AcceptorStep::Reject { packet, failure } => {
                    assert!(!is_accepted, "{host} {realm}");
                    assert_eq!(packet.status, QuorumAuthStatus::Error);
                    assert_eq!(failure, SaslFailure::NoPeer("zkquorum/localhost@ZEBU.TEST".to_owned()));
                }
                AcceptorStep::Send(packet) => panic!("{packet:?}"),
            }
        }
        assert!(authorize_peer(&identity, &["Localhost".to_owned()], "ZEBU.TEST"));
        assert!(!authorize_peer(&identity, &["zk1".to_owned()], "ZEBU.TEST"));
        assert!(!authorize_peer(&identity, &["localhost".to_owned()], "OTHER"));
    }
}

#[test]
fn peers_need_three_parts_and_their_own_authorization_id() {
    let hosts = ["h".to_owned()];
    let identity = |name: &str, asked: Option<&str>| SaslIdentity {
        authentication_id: name.to_owned(),
        authorization_id: asked.map(str::to_owned),
    };
    assert!(authorize_peer(&identity("zk/h@R", None), &hosts, "R"));
    assert!(authorize_peer(&identity("zk/h@R", Some("zk/h@R")), &hosts, "R"));
    for refused in [
        identity("zk/h@R", Some("zk/other@R")),
        identity("zk@R", None),
        identity("h", None),
        identity("zk/h/h@R", None),
        identity("zk/h", None),
        // One part with a separator in it, as Kerberos writes it.
        identity(r"zk\/h@R", None),
    ] {
        assert!(!authorize_peer(&refused, &hosts, "R"), "{refused:?}");
    }
}

#[test]
fn principals_of_peers() {
    for (setting, principal) in [
        ("zkquorum/localhost", "zkquorum/localhost"),
        ("zkquorum/_HOST", "zkquorum/zk1.example"),
        ("zkquorum/_HOST@R", "zkquorum/zk1.example@R"),
        ("zkquorum/_HOSTS", "zkquorum/_HOSTS"),
        ("zkquorum", "zkquorum"),
    ] {
        assert_eq!(peer_principal(setting, "ZK1.example"), principal);
    }
}

#[test]
fn the_digest_user_is_its_own_authorization_id() {
    let exchange = |token: &[u8]| {
        let mut acceptor = QuorumAcceptor::new(DigestServer::new(DigestProfile::QUORUM, users(), [1; 30]));
        let start = QuorumAuthPacket { status: QuorumAuthStatus::Error, token: Some(Vec::new()) };
        assert!(
            matches!(acceptor.receive(&start), AcceptorStep::Send(_)),
            "the dialler's status has no effect"
        );
        acceptor.receive(&QuorumAuthPacket { status: QuorumAuthStatus::Success, token: Some(token.to_vec()) })
    };
    let response = |user: &str, password: &str, authzid: Option<&str>| {
        let nonce = STANDARD.encode([1; 30]);
        let input = zebu_security::sasl::digest_md5::DigestInput {
            user,
            realm: DigestProfile::QUORUM.realm,
            nonce: nonce.as_bytes(),
            client_nonce: b"c",
            uri: DigestProfile::QUORUM.uri.as_bytes(),
            authorization_id: authzid.map(str::as_bytes),
        };
        let hash = zebu_security::sasl::digest_md5::digest_pair(&input, password).response;
        let authzid = authzid.map_or(String::new(), |id| format!(",authzid=\"{id}\""));
        format!(
            "username=\"{user}\",realm=\"{}\",nonce=\"{nonce}\",cnonce=\"c\",digest-uri=\"{}\",response={hash}{authzid}",
            input.realm,
            DigestProfile::QUORUM.uri
        )
    };
    let is_accepted = |token: &str| matches!(exchange(token.as_bytes()), AcceptorStep::Accept { .. });
    assert!(is_accepted(&response("test", "quorumpw", None)));
    assert!(is_accepted(&response("test", "quorumpw", Some("test"))));
    assert!(is_accepted(&response("a@b", "pw", None)));
    assert!(!is_accepted(&response("test", "quorumpw", Some("other"))));
    assert!(!is_accepted(&response("nouser", "", None)));
    assert!(!is_accepted("garbage"));

    let mut acceptor = QuorumAcceptor::new(DigestServer::new(DigestProfile::QUORUM, users(), [1; 30]));
    let null = QuorumAuthPacket { status: QuorumAuthStatus::InProgress, token: None };
    let AcceptorStep::Reject { packet, failure } = acceptor.receive(&null) else { panic!() };
    assert_eq!(failure, SaslFailure::NullToken);
    assert_eq!(packet.encode(), [&MAGIC[..], &[0xff; 4], &[0; 4]].concat());
}

#[test]
fn bad_packets_are_refused() {
    let packet = |status: i32, length: i32| {
        QuorumAuthPacket::decode(&[&MAGIC[..], &status.to_be_bytes(), &length.to_be_bytes()].concat())
    };
    assert_eq!(packet(7, 0), Err(QuorumAuthError::Status(7)));
    assert_eq!(packet(0, -2), Err(QuorumAuthError::TokenLength(-2)));
    assert_eq!(packet(0, i32::MAX), Err(QuorumAuthError::TokenLength(i32::MAX)));
    assert_eq!(packet(0, (64 << 10) + 1), Err(QuorumAuthError::TokenLength((64 << 10) + 1)));
    assert_eq!(packet(0, 64 << 10), Ok(None));
    // FOLLOWERINFO begins with its type.
    assert_eq!(QuorumAuthPacket::decode(&[0, 0, 0, 11]), Err(QuorumAuthError::Magic));
    assert_eq!(begins_exchange(&[0x5f, 0x24]), None);
    assert_eq!(begins_exchange(&MAGIC), Some(true));
    assert_eq!(begins_exchange(&[0x5f, 0x25]), Some(false));
    assert_eq!(begins_exchange(&[]), None);
}

struct EndlessServer;

impl SaslServer for EndlessServer {
    fn step(&mut self, _token: Option<&[u8]>) -> SaslServerStep {
        SaslServerStep::Continue(Vec::new())
    }
}

#[test]
fn unfinished_rounds_are_bounded() {
    let mut acceptor = QuorumAcceptor::new(EndlessServer);
    let packet = QuorumAuthPacket { status: QuorumAuthStatus::InProgress, token: Some(Vec::new()) };
    for _ in 0..5 {
        assert!(matches!(acceptor.receive(&packet), AcceptorStep::Send(_)));
    }
    assert!(matches!(acceptor.receive(&packet), AcceptorStep::Reject { .. }));
}

#[test]
fn the_dialler_needs_the_acceptors_proof() {
    let lines = recorded::lines("quorum-sasl.jsonl");
    let answers = packets(&lines, "digest-learner-good", "acceptor");
    let dialled = |last: QuorumAuthPacket| {
        let client =
            DigestClient::new(DigestProfile::QUORUM, "test", SecretText::new("quorumpw"), "cnonce99");
        let mut dialler = QuorumDialler::new(client);
        dialler.start().unwrap();
        assert!(matches!(dialler.receive(&answers[0]), DiallerStep::Send(_)));
        dialler.receive(&last)
    };
    let success = |token: Option<Vec<u8>>| QuorumAuthPacket { status: QuorumAuthStatus::Success, token };
    assert!(matches!(dialled(success(None)), DiallerStep::Failed(_)));
    assert!(matches!(dialled(success(Some(Vec::new()))), DiallerStep::Failed(_)));
    let unfinished = QuorumAuthPacket { status: QuorumAuthStatus::InProgress, ..answers[1].clone() };
    assert!(matches!(dialled(unfinished), DiallerStep::Failed(_)));
    assert_eq!(dialled(answers[1].clone()), DiallerStep::Done);

    // A success right after the start proves nothing.
    let client = DigestClient::new(DigestProfile::QUORUM, "test", SecretText::new("quorumpw"), "c");
    let mut dialler = QuorumDialler::new(client);
    dialler.start().unwrap();
    let early = QuorumAuthPacket { status: QuorumAuthStatus::Success, ..answers[0].clone() };
    assert!(matches!(dialler.receive(&early), DiallerStep::Failed(_)));
}
