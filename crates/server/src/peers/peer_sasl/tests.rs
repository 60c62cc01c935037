//! Recorded exchanges with ZooKeeper byte by byte, and input that must end the connection only.

use std::path::Path;
use std::sync::Arc;

use tokio::io::{DuplexStream, duplex};
use zebu_security::sasl::digest_md5::DigestUsers;
use zebu_security::sasl::quorum::QUORUM_AUTH_MAGIC;
use zebu_security::secret::SecretText;

use super::*;
use crate::config::security::quorum_sasl::QuorumDigest;

fn digest(logins: &QuorumLogins) -> &QuorumDigest {
    match logins {
        QuorumLogins::Digest(digest) => digest,
        QuorumLogins::Kerberos(_) => panic!("these logins are of DIGEST-MD5"),
    }
}

async fn accept_with_nonce(
    stream: &mut DuplexStream,
    sasl: &QuorumSasl,
    nonce: [u8; NONCE_BYTES],
) -> Result<AcceptedPeer, PeerSaslError> {
    let users = digest(&sasl.logins).users.clone();
    let begin = async || Ok(DigestServer::new(DigestProfile::QUORUM, users, nonce));
    accept_with(stream, sasl.required, begin, StepPlace::Here).await
}

async fn dial_with_nonce(
    stream: &mut DuplexStream,
    logins: &QuorumLogins,
    nonce: String,
) -> Result<(), PeerSaslError> {
    let logins = digest(logins);
    let client =
        DigestClient::new(DigestProfile::QUORUM, logins.user.clone(), logins.password.clone(), nonce);
    // Both places give the same result.
    dial_with(stream, client, StepPlace::BlockingThread).await
}

const BUFFER: usize = 1 << 20;

fn sasl(required: bool) -> QuorumSasl {
    let mut users = DigestUsers::default();
    users.insert("test", SecretText::new("quorumpw"));
    let logins = logins("quorumpw", users);
    QuorumSasl { required, dialer_authenticates: true, logins: Arc::new(logins) }
}

fn logins(password: &str, users: DigestUsers) -> QuorumLogins {
    let (users, password) = (Arc::new(users), SecretText::new(password));
    QuorumLogins::Digest(QuorumDigest { users, user: "test".to_owned(), password })
}

/// One line of the recorded file.
struct RecordedLine {
    scenario: String,
    from: String,
    bytes: Vec<u8>,
}

fn recorded() -> Vec<RecordedLine> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../security/testdata/quorum-sasl.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let field = |key: &str| {
                let rest = line.split(&format!("\"{key}\": \"")).nth(1).unwrap();
                rest.split('"').next().unwrap().to_owned()
            };
            let hex = field("bytes");
            let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
            let bytes = (0..hex.len() / 2).map(byte).collect();
            RecordedLine { scenario: field("scenario"), from: field("from"), bytes }
        })
        .collect()
}

/// The packets of one side; initial messages are not part of the exchange.
fn packets(scenario: &str, from: &str) -> Vec<Vec<u8>> {
    let magic = QUORUM_AUTH_MAGIC.to_be_bytes();
    recorded()
        .into_iter()
        .filter(|line| line.scenario == scenario && line.from == from && line.bytes.starts_with(&magic))
        .map(|line| line.bytes)
        .collect()
}

fn value<'a>(packet: &'a [u8], key: &str) -> &'a str {
    let text = std::str::from_utf8(&packet[16..]).unwrap();
    text.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap()
}

fn decoded_nonce(packet: &[u8]) -> [u8; NONCE_BYTES] {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = value(packet, "nonce").bytes().map(|byte| u32::from(digit(byte))).collect();
    let bytes: Vec<u8> = digits
        .chunks(4)
        .flat_map(|four| {
            let number = four.iter().fold(0, |number, digit| number << 6 | digit);
            number.to_be_bytes()[1..].to_vec()
        })
        .collect();
    bytes.try_into().unwrap()
}

