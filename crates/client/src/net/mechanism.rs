//! SASL mechanisms that run outside of the session machine, because they may block: GSSAPI with Kerberos.
//!
//! Steps run on threads for blocking calls, one at a time per client: a KDC that does not answer holds one
//! thread, however often the client connects.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use zebu_kerberos::{InitiatorContext, ServiceName, initiate};
use zebu_security::sasl::digest_md5::{DigestClient, DigestProfile};
use zebu_security::sasl::gssapi::GssClient;
use zebu_security::sasl::{SaslClient, SaslClientStep, SaslFailure};

use crate::core::{
    KerberosHostNames, KerberosLogin, LinkId, MechanismInput, SaslLogin, SaslLoginKind, ServerAddress,
};

type KerberosClient = GssClient<InitiatorContext>;

/// A step that has run.
struct FinishedStep {
    link: LinkId,
    client: Option<KerberosClient>,
    step: SaslClientStep,
}

/// The mechanism of the current connection.
pub(super) struct DriverMechanism {
    login: Option<KerberosLogin>,
    /// The mechanism between two steps.
    idle: Option<(LinkId, KerberosClient)>,
    steps: JoinSet<FinishedStep>,
    /// A step of an earlier connection may still block.
    turn: Arc<Semaphore>,
}

impl DriverMechanism {
    pub(super) fn new(login: Option<&SaslLogin>) -> DriverMechanism {
        let login = match login.map(|login| &login.kind) {
            Some(SaslLoginKind::Kerberos(login)) => Some(login.clone()),
            Some(SaslLoginKind::Digest { .. }) | None => None,
        };
        DriverMechanism { login, idle: None, steps: JoinSet::new(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Starts a step. Steps of earlier connections are given up.
    pub(super) fn start(&mut self, link: LinkId, server: &ServerAddress, input: MechanismInput) {
        self.steps.abort_all();
        let Some(login) = self.login.clone() else { return };
        let (host, turn) = (server.host.clone(), self.turn.clone());
        let client = self.idle.take().filter(|(idle, _)| *idle == link).map(|(_, client)| client);
        self.steps.spawn(async move {
            let permit = turn.acquire_owned().await;
            let run = move || {
                let finished = run_step(&login, &host, client, input);
                drop(permit);
                finished
            };
            let panicked = |_| {
                let failure = SaslFailure::Mechanism("the mechanism panicked".to_owned());
                (None, SaslClientStep::Failed(failure))
            };
            let (client, step) = spawn_blocking(run).await.unwrap_or_else(panicked);
            FinishedStep { link, client, step }
        });
    }

    /// Waits for a step. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (LinkId, SaslClientStep) {
        loop {
            match self.steps.join_next().await {
                Some(Ok(FinishedStep { link, client, step })) => {
                    self.idle = client.map(|client| (link, client));
                    return (link, step);
                }
                // The step was given up.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

fn run_step(
    login: &KerberosLogin,
    host: &str,
    client: Option<KerberosClient>,
    input: MechanismInput,
) -> (Option<KerberosClient>, SaslClientStep) {
    let result = match (input, client) {
        (MechanismInput::Start, _) => begin(login, host).and_then(|mut client| {
            let first = client.start()?;
            Ok((client, SaslClientStep::Respond(first)))
        }),
        (MechanismInput::Token(token), Some(mut client)) => {
            let step = client.step(token.as_deref());
            Ok((client, step))
        }
        (MechanismInput::Token(_), None) => Err(SaslFailure::Finished),
    };
    match result {
        Ok((client, step)) => (Some(client), step),
        Err(failure) => (None, SaslClientStep::Failed(failure)),
    }
}

fn begin(login: &KerberosLogin, host: &str) -> Result<KerberosClient, SaslFailure> {
    Ok(GssClient::new(initiate(login.principal.as_deref(), &service_of(login, host))?))
}

fn service_of(login: &KerberosLogin, host: &str) -> ServiceName {
    let with_realm = |name: String| match &login.server_realm {
        Some(realm) if !name.contains('@') => format!("{name}@{realm}"),
        Some(_) | None => name,
    };
    match (&login.server_principal, login.host_names) {
        (Some(principal), _) => ServiceName::Principal(with_realm(principal.clone())),
        (None, KerberosHostNames::AsWritten) => {
            ServiceName::Principal(with_realm(format!("{}/{host}", login.service)))
        }
        (None, KerberosHostNames::Canonical) => ServiceName::CanonicalHost {
            service: login.service.clone(),
            host: host.to_owned(),
            realm: login.server_realm.clone(),
        },
    }
}

impl SaslLogin {
    /// One exchange with the server of this host, for programs with a protocol loop of their own. The nonce
    /// must not be used again. With Kerberos this call and the steps of the exchange may block.
    ///
    /// # Errors
    /// Kerberos has no ticket.
    pub fn exchange(
        &self,
        host: &str,
        client_nonce: impl Into<String>,
    ) -> Result<Box<dyn SaslClient + Send>, SaslFailure> {
        match &self.kind {
            SaslLoginKind::Digest { user, password } => Ok(Box::new(DigestClient::new(
                DigestProfile::CLIENTS,
                user.clone(),
                password.clone(),
                client_nonce,
            ))),
            SaslLoginKind::Kerberos(login) => Ok(Box::new(begin(login, host)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_of_servers() {
        let canonical = |realm: Option<&str>| ServiceName::CanonicalHost {
            service: "zookeeper".to_owned(),
            host: "zk1".to_owned(),
            realm: realm.map(str::to_owned),
        };
        let principal = |name: &str| ServiceName::Principal(name.to_owned());
        let as_written = || KerberosLogin::new().host_names(KerberosHostNames::AsWritten);
        for (login, name) in [
            (KerberosLogin::new(), canonical(None)),
            (KerberosLogin::new().server_realm("R"), canonical(Some("R"))),
            (as_written().service("zk"), principal("zk/zk1")),
            (as_written().server_realm("R"), principal("zookeeper/zk1@R")),
            (KerberosLogin::new().server_principal("a/b"), principal("a/b")),
            (KerberosLogin::new().server_principal("a/b").server_realm("R"), principal("a/b@R")),
            (KerberosLogin::new().server_principal("a/b@S").server_realm("R"), principal("a/b@S")),
        ] {
            assert_eq!(service_of(&login, "zk1"), name);
        }
    }
}
