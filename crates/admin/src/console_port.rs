//! A port of its own for a console whose backend is no server of this process.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use tokio::net::TcpListener;
use zebu_console::Visitor;

use crate::authorization::Caller;
use crate::forwarded::TrustedProxies;
use crate::listener::{HttpListener, HttpProtection};
use crate::request_origin::{HostRule, check_origin};

/// A connection without a request is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A bound port, with the limits of the admin port.
#[derive(Debug)]
pub struct ConsolePort {
    listener: TcpListener,
}

impl ConsolePort {
    /// Binds the port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr) -> io::Result<ConsolePort> {
        Ok(ConsolePort { listener: TcpListener::bind(address).await? })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped.
    pub async fn serve(self, router: Router) {
        let listener = HttpListener {
            listener: self.listener,
            router,
            protection: HttpProtection::Plain,
            counted_by: None,
            idle_timeout: IDLE_TIMEOUT,
            proxies: TrustedProxies::none(),
        };
        listener.serve().await;
    }
}

/// The sender of a request to a [`ConsolePort`].
///
/// # Errors
/// The request comes from a page of another origin or names a host that is not local.
pub fn console_visitor(parts: &Parts) -> Result<Visitor, String> {
    let caller = parts.extensions.get::<Caller>().ok_or("the connection is not known")?;
    check_origin(&parts.headers, &HostRule::Local(Vec::new())).map_err(|error| error.to_string())?;
    Ok(Visitor { address: caller.address, is_secure: caller.is_secure })
}
