//! The SASL layer of GSSAPI over scripted contexts with the shape of recorded conversations.

use std::collections::VecDeque;

use zebu_security::sasl::gssapi::{GssClient, GssContext, GssError, GssMessage, GssProgress, GssServer};
use zebu_security::sasl::{
    ROUNDS_MAX, SaslClient, SaslClientStep, SaslFailure, SaslServer, SaslServerStep, TOKEN_MAX,
};

use crate::recorded;

/// Plays recorded tokens. Wrapped messages are those of Kerberos without encryption: 16 bytes of header, the
/// message, 12 bytes of checksum.
#[derive(Debug, Default)]
struct ScriptedContext {
    /// Token that comes in, token that goes out.
    steps: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    /// Tokens that go out for wrapped messages.
    wrapped: VecDeque<Vec<u8>>,
}

fn plain(token: &[u8]) -> Vec<u8> {
    token[16..token.len() - 12].to_vec()
}

fn wrapped(message: &[u8]) -> Vec<u8> {
    [&[5; 16][..], message, &[0; 12]].concat()
}

impl GssContext for ScriptedContext {
    fn step(&mut self, token: &[u8]) -> Result<GssProgress, GssError> {
        match self.steps.pop_front() {
            Some((expected, answer)) if expected == token => {
                Ok(GssProgress { token: answer, is_complete: self.steps.is_empty() })
            }
            _ => Err(GssError::new("the token is defective")),
        }
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.wrapped.pop_front() {
            Some(token) => {
                assert_eq!(plain(&token), message);
                Ok(token)
            }
            None => Ok(wrapped(message)),
        }
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<GssMessage, GssError> {
        if token.len() < 28 {
            return Err(GssError::new("the message is too short"));
        }
        Ok(GssMessage { content: plain(token), is_encrypted: token[2] & 2 != 0 })
    }

    fn source_name(&self) -> Result<String, GssError> {
        Ok("client@ZEBU.TEST".to_owned())
    }
}

#[test]
fn recorded_conversations() {
    let lines = recorded::lines("sasl-gssapi.jsonl");
    let scenarios = recorded::scenarios(&lines);
    assert_eq!(scenarios, ["kazoo-mutual", "kazoo-with-foreign-authzid", "java-no-mutual"]);
    for scenario in scenarios {
        let tokens = recorded::client_tokens(&lines, &scenario);
        let replies = recorded::server_replies(&lines, &scenario);
        let is_mutual = tokens.len() == 3;
        let answer = replies[0].1.clone().filter(|_| is_mutual);
        let offer = replies[replies.len() - 2].1.clone().unwrap();
        let context =
            ScriptedContext { steps: [(tokens[0].clone(), answer)].into(), wrapped: [offer].into() };
        let mut server = GssServer::new(context);
        for (token, (err, reply)) in tokens.iter().zip(&replies) {
            assert_eq!(*err, 0);
            match server.step(Some(token)) {
                SaslServerStep::Continue(sent) => assert_eq!(Some(sent), *reply, "{scenario}"),
                SaslServerStep::Complete { token, identity } => {
                    assert_eq!((token, reply), (None, &None), "{scenario}");
                    assert_eq!(identity.authentication_id, "client@ZEBU.TEST");
                    let asked = match scenario.as_str() {
                        "kazoo-with-foreign-authzid" => "root-user",
                        _ => "client@ZEBU.TEST",
                    };
                    assert_eq!(identity.authorization_id.as_deref(), Some(asked));
                }
                SaslServerStep::Failed(failure) => panic!("{scenario}: {failure}"),
            }
        }
        assert_eq!(server.step(Some(b"")), SaslServerStep::Failed(SaslFailure::Finished));
    }
}

fn established() -> GssServer<ScriptedContext> {
    let mut server =
        GssServer::new(ScriptedContext { steps: [(b"AP-REQ".to_vec(), None)].into(), ..Default::default() });
    let SaslServerStep::Continue(offer) = server.step(Some(b"AP-REQ")) else { panic!() };
    assert_eq!(plain(&offer), [1, 1, 0, 0]);
    server
}

#[test]
fn bad_tokens_end_the_exchange() {
    let last = |token: &[u8]| match established().step(Some(token)) {
        SaslServerStep::Failed(failure) => failure,
        other => panic!("{other:?}"),
    };
    for layer in [0, 2, 3, 4, 7] {
        assert!(matches!(last(&wrapped(&[layer, 0, 0, 0])), SaslFailure::Malformed(_)), "{layer}");
    }
    assert!(matches!(last(&wrapped(&[1, 0, 0])), SaslFailure::Malformed(_)));
    assert!(matches!(last(&wrapped(&[1; 60 << 10])), SaslFailure::TokenTooLong { .. }));
    assert!(matches!(last(&vec![0; TOKEN_MAX + 1]), SaslFailure::TokenTooLong { .. }));
    assert!(matches!(last(b"short"), SaslFailure::Kerberos(_)));
    let mut encrypted = wrapped(&[1, 0, 0, 0]);
    encrypted[2] = 2;
    assert!(matches!(last(&encrypted), SaslFailure::Malformed(_)));
    assert_eq!(established().step(None), SaslServerStep::Failed(SaslFailure::NullToken));

    let mut server = GssServer::new(ScriptedContext::default());
    assert!(matches!(server.step(Some(b"garbage")), SaslServerStep::Failed(SaslFailure::Kerberos(_))));
    assert_eq!(server.step(Some(b"garbage")), SaslServerStep::Failed(SaslFailure::Finished));

    let mutual = ScriptedContext {
        steps: [(b"AP-REQ".to_vec(), Some(b"AP-REP".to_vec()))].into(),
        ..Default::default()
    };
    let mut server = GssServer::new(mutual);
    assert_eq!(server.step(Some(b"AP-REQ")), SaslServerStep::Continue(b"AP-REP".to_vec()));
    assert!(matches!(server.step(Some(b"x")), SaslServerStep::Failed(SaslFailure::Malformed(_))));
}

#[test]
fn rounds_are_bounded() {
    let steps = (0..100).map(|_| (b"again".to_vec(), Some(b"more".to_vec()))).collect();
    let mut server = GssServer::new(ScriptedContext { steps, ..Default::default() });
    for _ in 0..ROUNDS_MAX {
        assert_eq!(server.step(Some(b"again")), SaslServerStep::Continue(b"more".to_vec()));
    }
    assert_eq!(server.step(Some(b"again")), SaslServerStep::Failed(SaslFailure::TooManyRounds));
}

#[test]
fn both_sides_agree() {
    for answer in [None, Some(b"AP-REP".to_vec())] {
        let mut client_steps = VecDeque::from([(Vec::new(), Some(b"AP-REQ".to_vec()))]);
        if let Some(answer) = &answer {
            client_steps.push_back((answer.clone(), None));
        }
        let mut client = GssClient::new(ScriptedContext { steps: client_steps, ..Default::default() });
        let context = ScriptedContext { steps: [(b"AP-REQ".to_vec(), answer)].into(), ..Default::default() };
        let mut server = GssServer::new(context);
        let mut token = client.start().unwrap();
        loop {
            match server.step(Some(&token)) {
                SaslServerStep::Continue(reply) => {
                    let SaslClientStep::Respond(next) = client.step(Some(&reply)) else { panic!() };
                    token = next;
                }
                SaslServerStep::Complete { token, identity } => {
                    assert_eq!(identity.authorization_id.as_deref(), Some("client@ZEBU.TEST"));
                    assert_eq!(client.step(token.as_deref()), SaslClientStep::Complete);
                    break;
                }
                SaslServerStep::Failed(failure) => panic!("{failure}"),
            }
        }
        assert_eq!(client.step(None), SaslClientStep::Failed(SaslFailure::Finished));
    }
}

#[test]
fn the_client_refuses_other_layers() {
    for offer in [&[2, 0, 0, 0][..], &[1, 0, 0], &[1, 0, 0, 0, 0]] {
        let steps = [(Vec::new(), Some(b"AP-REQ".to_vec()))].into();
        let mut client = GssClient::new(ScriptedContext { steps, ..Default::default() });
        client.start().unwrap();
        assert!(matches!(client.step(Some(&wrapped(offer))), SaslClientStep::Failed(_)), "{offer:?}");
    }
}
