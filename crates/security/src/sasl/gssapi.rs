//! The SASL layer of GSSAPI (RFC 4752) above a security context: no protection layer, no buffer.

use std::fmt;

use super::{
    ROUNDS_MAX, SaslClient, SaslClientStep, SaslFailure, SaslIdentity, SaslServer, SaslServerStep, TOKEN_MAX,
    check_token,
};

/// The layer "none", alone and as the only one on offer.
const LAYER_NONE: u8 = 1;
/// The offer: layer none and a buffer of 65536 bytes, as Java sends it.
const OFFER: [u8; 4] = [LAYER_NONE, 1, 0, 0];
/// Layer and buffer size, before the authorization id.
const CHOICE_BYTES: usize = 4;
/// Bytes of the last message, which holds an authorization id.
const CHOICE_MAX: usize = 4096;

/// The cause of an error of the Kerberos library, as far as a remedy or a retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GssFault {
    /// The program was built without the library.
    NotBuilt,
    /// There is no ticket and no key with which to get one.
    NoCredentials,
    /// The ticket has expired.
    Expired,
    /// The clocks of two machines differ too much.
    ClockSkew,
    /// The KDC does not know the own principal.
    UnknownPrincipal,
    /// The KDC does not know the principal of the service.
    UnknownService,
    /// A key does not fit: the keytab is out of date or belongs to another principal.
    WrongKey,
    /// No KDC answered; a later attempt may succeed.
    Unreachable,
    /// The error has another cause.
    Other,
}

impl fmt::Display for GssFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GssFault::NotBuilt => "this build has no Kerberos; build it with the cargo feature kerberos",
            GssFault::NoCredentials => "there is no Kerberos ticket; run kinit, or name a keytab",
            GssFault::Expired => "the Kerberos ticket has expired; run kinit",
            GssFault::ClockSkew => "the clock differs too much from the clock of the KDC or of the server",
            GssFault::UnknownPrincipal => "the KDC does not know the own principal",
            GssFault::UnknownService => "the KDC does not know the principal of the server",
            GssFault::WrongKey => "a Kerberos key does not fit; the keytab may be out of date",
            GssFault::Unreachable => "no KDC answers",
            GssFault::Other => {
                "the Kerberos library reports an error; KRB5_TRACE=/dev/stderr shows its steps"
            }
        })
    }
}

/// An error of the Kerberos library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct GssError {
    /// The text of the library.
    pub text: String,
    /// The cause.
    pub fault: GssFault,
}

impl GssError {
    /// An error without a special cause.
    pub fn new(text: impl Into<String>) -> GssError {
        GssError { text: text.into(), fault: GssFault::Other }
    }
}

/// The progress of a security context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssProgress {
    /// The token for the other side.
    pub token: Option<Vec<u8>>,
    /// Whether the context is complete.
    pub is_complete: bool,
}

/// A message that the context has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssMessage {
    /// The message.
    pub content: Vec<u8>,
    /// Whether the message was encrypted.
    pub is_encrypted: bool,
}

/// A security context of either side.
pub trait GssContext {
    /// Takes the other side's token. The dialling side begins with an empty one.
    fn step(&mut self, token: &[u8]) -> Result<GssProgress, GssError>;

    /// Protects a message without encryption.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Verifies a message.
    fn unwrap(&mut self, token: &[u8]) -> Result<GssMessage, GssError>;

    /// The principal of the dialling side.
    fn source_name(&self) -> Result<String, GssError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GssServerState {
    Negotiating,
    /// The context is complete; the client must ask for the layers with an empty token.
    AwaitingEmpty,
    AwaitingChoice,
    Finished,
}

/// The accepting side.
#[derive(Debug)]
pub struct GssServer<C> {
    context: C,
    state: GssServerState,
    rounds: u32,
}

impl<C: GssContext> GssServer<C> {
    /// Wraps a context that accepts.
    pub fn new(context: C) -> GssServer<C> {
        GssServer { context, state: GssServerState::Negotiating, rounds: 0 }
    }

