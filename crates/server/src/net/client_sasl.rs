//! SASL of the client port: creates the mechanism of a connection, and holds the users that a reload
//! replaces.
//!
//! `node` decides about tokens, ids and limits. A mechanism that may block runs off the network threads.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tracing::{debug, warn};
use zebu_kerberos::AcceptorCredential;
use zebu_node::{
    ClientConnection, ConnectionPhase, DisconnectReason, SaslMechanism, SaslOutcome, SaslRoundResult,
};
use zebu_security::sasl::SaslFailure;
use zebu_security::sasl::digest_md5::{DigestProfile, DigestServer, DigestUsers, NONCE_BYTES};
use zebu_security::sasl::gssapi::GssServer;

use super::connections::ConnectionEntry;
use crate::config::security::client_sasl::ClientLogin;
use crate::core::context::ServerContext;
use crate::metrics::Counter;
use crate::sync::{AtomicI64, Mutex};

/// Least milliseconds between two log lines about failed exchanges.
const FAILURE_LOG_MS: i64 = 100;

/// Characters of a logged reason.
const REASON_CHARS_MAX: usize = 300;

/// The mechanism of the client port.
#[derive(Debug)]
enum ClientMechanism {
    /// No login: `node` refuses every token.
    None,
    /// DIGEST-MD5 with these users.
    Digest(Mutex<Arc<DigestUsers>>),
    /// GSSAPI with the keys of this principal.
    Kerberos { principal: String },
}

/// SASL of the client port.
#[derive(Debug)]
pub(crate) struct ClientSasl {
    mechanism: ClientMechanism,
    /// Failed exchanges without a log line since the last one.
    unlogged: Counter,
    /// Monotonic milliseconds of the last line.
    logged_ms: AtomicI64,
}

impl ClientSasl {
    pub(crate) fn new(login: Option<&ClientLogin>) -> ClientSasl {
        let mechanism = match login {
            Some(ClientLogin::Digest(login)) => {
                ClientMechanism::Digest(Mutex::new(Arc::new(login.users.clone())))
            }
            Some(ClientLogin::Kerberos(acceptor)) => {
                ClientMechanism::Kerberos { principal: acceptor.principal.clone() }
            }
            None => ClientMechanism::None,
        };
        let logged_ms = AtomicI64::new(-FAILURE_LOG_MS);
        ClientSasl { mechanism, unlogged: Counter::default(), logged_ms }
    }

    /// Begins the exchange of a connection.
    pub(crate) fn begin(&self) -> Result<SaslMechanism, SaslFailure> {
        match &self.mechanism {
            ClientMechanism::None => Err(SaslFailure::Refused),
            ClientMechanism::Digest(users) => {
                let users = users.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let mut nonce = [0; NONCE_BYTES];
                getrandom::fill(&mut nonce).map_err(|error| {
                    SaslFailure::Mechanism(format!("the system gives no random numbers: {error}"))
                })?;
                Ok(Box::new(DigestServer::new(DigestProfile::CLIENTS, users, nonce)))
            }
            // The keytab is opened for each exchange: it may have been replaced.
            ClientMechanism::Kerberos { principal } => {
                Ok(Box::new(GssServer::new(AcceptorCredential::acquire(principal)?.context())))
            }
        }
    }

    /// Whether a mechanism may wait for files or the network.
    pub(crate) fn may_block(&self) -> bool {
        match self.mechanism {
            ClientMechanism::None | ClientMechanism::Digest(_) => false,
            ClientMechanism::Kerberos { .. } => true,
        }
    }

    /// Replaces the users for exchanges that begin later.
    pub(crate) fn replace_users(&self, users: DigestUsers) {
        if let ClientMechanism::Digest(slot) = &self.mechanism {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        }
    }

    /// Logs a failure, unless another one was logged just now.
    fn log_failure(&self, peer: SocketAddr, connection: &ClientConnection, reason: &str, now_ms: i64) {
        if now_ms - self.logged_ms.load(Relaxed) < FAILURE_LOG_MS {
            self.unlogged.increment();
            return;
        }
        self.logged_ms.store(now_ms, Relaxed);
        let unlogged = self.unlogged.since_reset();
        self.unlogged.reset();
        let session = connection.session.map(|session| session.id.to_string()).unwrap_or_default();
        // Clients choose the names in it: Debug escapes control characters.
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        warn!(%peer, session, ?reason, unlogged, "SASL authentication failed");
    }
}

/// Answers a processed token, and logs its effect.
pub(super) fn finish_round(shared: &ServerContext, entry: &ConnectionEntry, result: SaslRoundResult) {
    let now_ms = shared.clock.monotonic_ms();
    let replica = shared.read_replica();
    let mut connection = entry.lock();
    let peer = entry.remote_address;
    match replica.finish_sasl_round(&mut connection, result) {
        SaslOutcome::Continues => {}
        SaslOutcome::Authenticated(id) => debug!(%peer, ?id, "authenticated with SASL"),
        SaslOutcome::Failed(reason) => {
            shared.protection.sasl_failed.increment();
            shared.sasl.log_failure(peer, &connection, &reason, now_ms);
        }
    }
}

/// Counts and logs an exchange that did not end in time. Returns whether there is one.
pub(super) fn expire_exchange(shared: &ServerContext, entry: &ConnectionEntry) -> bool {
    let mut connection = entry.lock();
    if connection.sasl_deadline_ms().is_none() || connection.phase != ConnectionPhase::Serving {
        return false;
    }
    connection.close(DisconnectReason::SaslTimeout);
    shared.protection.sasl_failed.increment();
    let reason = SaslFailure::TooSlow.to_string();
    shared.sasl.log_failure(entry.remote_address, &connection, &reason, shared.clock.monotonic_ms());
    true
}
