//! SASL on a new connection: the exchange comes after the session handshake and before every other request.
//! A refusal ends the machine, because the same credentials would be refused again.

use std::fmt;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha1::{Digest, Sha1};
use zebu_proto::client::ReplyHeader;
use zebu_proto::client::auth::SaslToken;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, Xid};
use zebu_security::sasl::digest_md5::{DigestClient, DigestProfile};
pub use zebu_security::sasl::gssapi::GssFault as KerberosFault;
use zebu_security::sasl::{SaslClient, SaslClientStep, SaslFailure};
use zebu_security::secret::SecretText;

use super::action::{LogEvent, SessionAction};
use super::failure::Cause;
use super::frames;
use super::kerberos_login::KerberosLogin;
use super::phase::{ConnectionStart, LinkId, SessionEnding, SessionPhase};
use super::session::SessionMachine;

/// The login of a client: a user with a password, or a Kerberos ticket.
#[derive(Clone, Debug)]
pub struct SaslLogin {
    pub(crate) kind: SaslLoginKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SaslLoginKind {
    Digest { user: String, password: SecretText },
    Kerberos(KerberosLogin),
}

impl SaslLogin {
    /// DIGEST-MD5. The password is wiped from memory with the last copy, and never printed.
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> SaslLogin {
        let (user, password) = (user.into(), SecretText::new(password));
        SaslLogin { kind: SaslLoginKind::Digest { user, password } }
    }

    /// GSSAPI with a Kerberos ticket. A build without the feature `kerberos` ends with
    /// [`SaslRefusal::Kerberos`].
    pub fn kerberos(login: KerberosLogin) -> SaslLogin {
        SaslLogin { kind: SaslLoginKind::Kerberos(login) }
    }
}

/// The input of a mechanism that runs in the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MechanismInput {
    /// The exchange begins.
    Start,
    /// The server sent this token; `None` is the null token.
    Token(Option<Vec<u8>>),
}

/// SASL of a session machine.
#[derive(Clone, Debug)]
pub struct SaslSettings {
    /// The login.
    pub login: SaslLogin,
    /// Random bytes that no other machine has. The nonce of each connection is derived from them.
    pub nonce_seed: [u8; 32],
}

impl SaslSettings {
    /// The nonce of one connection. The seed is secret, so that a server cannot foresee it.
    fn nonce(&self, link: LinkId) -> String {
        let mut hash = Sha1::new();
        hash.update(self.nonce_seed);
        hash.update(link.0.to_be_bytes());
        STANDARD_NO_PAD.encode(hash.finalize())
    }
}

/// The reason why SASL failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SaslRefusal {
    /// The server refused the login, or it has no SASL.
    Rejected,
    /// The server answered without a token: it has no SASL, or it goes on without authentication.
    NoToken,
    /// The server did not prove that it knows the password.
    ServerNotProved,
    /// The server's token is malformed, too long or out of order.
    BadToken,
    /// Kerberos has no ticket for the server, or the ticket did not serve.
    Kerberos(KerberosFault),
}

impl fmt::Display for SaslRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SaslRefusal::Rejected => {
                "the server refused the SASL login: unknown user, wrong password or ticket, or another mechanism \
                 at the server"
            }
            SaslRefusal::NoToken => {
                "the server did not authenticate the SASL user: it has no SASL, or it admits failed users"
            }
            SaslRefusal::ServerNotProved => {
                "the server did not prove that it knows the password of the SASL user"
            }
            SaslRefusal::BadToken => "the server sent a SASL token that is malformed or out of order",
            SaslRefusal::Kerberos(fault) => return write!(f, "Kerberos: {fault}"),
        })
    }
}

impl From<&SaslFailure> for SaslRefusal {
    fn from(failure: &SaslFailure) -> SaslRefusal {
        match failure {
            SaslFailure::NullToken => SaslRefusal::NoToken,
            SaslFailure::ServerNotProved => SaslRefusal::ServerNotProved,
            SaslFailure::Refused | SaslFailure::BadCredentials | SaslFailure::NoPeer(_) => {
                SaslRefusal::Rejected
            }
            SaslFailure::Kerberos(error) => SaslRefusal::Kerberos(error.fault),
            SaslFailure::TokenTooLong { .. }
            | SaslFailure::Malformed(_)
            | SaslFailure::Directive(_)
            | SaslFailure::ForeignAuthorizationId
            | SaslFailure::Finished
            | SaslFailure::TooManyRounds
            | SaslFailure::TooSlow
            | SaslFailure::Mechanism(_) => SaslRefusal::BadToken,
        }
    }
}

/// One exchange. It ends with its connection.
#[derive(Debug)]
pub(crate) struct SaslExchange {
    mechanism: ClientMechanism,
    /// The xid of the token in flight; `None` while the mechanism runs in the driver.
    xid: Option<i32>,
}

#[derive(Debug)]
enum ClientMechanism {
    Digest(DigestClient),
    /// The mechanism may block, so that the driver runs it.
    InDriver,
}