async fn received(stream: &mut DuplexStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn recorded_dialers_get_the_recorded_answers() {
    for port in ["election", "learner"] {
        for (case, is_good) in
            [("good", true), ("wrong-password", false), ("wrong-password-not-required", false)]
        {
            let scenario = format!("digest-{port}-{case}");
            let (dialed, answers) = (packets(&scenario, "dialer"), packets(&scenario, "acceptor"));
            let (mut peer, mut own) = duplex(BUFFER);
            let sasl = sasl(!case.ends_with("not-required"));
            let nonce = decoded_nonce(&answers[0]);
            let exchange = tokio::spawn(async move {
                let result = accept_with_nonce(&mut own, &sasl, nonce).await;
                (result, own)
            });
            for (packet, answer) in dialed.iter().zip(&answers) {
                // The header arrives in pieces.
                for piece in packet.chunks(5) {
                    peer.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                assert_eq!(received(&mut peer, answer.len()).await, *answer, "{scenario}");
            }
            // The bytes behind the last packet belong to the next reader.
            peer.write_all(b"next").await.unwrap();
            let (result, mut own) = exchange.await.unwrap();
            match result {
                Ok(accepted) => {
                    assert!(is_good, "{scenario}: a wrong password is never accepted");
                    assert_eq!(accepted, AcceptedPeer::Authenticated { user: "test".to_owned() });
                    assert_eq!(received(&mut own, 4).await, b"next");
                }
                Err(error) => {
                    assert!(!is_good, "{scenario}: {error}");
                    assert!(matches!(error, PeerSaslError::Failed(SaslFailure::BadCredentials)), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn recorded_acceptors_get_the_recorded_packets() {
    for scenario in ["digest-election-good", "digest-learner-good", "digest-learner-wrong-password"] {
        let (dialed, answers) = (packets(scenario, "dialer"), packets(scenario, "acceptor"));
        let is_good = scenario.ends_with("good");
        let (mut peer, mut own) = duplex(BUFFER);
        let nonce = value(&dialed[1], "cnonce").to_owned();
        let password = if is_good { "quorumpw" } else { "wrong" };
        let exchange = tokio::spawn(async move {
            dial_with_nonce(&mut own, &logins(password, DigestUsers::default()), nonce).await
        });
        for (packet, answer) in dialed.iter().zip(&answers) {
            let sent = received(&mut peer, packet.len()).await;
            assert_eq!(sent == *packet, is_good || packet.len() == 16, "{scenario}");
            peer.write_all(answer).await.unwrap();
        }
        match exchange.await.unwrap() {
            Ok(()) => assert!(is_good, "{scenario}"),
            Err(PeerSaslError::Failed(SaslFailure::Refused)) => assert!(!is_good, "{scenario}"),
            Err(error) => panic!("{scenario}: {error}"),
        }
    }
}

/// Runs the acceptor against these bytes, after which the peer closes its side.
async fn accepted(bytes: &[u8], required: bool) -> Result<AcceptedPeer, PeerSaslError> {
    let (mut peer, mut own) = duplex(BUFFER);
    peer.write_all(bytes).await.unwrap();
    peer.shutdown().await.unwrap();
    accept_exchange(&mut own, &sasl(required), Vec::new).await
}

fn packet(status: i32, length: i32, token: &[u8]) -> Vec<u8> {
    let magic = QUORUM_AUTH_MAGIC.to_be_bytes();
    [&magic[..], &status.to_be_bytes(), &length.to_be_bytes(), token].concat()
}

#[tokio::test]
async fn a_peer_without_magic_is_let_through_only_if_it_need_not_authenticate() {
    let info = [0, 0, 0, 11, 0, 0, 0, 0, 0, 0];
    assert!(matches!(accepted(&info, true).await, Err(PeerSaslError::NotTrying)));
    // It reads the magic number's length at most; here the first bytes differ.
    let AcceptedPeer::Anonymous { unread } = accepted(&info, false).await.unwrap() else { panic!() };
    assert_eq!(unread, info[..8]);
    // A server that only asks to be dialed back is gone.
    assert!(matches!(accepted(&[], true).await, Err(PeerSaslError::Connection(_))));
    assert_eq!(accepted(&[], false).await.unwrap(), AcceptedPeer::Anonymous { unread: Vec::new() });
    let begins = &QUORUM_AUTH_MAGIC.to_be_bytes()[..5];
    let AcceptedPeer::Anonymous { unread } = accepted(begins, false).await.unwrap() else { panic!() };
    assert_eq!(unread, begins);
}

#[tokio::test]
async fn packets_that_are_wrong_end_the_exchange() {
    for required in [true, false] {
        let status = accepted(&packet(7, 0, &[]), required).await;
        assert!(matches!(status, Err(PeerSaslError::Packet(QuorumAuthError::Status(7)))));
        for length in [-2, i32::MIN, i32::MAX, (64 << 10) + 1] {
            let result = accepted(&packet(0, length, &[]), required).await;
            assert!(
                matches!(result, Err(PeerSaslError::Packet(QuorumAuthError::TokenLength(found))) if found == length)
            );
        }
        let null = accepted(&packet(0, -1, &[]), required).await;
        assert!(matches!(null, Err(PeerSaslError::Failed(SaslFailure::NullToken))));
        let cut = accepted(&packet(0, 100, &[1; 99]), required).await;
        assert!(matches!(cut, Err(PeerSaslError::Connection(_))));
        let twice = [packet(0, 0, &[]), packet(0, 0, &[])].concat();
        assert!(matches!(accepted(&twice, required).await, Err(PeerSaslError::Failed(_))));
        let without = [packet(0, 0, &[]), vec![0; 16]].concat();
        assert!(matches!(
            accepted(&without, required).await,
            Err(PeerSaslError::Packet(QuorumAuthError::Magic))
        ));
        // The status of the dialer has no meaning, as in ZooKeeper.
        let largest = [packet(-1, 64 << 10, &[b'x'; 64 << 10]), packet(0, 1, b"x")].concat();
        assert!(matches!(accepted(&largest, required).await, Err(PeerSaslError::Failed(_))));
    }
}

/// A response that was seen on one connection does not help on another.
#[tokio::test]
async fn a_replayed_response_is_refused() {
    let seen = packets("digest-learner-good", "dialer");
    let result = accepted(&seen.concat(), true).await;
    assert!(matches!(result, Err(PeerSaslError::Failed(SaslFailure::Directive("nonce")))), "{result:?}");
}

#[tokio::test]
async fn both_sides_of_this_server_agree() {
    let (mut dialer, mut acceptor) = duplex(BUFFER);
    let sasl = sasl(true);
    let logins = sasl.logins.clone();
    let (dialed, accepted) = tokio::join!(
        dial_exchange(&mut dialer, &logins, None),
        accept_exchange(&mut acceptor, &sasl, Vec::new)
    );
    dialed.unwrap();
    assert_eq!(accepted.unwrap(), AcceptedPeer::Authenticated { user: "test".to_owned() });
}

/// An acceptor that claims success without a proof is no server of the ensemble.
#[tokio::test]
async fn a_dialer_demands_the_proof_of_the_acceptor() {
    let answers = packets("digest-learner-good", "acceptor");
    let success = packet(1, 0, &[]);
    for answers in [success.clone(), [answers[0].clone(), success].concat(), answers.concat()] {
        let (mut peer, mut own) = duplex(BUFFER);
        peer.write_all(&answers).await.unwrap();
        let result = dial_exchange(&mut own, &logins("quorumpw", DigestUsers::default()), None).await;
        assert!(matches!(result, Err(PeerSaslError::Failed(_))), "{result:?}");
    }
}