    fn advance(&mut self, token: Option<&[u8]>) -> Result<SaslServerStep, SaslFailure> {
        let token = check_token(token, TOKEN_MAX)?;
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(SaslFailure::TooManyRounds);
        }
        match self.state {
            GssServerState::Negotiating => {
                let progress = self.context.step(token)?;
                match (progress.is_complete, progress.token.filter(|token| !token.is_empty())) {
                    (true, None) => self.offer(),
                    (true, Some(token)) => {
                        self.state = GssServerState::AwaitingEmpty;
                        Ok(SaslServerStep::Continue(token))
                    }
                    (false, token) => Ok(SaslServerStep::Continue(token.unwrap_or_default())),
                }
            }
            GssServerState::AwaitingEmpty if token.is_empty() => self.offer(),
            GssServerState::AwaitingEmpty => Err(SaslFailure::Malformed("an empty token was expected")),
            GssServerState::AwaitingChoice => {
                let message = self.context.unwrap(token)?;
                let authorization_id = read_choice(&message)?;
                self.state = GssServerState::Finished;
                let authentication_id = self.context.source_name()?;
                // Java takes an empty token for "more to come"; the last one is null.
                let identity = SaslIdentity { authentication_id, authorization_id };
                Ok(SaslServerStep::Complete { token: None, identity })
            }
            GssServerState::Finished => Err(SaslFailure::Finished),
        }
    }

    fn offer(&mut self) -> Result<SaslServerStep, SaslFailure> {
        self.state = GssServerState::AwaitingChoice;
        Ok(SaslServerStep::Continue(self.context.wrap(&OFFER)?))
    }
}

fn read_choice(message: &GssMessage) -> Result<Option<String>, SaslFailure> {
    if message.is_encrypted {
        return Err(SaslFailure::Malformed("the last message is encrypted"));
    }
    if message.content.len() > CHOICE_MAX {
        return Err(SaslFailure::TokenTooLong { size: message.content.len(), limit: CHOICE_MAX });
    }
    let Some((choice, id)) = message.content.split_at_checked(CHOICE_BYTES) else {
        return Err(SaslFailure::Malformed("the last message has fewer than 4 bytes"));
    };
    if choice[0] != LAYER_NONE {
        return Err(SaslFailure::Malformed("a protection layer was chosen that is not on offer"));
    }
    Ok((!id.is_empty()).then(|| String::from_utf8_lossy(id).into_owned()))
}

impl<C: GssContext> SaslServer for GssServer<C> {
    fn step(&mut self, token: Option<&[u8]>) -> SaslServerStep {
        self.advance(token).unwrap_or_else(|failure| {
            self.state = GssServerState::Finished;
            SaslServerStep::Failed(failure)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GssClientState {
    Negotiating,
    AwaitingOffer,
    AwaitingEnd,
    Finished,
}

/// The dialling side.
#[derive(Debug)]
pub struct GssClient<C> {
    context: C,
    state: GssClientState,
    rounds: u32,
}

impl<C: GssContext> GssClient<C> {
    /// Wraps a context that initiates.
    pub fn new(context: C) -> GssClient<C> {
        GssClient { context, state: GssClientState::Negotiating, rounds: 0 }
    }

    fn negotiate(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslFailure> {
        let progress = self.context.step(token)?;
        if progress.is_complete {
            self.state = GssClientState::AwaitingOffer;
        }
        Ok(progress.token.unwrap_or_default())
    }

    fn advance(&mut self, token: Option<&[u8]>) -> Result<SaslClientStep, SaslFailure> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(SaslFailure::TooManyRounds);
        }
        match self.state {
            GssClientState::Negotiating => {
                let token = check_token(token, TOKEN_MAX)?;
                self.negotiate(token).map(SaslClientStep::Respond)
            }
            GssClientState::AwaitingOffer => {
                let offer = self.context.unwrap(check_token(token, TOKEN_MAX)?)?.content;
                if offer.len() != CHOICE_BYTES || offer[0] & LAYER_NONE == 0 {
                    return Err(SaslFailure::Malformed("the server offers no connection without layer"));
                }
                let mut choice = vec![LAYER_NONE, 0, 0, 0];
                // Servers of the ensemble expect the own principal as authorization id.
                choice.extend_from_slice(self.context.source_name()?.as_bytes());
                self.state = GssClientState::AwaitingEnd;
                Ok(SaslClientStep::Respond(self.context.wrap(&choice)?))
            }
            GssClientState::AwaitingEnd if token.is_none_or(<[u8]>::is_empty) => {
                self.state = GssClientState::Finished;
                Ok(SaslClientStep::Complete)
            }
            GssClientState::AwaitingEnd => Err(SaslFailure::Malformed("the exchange should be over")),
            GssClientState::Finished => Err(SaslFailure::Finished),
        }
    }
}

impl<C: GssContext> SaslClient for GssClient<C> {
    fn start(&mut self) -> Result<Vec<u8>, SaslFailure> {
        self.negotiate(&[])
    }

    fn step(&mut self, token: Option<&[u8]>) -> SaslClientStep {
        self.advance(token).unwrap_or_else(|failure| {
            self.state = GssClientState::Finished;
            SaslClientStep::Failed(failure)
        })
    }
}