impl<T> SessionMachine<T> {
    /// Sends the first token. Queued calls wait until the exchange is complete.
    pub(super) fn authenticate(&mut self, now: Instant, start: ConnectionStart, sasl: &SaslSettings) {
        let link = start.link.id;
        let deadline = now + self.attempt_timeout();
        let (mechanism, first) = match &sasl.login.kind {
            SaslLoginKind::Digest { user, password } => {
                let nonce = sasl.nonce(link);
                let mut client =
                    DigestClient::new(DigestProfile::CLIENTS, user.clone(), password.clone(), nonce);
                let first = client.start();
                (ClientMechanism::Digest(client), Some(first))
            }
            SaslLoginKind::Kerberos(_) => {
                let (server, input) = (start.link.address.clone(), MechanismInput::Start);
                self.actions.push_back(SessionAction::Authenticate { link, server, input });
                (ClientMechanism::InDriver, None)
            }
        };
        let exchange = Box::new(SaslExchange { mechanism, xid: None });
        self.phase = SessionPhase::Authenticating { start, deadline, exchange };
        match first {
            Some(Ok(token)) => self.send_token(now, token),
            Some(Err(failure)) => self.refuse_sasl(SaslRefusal::from(&failure)),
            None => {}
        }
    }

    /// Reports the step of a mechanism that runs in the driver; see [`SessionAction::Authenticate`].
    pub fn authentication_step(&mut self, now: Instant, link: LinkId, step: SaslClientStep) {
        let is_awaited = match &self.phase {
            SessionPhase::Authenticating { start, exchange, .. } => {
                start.link.id == link
                    && exchange.xid.is_none()
                    && matches!(exchange.mechanism, ClientMechanism::InDriver)
            }
            _ => false,
        };
        if is_awaited {
            self.continue_exchange(now, step);
        }
    }

    fn continue_exchange(&mut self, now: Instant, step: SaslClientStep) {
        match step {
            SaslClientStep::Respond(token) => self.send_token(now, token),
            SaslClientStep::Complete => self.authenticated(now),
            // A KDC that does not answer may answer later.
            SaslClientStep::Failed(SaslFailure::Kerberos(error))
                if error.fault == KerberosFault::Unreachable =>
            {
                let reason = format!("Kerberos: {error}");
                self.connection_lost(now, Cause::ConnectionLost, &reason);
            }
            SaslClientStep::Failed(failure) => self.refuse_sasl(SaslRefusal::from(&failure)),
        }
    }

    fn send_token(&mut self, now: Instant, token: Vec<u8>) {
        let xid = self.next_xid();
        let SessionPhase::Authenticating { exchange, .. } = &mut self.phase else { return };
        exchange.xid = Some(xid);
        let mut body = Vec::new();
        SaslToken { token: Some(token.into()) }.encode(&mut body);
        frames::request(xid, OpCode::Sasl, &body, &mut self.output);
        self.last_sent = now;
    }

    /// Handles a frame during the exchange.
    pub(super) fn authentication_reply(&mut self, now: Instant, payload: &[u8]) {
        let SessionPhase::Authenticating { start, exchange, .. } = &mut self.phase else { return };
        let mut reader = Reader::new(payload);
        let header = match ReplyHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.protocol_error(now, &format!("reply header: {error}")),
        };
        // The connection has no watches yet: an event is not expected, and means nothing.
        if Xid(header.xid) == Xid::NOTIFICATION {
            return;
        }
        if Some(header.xid) != exchange.xid {
            let what = match exchange.xid {
                Some(xid) => format!("a reply to request {} instead of the SASL token {xid}", header.xid),
                None => format!("a reply to request {} before the next SASL token", header.xid),
            };
            return self.protocol_error(now, &what);
        }
        if header.err != 0 {
            return self.sasl_error(now, header.err);
        }
        let token = match SaslToken::decode(&mut reader) {
            Ok(reply) => reply.token,
            Err(error) => return self.protocol_error(now, &format!("SASL reply: {error}")),
        };
        match &mut exchange.mechanism {
            ClientMechanism::Digest(client) => {
                let step = client.step(token.as_deref());
                self.continue_exchange(now, step);
            }
            ClientMechanism::InDriver => {
                exchange.xid = None;
                let (link, server) = (start.link.id, start.link.address.clone());
                let input = MechanismInput::Token(token.map(|token| token.to_vec()));
                self.actions.push_back(SessionAction::Authenticate { link, server, input });
            }
        }
    }

    fn sasl_error(&mut self, now: Instant, code: i32) {
        match ErrorCode::from_wire(code) {
            Some(
                ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth | ErrorCode::Unimplemented,
            ) => self.refuse_sasl(SaslRefusal::Rejected),
            // A server that stops, or a session that has moved: the next connection tries again.
            _ => self.protocol_error(now, &format!("SASL: error {code}")),
        }
    }

    fn authenticated(&mut self, now: Instant) {
        let SessionPhase::Authenticating { start, .. } = &self.phase else { return };
        let start = start.clone();
        self.serve(now, start);
    }

    /// Ends the machine.
    fn refuse_sasl(&mut self, refusal: SaslRefusal) {
        if let Some(server) = self.server() {
            self.actions.push_back(SessionAction::Log(LogEvent::SaslRefused { server, refusal }));
        }
        self.end(SessionEnding::SaslRefused(refusal));
    }
}
