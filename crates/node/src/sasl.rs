//! SASL exchanges of clients: the limits of a connection, the order of tokens and the outcome. The mechanism
//! runs at the edge, because it needs random numbers and may block; its connection waits meanwhile.
//!
//! An exchange happens once per connection. A client gets the id that it proved, never one that it asked for.

use std::fmt;
use std::sync::Arc;

use zebu_proto::{Buffer, ErrorCode, Id};
use zebu_security::sasl::principal::PrincipalRules;
use zebu_security::sasl::{ROUNDS_MAX, SaslFailure, SaslServer, SaslServerStep, TOKEN_MAX};

use crate::connection::{ClientConnection, ConnectionPhase, RequestMeta};
use crate::limits::{CREDENTIALS_BYTES_MAX, CREDENTIALS_MAX, SASL_EXCHANGE_MS_MAX};
use crate::prepared_reply::PreparedReply;
use crate::replica::Replica;
use crate::settings::AuthEnforcement;

/// The scheme of ids that an exchange proves.
const SASL_SCHEME: &str = "sasl";

/// The accepting side of a mechanism.
pub type SaslMechanism = Box<dyn SaslServer + Send>;

/// Treatment of a client whose exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SaslFailedClients {
    /// The connection is closed.
    #[default]
    Closed,
    /// The connection goes on without an id (`allowSaslFailedClients`).
    Kept,
}

/// Settings of SASL for clients. A server without them refuses every token.
#[derive(Clone, Debug)]
pub struct SaslSettings {
    /// Rules from proved names to ids.
    pub rules: PrincipalRules,
    /// Ids that are super users too (`superUser`).
    pub super_users: Vec<Box<str>>,
    /// Treatment of a client whose exchange failed.
    pub failed_clients: SaslFailedClients,
}

/// A token that the mechanism must process.
pub struct SaslRound {
    meta: RequestMeta,
    token: Arc<[u8]>,
    mechanism: Option<SaslMechanism>,
    /// The token breaks a limit; the mechanism does not see it.
    refusal: Option<SaslFailure>,
}

impl fmt::Debug for SaslRound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A token may contain a ticket or the proof of a password.
        write!(formatter, "SaslRound({} bytes)", self.token.len())
    }
}

impl SaslRound {
    /// Runs the mechanism on the token. `begin` creates the mechanism for the first token of a connection.
    pub fn run(self, begin: impl FnOnce() -> Result<SaslMechanism, SaslFailure>) -> SaslRoundResult {
        let SaslRound { meta, token, mechanism, refusal } = self;
        let mechanism = match (refusal, mechanism) {
            (Some(refusal), _) => Err(refusal),
            (None, Some(mechanism)) => Ok(mechanism),
            (None, None) => begin(),
        };
        match mechanism {
            Ok(mut mechanism) => {
                let step = mechanism.step(Some(&token));
                SaslRoundResult { meta, mechanism: Some(mechanism), step }
            }
            Err(failure) => SaslRoundResult { meta, mechanism: None, step: SaslServerStep::Failed(failure) },
        }
    }

    /// The request of the round.
    pub fn request(&self) -> SaslRequest {
        SaslRequest(self.meta)
    }
}

/// The request of a round, without its token.
#[derive(Clone, Copy, Debug)]
pub struct SaslRequest(RequestMeta);

impl SaslRequest {
    /// Gives the round up: the mechanism did not end in time.
    pub fn abandon(self, failure: SaslFailure) -> SaslRoundResult {
        SaslRoundResult { meta: self.0, mechanism: None, step: SaslServerStep::Failed(failure) }
    }
}

/// A processed token.
pub struct SaslRoundResult {
    meta: RequestMeta,
    mechanism: Option<SaslMechanism>,
    step: SaslServerStep,
}

impl fmt::Debug for SaslRoundResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SaslRoundResult")
    }
}

