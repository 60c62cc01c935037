//! SASL between servers: the packet, and the steps of the dialling and of the accepting server.

use super::principal::KerberosName;
use super::{SaslClient, SaslClientStep, SaslFailure, SaslIdentity, SaslServer, SaslServerStep, TOKEN_MAX};

/// The first eight bytes of each packet.
pub const QUORUM_AUTH_MAGIC: i64 = 0x5f24_3501_3501_edcc;

/// Rounds without success, as in ZooKeeper.
const UNFINISHED_MAX: u32 = 5;

/// The status of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorumAuthStatus {
    /// The exchange goes on.
    InProgress,
    /// The acceptor is satisfied.
    Success,
    /// The acceptor refuses.
    Error,
}

impl QuorumAuthStatus {
    fn code(self) -> i32 {
        match self {
            QuorumAuthStatus::InProgress => 0,
            QuorumAuthStatus::Success => 1,
            QuorumAuthStatus::Error => -1,
        }
    }

    fn from_code(code: i32) -> Option<QuorumAuthStatus> {
        let all = [QuorumAuthStatus::InProgress, QuorumAuthStatus::Success, QuorumAuthStatus::Error];
        all.into_iter().find(|status| status.code() == code)
    }
}

/// One message of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumAuthPacket {
    /// The status.
    pub status: QuorumAuthStatus,
    /// The token; `None` is null.
    pub token: Option<Vec<u8>>,
}

/// The bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumAuthError {
    /// The first bytes are not the magic number.
    #[error("the peer does not authenticate itself: the magic number is missing")]
    Magic,
    /// The status is unknown.
    #[error("unknown status {0} in an authentication packet")]
    Status(i32),
    /// The token length is negative or too large.
    #[error("token length {0} in an authentication packet; the limit is {TOKEN_MAX}")]
    TokenLength(i32),
}

/// Whether the first bytes of a connection begin an exchange; `None` asks for more bytes.
pub fn begins_exchange(bytes: &[u8]) -> Option<bool> {
    let magic = QUORUM_AUTH_MAGIC.to_be_bytes();
    let count = bytes.len().min(magic.len());
    match bytes[..count] == magic[..count] {
        false => Some(false),
        true if count == magic.len() => Some(true),
        true => None,
    }
}

impl QuorumAuthPacket {
    /// Bytes before the token.
    pub const HEADER_BYTES: usize = 16;

