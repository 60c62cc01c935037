//! DIGEST-MD5 tokens, JAAS files, Kerberos names and the packets of SASL between servers.

use std::sync::Arc;

use zebu_security::jaas::JaasFile;
use zebu_security::sasl::digest_md5::{DigestClient, DigestProfile, DigestServer, DigestUsers};
use zebu_security::sasl::principal::{KerberosName, NamePart, PrincipalRules};
use zebu_security::sasl::quorum::{AcceptorStep, QuorumAcceptor, QuorumAuthPacket};
use zebu_security::sasl::{SaslClient, SaslServer, SaslServerStep};
use zebu_security::secret::SecretText;

use crate::corpus;

const NONCE: [u8; 30] = [7; 30];

fn users() -> Arc<DigestUsers> {
    let mut users = DigestUsers::default();
    users.insert("bob", SecretText::new("bobsecret"));
    Arc::new(users)
}

/// A response to a challenge, and a challenge to the client. Without the password, only the response of the
/// corpus succeeds.
pub(super) fn digest(data: &[u8]) {
    let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
    assert!(matches!(server.step(Some(b"")), SaslServerStep::Continue(_)));
    if let SaslServerStep::Complete { identity, .. } = server.step(Some(data)) {
        assert_eq!(identity.authentication_id, "bob");
    }
    assert!(matches!(server.step(Some(data)), SaslServerStep::Failed(_)), "one response per nonce");
    client().step(Some(data));
}

fn client() -> DigestClient {
    DigestClient::new(DigestProfile::CLIENTS, "bob", SecretText::new("bobsecret"), "cnonce")
}

pub(super) fn digest_corpus() -> Vec<Vec<u8>> {
    let mut server = DigestServer::new(DigestProfile::CLIENTS, users(), NONCE);
    let SaslServerStep::Continue(challenge) = server.step(Some(b"")) else { return Vec::new() };
    let zebu_security::sasl::SaslClientStep::Respond(response) = client().step(Some(&challenge)) else {
        return vec![challenge];
    };
    assert!(matches!(server.step(Some(&response)), SaslServerStep::Complete { .. }));
    vec![challenge, response, b"rspauth=68347505e892e5d57431ab12d785d126".to_vec()]
}

pub(super) fn jaas(data: &[u8]) {
    let property = |name: &str| (name == "user.home").then(|| "HOME".to_owned());
    if let Ok(file) = JaasFile::parse(data, &property) {
        for name in file.section_names() {
            _ = file.section(name).map(|section| section.login());
        }
    }
}

pub(super) fn jaas_corpus() -> Vec<Vec<u8>> {
    corpus::security_cases("jaas-cases.json", "text")
}

/// A packet stream of a dialling server.
pub(super) fn quorum(data: &[u8]) {
    let mut acceptor = QuorumAcceptor::new(DigestServer::new(DigestProfile::QUORUM, users(), NONCE));
    let mut rest = data;
    while let Ok(Some((packet, size))) = QuorumAuthPacket::decode(rest) {
        assert_eq!(packet.encode(), &rest[..size], "a packet is written as it was read");
        match acceptor.receive(&packet) {
            AcceptorStep::Accept { .. } => panic!("no password was given"),
            AcceptorStep::Send(answer) | AcceptorStep::Reject { packet: answer, .. } => {
                assert!(QuorumAuthPacket::decode(&answer.encode()).is_ok());
            }
        }
        rest = &rest[size..];
    }
}

pub(super) fn quorum_corpus() -> Vec<Vec<u8>> {
    corpus::security_exchanges("quorum-sasl.jsonl", "dialer")
}

/// Rules on the first line, names on the others.
pub(super) fn principal(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let rules = lines.next().unwrap_or_default();
    let Ok(rules) = PrincipalRules::parse(rules, Some("R"), NamePart::Remove, NamePart::Remove) else {
        return;
    };
    for name in lines.take(100) {
        if let Ok(id) = rules.id_of(name) {
            let is_simple = KerberosName::parse(name).is_ok_and(|name| name.realm.is_none());
            assert!(is_simple || !id.contains(['/', '@']), "{name} has the id {id}");
        }
    }
}

pub(super) fn principal_corpus() -> Vec<Vec<u8>> {
    [
        "DEFAULT\nbob@R\nsvc/h@R\nbob",
        "RULE:[1:$1@$0](.*@X)s/@.*// RULE:[2:$1;$2](^a;.*)s/(;)/-$1/g DEFAULT\na/b@R\nc@X",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
