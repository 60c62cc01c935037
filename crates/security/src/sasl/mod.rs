//! SASL mechanisms as state machines over tokens, for both sides.

pub mod digest_md5;
pub mod gssapi;
pub mod principal;
pub mod quorum;

/// Bytes of one token. Longer tokens fail.
pub const TOKEN_MAX: usize = 64 << 10;

/// Tokens of one exchange. More tokens fail.
pub const ROUNDS_MAX: u32 = 8;

/// The reason why an exchange failed. The peer sees no difference between the reasons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslFailure {
    /// The token is null; a client gets no reply to it.
    #[error("the token is null")]
    NullToken,
    /// The token exceeds its limit.
    #[error("the token has {size} bytes, the limit is {limit}")]
    TokenTooLong {
        /// Bytes of the token.
        size: usize,
        /// The allowed bytes.
        limit: usize,
    },
    /// The token violates the syntax.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// A directive of DIGEST-MD5 is missing, repeated or wrong.
    #[error("directive {0} is missing, repeated or wrong")]
    Directive(&'static str),
    /// Unknown user, or wrong password.
    #[error("unknown user or wrong password")]
    BadCredentials,
    /// The authorization id is not the user.
    #[error("the authorization id is not the authenticated user")]
    ForeignAuthorizationId,
    /// A token came after the end of the exchange.
    #[error("the exchange is over")]
    Finished,
    /// Too many tokens.
    #[error("the exchange has more than {ROUNDS_MAX} tokens")]
    TooManyRounds,
    /// The exchange took too long.
    #[error("the exchange took too long")]
    TooSlow,
    /// The mechanism's library reports an error.
    #[error("{0}")]
    Mechanism(String),
    /// The Kerberos library reports an error.
    #[error("{0}")]
    Kerberos(#[from] gssapi::GssError),
    /// The other server did not prove that it knows the password.
    #[error("the server did not prove that it knows the password")]
    ServerNotProved,
    /// The proved principal is no server of the ensemble.
    #[error(
        "principal {0:?} is no server of the ensemble: its host is not listed, or its realm is another one"
    )]
    NoPeer(String),
    /// The other side gave up.
    #[error("the other side refused the authentication")]
    Refused,
}

/// The result of a finished exchange at the accepting side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslIdentity {
    /// The proved name: DIGEST-MD5 user or Kerberos principal.
    pub authentication_id: String,
    /// The name that the client asked for. It never decides who the client is.
    pub authorization_id: Option<String>,
}

/// The answer of the accepting side to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslServerStep {
    /// Send this token and wait for the next one.
    Continue(Vec<u8>),
    /// Send this token, which may be null; the exchange is over.
    Complete {
        /// The last token.
        token: Option<Vec<u8>>,
        /// The authenticated client.
        identity: SaslIdentity,
    },
    /// The exchange failed and accepts no further token.
    Failed(SaslFailure),
}

/// The answer of the dialling side to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslClientStep {
    /// Send this token and wait for the next one.
    Respond(Vec<u8>),
    /// The exchange is over; nothing is to be sent.
    Complete,
    /// The exchange failed.
    Failed(SaslFailure),
}

/// The accepting side of one exchange.
pub trait SaslServer {
    /// Takes the next token; `None` is the null token.
    fn step(&mut self, token: Option<&[u8]>) -> SaslServerStep;
}

impl<S: SaslServer + ?Sized> SaslServer for Box<S> {
    fn step(&mut self, token: Option<&[u8]>) -> SaslServerStep {
        (**self).step(token)
    }
}

/// The dialling side of one exchange.
pub trait SaslClient {
    /// The first token.
    fn start(&mut self) -> Result<Vec<u8>, SaslFailure>;

    /// Takes the next token; `None` is the null token.
    fn step(&mut self, token: Option<&[u8]>) -> SaslClientStep;
}

impl<C: SaslClient + ?Sized> SaslClient for Box<C> {
    fn start(&mut self) -> Result<Vec<u8>, SaslFailure> {
        (**self).start()
    }

    fn step(&mut self, token: Option<&[u8]>) -> SaslClientStep {
        (**self).step(token)
    }
}

/// The token, if it is neither null nor too long.
fn check_token(token: Option<&[u8]>, limit: usize) -> Result<&[u8], SaslFailure> {
    match token {
        None => Err(SaslFailure::NullToken),
        Some(token) if token.len() > limit => Err(SaslFailure::TokenTooLong { size: token.len(), limit }),
        Some(token) => Ok(token),
    }
}