/// The effect of a token, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslOutcome {
    /// The exchange goes on, or its connection is gone.
    Continues,
    /// The client has this id now.
    Authenticated(Box<str>),
    /// The exchange failed.
    Failed(Box<str>),
}

/// The exchange of a connection. It stays after its end, because a connection has one exchange.
pub(crate) struct SaslExchange {
    /// Monotonic milliseconds of the first token.
    started_ms: i64,
    tokens: u32,
    state: SaslExchangeState,
}

enum SaslExchangeState {
    /// Expects the next token. There is no mechanism before the first one.
    AwaitingToken(Option<SaslMechanism>),
    /// A token waits for the edge.
    Received(SaslRound),
    /// The mechanism runs at the edge.
    Running,
    Finished,
}

impl fmt::Debug for SaslExchange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SaslExchange({} tokens)", self.tokens)
    }
}

impl SaslExchange {
    fn new(started_ms: i64) -> SaslExchange {
        SaslExchange { started_ms, tokens: 0, state: SaslExchangeState::AwaitingToken(None) }
    }

    /// Whether the connection waits for the mechanism.
    pub(crate) fn is_busy(&self) -> bool {
        match self.state {
            SaslExchangeState::Received(_) | SaslExchangeState::Running => true,
            SaslExchangeState::AwaitingToken(_) | SaslExchangeState::Finished => false,
        }
    }

    fn receive(&mut self, meta: RequestMeta, token: Arc<[u8]>) {
        self.tokens += 1;
        let refusal = self.refusal(&token, meta.received_ms);
        let mechanism = match std::mem::replace(&mut self.state, SaslExchangeState::Running) {
            SaslExchangeState::AwaitingToken(mechanism) => mechanism,
            SaslExchangeState::Received(_) | SaslExchangeState::Running | SaslExchangeState::Finished => None,
        };
        self.state = SaslExchangeState::Received(SaslRound { meta, token, mechanism, refusal });
    }

    fn refusal(&self, token: &[u8], now_ms: i64) -> Option<SaslFailure> {
        if self.tokens > ROUNDS_MAX {
            return Some(SaslFailure::TooManyRounds);
        }
        if !matches!(self.state, SaslExchangeState::AwaitingToken(_)) {
            return Some(SaslFailure::Finished);
        }
        if token.len() > TOKEN_MAX {
            return Some(SaslFailure::TokenTooLong { size: token.len(), limit: TOKEN_MAX });
        }
        (now_ms - self.started_ms > SASL_EXCHANGE_MS_MAX).then_some(SaslFailure::TooSlow)
    }

    fn take_round(&mut self) -> Option<SaslRound> {
        match std::mem::replace(&mut self.state, SaslExchangeState::Running) {
            SaslExchangeState::Received(round) => Some(round),
            other => {
                self.state = other;
                None
            }
        }
    }
}

impl ClientConnection {
    /// The token that the edge must process now. No request is decoded until its round is finished.
    pub fn take_sasl_round(&mut self) -> Option<SaslRound> {
        self.sasl.as_mut()?.take_round()
    }

    /// Whether the connection waits for a SASL mechanism.
    pub fn awaits_sasl_mechanism(&self) -> bool {
        self.sasl.as_ref().is_some_and(|exchange| exchange.is_busy())
    }

    /// Monotonic milliseconds at which an exchange must have ended; `None` without an exchange in progress.
    pub fn sasl_deadline_ms(&self) -> Option<i64> {
        let exchange = self.sasl.as_ref()?;
        let is_over = matches!(exchange.state, SaslExchangeState::Finished);
        (!is_over).then_some(exchange.started_ms + SASL_EXCHANGE_MS_MAX)
    }
}

impl Replica {
    /// Accepts SASL exchanges. Without this call every token is refused.
    pub fn with_sasl(mut self, settings: Option<SaslSettings>) -> Replica {
        self.sasl = settings;
        self
    }