    /// The bytes of the packet at the front, once its header is there. `None` asks for more bytes.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, QuorumAuthError> {
        if begins_exchange(bytes) == Some(false) {
            return Err(QuorumAuthError::Magic);
        }
        let Some(length) = number_at(bytes, 12) else { return Ok(None) };
        let size = match length {
            -1 => Some(0),
            _ => usize::try_from(length).ok().filter(|size| *size <= TOKEN_MAX),
        };
        let size = size.ok_or(QuorumAuthError::TokenLength(length))?;
        Ok(Some(QuorumAuthPacket::HEADER_BYTES + size))
    }

    /// Encodes the packet.
    pub fn encode(&self) -> Vec<u8> {
        let token = self.token.as_deref();
        let length = token.map_or(-1, |token| i32::try_from(token.len()).unwrap_or(i32::MAX));
        let mut bytes = Vec::with_capacity(QuorumAuthPacket::HEADER_BYTES + token.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(&QUORUM_AUTH_MAGIC.to_be_bytes());
        bytes.extend_from_slice(&self.status.code().to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(token.unwrap_or_default());
        bytes
    }

    /// Decodes the packet at the front and says how many bytes it has. `None` asks for more bytes.
    pub fn decode(bytes: &[u8]) -> Result<Option<(QuorumAuthPacket, usize)>, QuorumAuthError> {
        if begins_exchange(bytes) == Some(false) {
            return Err(QuorumAuthError::Magic);
        }
        let Some(status) = number_at(bytes, 8) else { return Ok(None) };
        let status = QuorumAuthStatus::from_code(status).ok_or(QuorumAuthError::Status(status))?;
        let Some(length) = QuorumAuthPacket::length(bytes)? else { return Ok(None) };
        let Some(token) = bytes.get(QuorumAuthPacket::HEADER_BYTES..length) else { return Ok(None) };
        let token = (number_at(bytes, 12) != Some(-1)).then(|| token.to_vec());
        Ok(Some((QuorumAuthPacket { status, token }, length)))
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<i32> {
    let digits = bytes.get(at..at + 4)?;
    Some(i32::from_be_bytes([digits[0], digits[1], digits[2], digits[3]]))
}

/// The next action of the accepting server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptorStep {
    /// Send the packet and read the next one.
    Send(QuorumAuthPacket),
    /// Send the packet; the peer is authenticated.
    Accept {
        /// The last packet.
        packet: QuorumAuthPacket,
        /// The authenticated peer.
        identity: SaslIdentity,
    },
    /// Send the packet; the peer is not authenticated. The connection ends if authentication is required.
    Reject {
        /// The last packet.
        packet: QuorumAuthPacket,
        /// The reason.
        failure: SaslFailure,
    },
}

/// The accepting server's side of one exchange.
#[derive(Debug)]
pub struct QuorumAcceptor<S> {
    server: S,
    unfinished: u32,
}

impl<S: SaslServer> QuorumAcceptor<S> {
    /// An exchange with this mechanism.
    pub fn new(server: S) -> QuorumAcceptor<S> {
        QuorumAcceptor { server, unfinished: 0 }
    }

    /// Takes a packet of the dialler. ZooKeeper does not look at its status.
    pub fn receive(&mut self, packet: &QuorumAuthPacket) -> AcceptorStep {
        match self.server.step(packet.token.as_deref()) {
            SaslServerStep::Continue(token) => {
                self.unfinished += 1;
                if self.unfinished > UNFINISHED_MAX {
                    return reject(SaslFailure::TooManyRounds);
                }
                let status = QuorumAuthStatus::InProgress;
                AcceptorStep::Send(QuorumAuthPacket { status, token: Some(token) })
            }
            SaslServerStep::Complete { token, identity } => {
                let packet = QuorumAuthPacket { status: QuorumAuthStatus::Success, token };
                AcceptorStep::Accept { packet, identity }
            }
            SaslServerStep::Failed(failure) => reject(failure),
        }
    }
}

fn reject(failure: SaslFailure) -> AcceptorStep {
    let packet = QuorumAuthPacket { status: QuorumAuthStatus::Error, token: Some(Vec::new()) };
    AcceptorStep::Reject { packet, failure }
}

/// The next action of the dialling server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiallerStep {
    /// Send the packet and read the next one.
    Send(QuorumAuthPacket),
    /// The exchange succeeded.
    Done,
    /// The exchange failed; close the connection.
    Failed(SaslFailure),
}

/// The dialling server's side of one exchange.
#[derive(Debug)]
pub struct QuorumDialler<C> {
    client: C,
    rounds: u32,
}

impl<C: SaslClient> QuorumDialler<C> {
    /// An exchange with this mechanism.
    pub fn new(client: C) -> QuorumDialler<C> {
        QuorumDialler { client, rounds: 0 }
    }

    /// The first packet.
    pub fn start(&mut self) -> Result<QuorumAuthPacket, SaslFailure> {
        let token = Some(self.client.start()?);
        Ok(QuorumAuthPacket { status: QuorumAuthStatus::InProgress, token })
    }

    /// Takes a packet of the acceptor.
    pub fn receive(&mut self, packet: &QuorumAuthPacket) -> DiallerStep {
        self.rounds += 1;
        if packet.status == QuorumAuthStatus::Error {
            return DiallerStep::Failed(SaslFailure::Refused);
        }
        if self.rounds > UNFINISHED_MAX {
            return DiallerStep::Failed(SaslFailure::TooManyRounds);
        }
        match (self.client.step(packet.token.as_deref()), packet.status) {
            (SaslClientStep::Failed(failure), _) => DiallerStep::Failed(failure),
            (SaslClientStep::Respond(token), QuorumAuthStatus::InProgress) => {
                let status = QuorumAuthStatus::InProgress;
                DiallerStep::Send(QuorumAuthPacket { status, token: Some(token) })
            }
            (SaslClientStep::Complete, QuorumAuthStatus::Success) => DiallerStep::Done,
            (SaslClientStep::Respond(_), _) => {
                DiallerStep::Failed(SaslFailure::Malformed("the acceptor ended the exchange too early"))
            }
            (SaslClientStep::Complete, _) => {
                DiallerStep::Failed(SaslFailure::Malformed("the acceptor did not end the exchange"))
            }
        }
    }
}

/// The accepting side of a mechanism that proves the principals of a whole realm. Only servers of the
/// ensemble pass.
#[derive(Debug)]
pub struct EnsembleServer<S> {
    server: S,
    hosts: Vec<String>,
    realm: String,
}

impl<S: SaslServer> EnsembleServer<S> {
    /// Accepts the servers of these hosts in this realm.
    pub fn new(server: S, hosts: Vec<String>, realm: impl Into<String>) -> EnsembleServer<S> {
        EnsembleServer { server, hosts, realm: realm.into() }
    }
}

impl<S: SaslServer> SaslServer for EnsembleServer<S> {
    fn step(&mut self, token: Option<&[u8]>) -> SaslServerStep {
        match self.server.step(token) {
            SaslServerStep::Complete { identity, .. }
                if !authorize_peer(&identity, &self.hosts, &self.realm) =>
            {
                SaslServerStep::Failed(SaslFailure::NoPeer(identity.authentication_id))
            }
            step => step,
        }
    }
}

/// The principal of a server for `quorum.auth.kerberos.servicePrincipal`: `_HOST` as the whole second part
/// stands for the host of that server.
pub fn peer_principal(service_principal: &str, host: &str) -> String {
    let (name, realm) = match service_principal.split_once('@') {
        Some((name, realm)) => (name, Some(realm)),
        None => (service_principal, None),
    };
    let name = match name.split_once('/') {
        Some((service, "_HOST")) => format!("{service}/{}", host.to_lowercase()),
        Some(_) | None => name.to_owned(),
    };
    realm.map_or(name.clone(), |realm| format!("{name}@{realm}"))
}

/// Whether a Kerberos peer is a server of the ensemble. Its name is `service/host@realm` with a host of the
/// ensemble and the own realm, and it asks for no other authorization id.
///
/// Kerberos writes a separator inside a part with a backslash: `x\/host@realm` has one part and no host.
pub fn authorize_peer(identity: &SaslIdentity, hosts: &[String], realm: &str) -> bool {
    if identity.authentication_id.contains('\\') {
        return false;
    }
    let Ok(name) = KerberosName::parse(&identity.authentication_id) else { return false };
    let Some(host) = &name.host else { return false };
    name.realm.as_deref() == Some(realm)
        && hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
        && identity.authorization_id.as_ref().is_none_or(|id| *id == identity.authentication_id)
}
