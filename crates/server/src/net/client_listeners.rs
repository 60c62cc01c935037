//! The listeners of all client ports, bound and started together.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use super::listener::ClientListener;
use super::port_protection::ClientPorts;
use crate::config::membership::HostPort;
use crate::core::context::ServerContext;
use crate::panic_guard::PanicGuard;
use crate::ports::open_files;
use crate::run::ServerReady;
use crate::serve_error::ServeError;
use crate::tls::ReloadingTls;

/// The bound client ports; at least one.
pub(crate) struct ClientListeners {
    client: Option<ClientListener>,
    secure: Option<ClientListener>,
    tls: Option<Arc<ReloadingTls>>,
}

impl ClientListeners {
    /// Binds all ports. Nothing is accepted yet.
    ///
    /// # Errors
    /// The port that cannot be bound.
    pub(crate) fn bind(
        runtime: &Runtime,
        shared: &Arc<ServerContext>,
        ports: ClientPorts,
    ) -> Result<ClientListeners, ServeError> {
        let _context = runtime.enter();
        let connections_max = open_files::connections_max(shared.config.listen.max_connections);
        let bind = |port| ClientListener::bind(shared.clone(), port, connections_max);
        let client = ports.client.map(bind).transpose()?;
        let secure = ports.secure.map(bind).transpose()?;
        let listeners = ClientListeners { client, secure, tls: ports.tls };
        if let Some(tls) = &listeners.tls {
            shared.protection.set_client_tls(tls);
        }
        let ready = listeners.ready()?;
        if listeners.client.is_some() {
            shared.set_client_port(ready.address.port());
        }
        if let Some(secure) = ready.secure_address {
            shared.set_secure_client_port(secure.port());
        }
        Ok(listeners)
    }

    /// The bound addresses.
    ///
    /// # Errors
    /// The system does not know them.
    pub(crate) fn ready(&self) -> Result<ServerReady, ServeError> {
        let address_of =
            |listener: &Option<ClientListener>| listener.as_ref().and_then(ClientListener::local_address);
        let secure_address = address_of(&self.secure);
        let address = address_of(&self.client).or(secure_address).ok_or_else(|| {
            ServeError::Internal("the address of the listener is not known to the system".to_owned())
        })?;
        Ok(ServerReady { address, secure_address })
    }

    /// Accepts clients, and keeps the certificates up to date, until the tasks are aborted.
    pub(crate) fn spawn(self, shared: &Arc<ServerContext>) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        if let Some(listener) = self.client {
            let follow = listener.serve(shared.client_address());
            let guarded = PanicGuard::run_task(shared.clone(), "the listener for clients", follow);
            tasks.push(tokio::spawn(guarded));
        } else {
            tasks.push(tokio::spawn(report_unopened(shared.client_address())));
        }
        if let Some(listener) = self.secure {
            let accept = listener.serve_here();
            let guarded = PanicGuard::run_task(shared.clone(), "the TLS listener for clients", accept);
            tasks.push(tokio::spawn(guarded));
        }
        if let Some(tls) = self.tls {
            tasks.push(tokio::spawn(tls.watch_files()));
        }
        tasks
    }
}

/// Reports each client address of a config that this server does not open, because it has no `clientPort`.
async fn report_unopened(mut client_address: watch::Receiver<Option<HostPort>>) {
    while client_address.changed().await.is_ok() {
        let Some(client_address) = client_address.borrow_and_update().clone() else { continue };
        warn!(
            %client_address,
            "the config names a client address that is not opened: this server has secureClientPort only; \
             set clientPort and restart it, or remove the address by reconfig"
        );
    }
}