    /// Keeps a token for the edge, or refuses it if SASL is not configured.
    pub(crate) fn receive_sasl(&self, connection: &mut ClientConnection, meta: RequestMeta, token: Buffer) {
        if self.sasl.is_none() {
            self.refuse_sasl(connection, meta, SaslFailedClients::Closed);
            return;
        }
        let exchange = connection.sasl.get_or_insert_with(|| Box::new(SaslExchange::new(meta.received_ms)));
        exchange.receive(meta, token.unwrap_or_default());
    }

    /// Answers a processed token. Ids apply before the reply is sent.
    pub fn finish_sasl_round(
        &self,
        connection: &mut ClientConnection,
        result: SaslRoundResult,
    ) -> SaslOutcome {
        let SaslRoundResult { meta, mechanism, step } = result;
        let (Some(settings), Some(exchange)) = (&self.sasl, &mut connection.sasl) else {
            return SaslOutcome::Continues;
        };
        exchange.state = SaslExchangeState::Finished;
        if connection.phase != ConnectionPhase::Serving {
            return SaslOutcome::Continues;
        }
        let failure = match step {
            SaslServerStep::Continue(token) => {
                exchange.state = SaslExchangeState::AwaitingToken(mechanism);
                self.reply_in_order(connection, meta, PreparedReply::sasl(None, Some(token)));
                return SaslOutcome::Continues;
            }
            SaslServerStep::Complete { token, identity } => {
                match settings.add_ids(&identity.authentication_id, connection) {
                    Ok(id) => {
                        self.reply_in_order(connection, meta, PreparedReply::sasl(None, token));
                        return SaslOutcome::Authenticated(id);
                    }
                    Err(reason) => reason,
                }
            }
            SaslServerStep::Failed(failure) => {
                let kept = match failure {
                    SaslFailure::TooManyRounds => SaslFailedClients::Closed,
                    _ => settings.failed_clients,
                };
                self.refuse_sasl(connection, meta, kept);
                return SaslOutcome::Failed(failure.to_string().into());
            }
        };
        self.refuse_sasl(connection, meta, settings.failed_clients);
        SaslOutcome::Failed(failure)
    }

    /// The body is needed: Java's client ignores the error of the header and reads the token.
    fn refuse_sasl(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        failed_clients: SaslFailedClients,
    ) {
        connection.count_auth_failure();
        let reply = if self.enforcement.names(SASL_SCHEME) {
            PreparedReply::sasl(Some(ErrorCode::SessionClosedRequireSaslAuth), None).then_drain()
        } else {
            match failed_clients {
                SaslFailedClients::Closed => {
                    PreparedReply::sasl(Some(ErrorCode::AuthFailed), None).then_drain()
                }
                SaslFailedClients::Kept => PreparedReply::sasl(None, None),
            }
        };
        self.reply_in_order(connection, meta, reply);
    }
}

impl SaslSettings {
    fn add_ids(&self, name: &str, connection: &mut ClientConnection) -> Result<Box<str>, Box<str>> {
        let id = self.rules.id_of(name).map_err(|error| format!("{name:?}: {error}").into_boxed_str())?;
        let mut credentials = connection.credentials.clone();
        credentials.add(Id::new(SASL_SCHEME, id.as_str()));
        if self.super_users.iter().any(|user| **user == *id) {
            credentials.add(Id::new("super", ""));
        }
        if credentials.len() > CREDENTIALS_MAX || credentials.encoded_length() > CREDENTIALS_BYTES_MAX {
            return Err("the connection has too many ids".into());
        }
        connection.credentials = credentials;
        Ok(id.into())
    }
}

impl AuthEnforcement {
    /// Whether a scheme is among the enforced ones.
    fn names(&self, scheme: &str) -> bool {
        match self {
            AuthEnforcement::Off => false,
            AuthEnforcement::Schemes(schemes) => schemes.iter().any(|enforced| **enforced == *scheme),
        }
    }
}
