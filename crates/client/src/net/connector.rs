//! Opens streams to servers. The driver is generic over it: TCP here, TLS in tls.rs, a pipe in tests.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::core::{Random, ServerAddress};

/// The limit for one address of a name, so that a dead address leaves time for the others.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens streams to servers.
///
/// ```
/// use std::{future::Future, io};
/// use tokio::io::DuplexStream;
/// use zebu_client::{Connector, ServerAddress};
///
/// /// Connects to a server that lives in this process.
/// struct InMemory;
///
/// impl Connector for InMemory {
///     type Stream = DuplexStream;
///     async fn connect(&self, _server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
///         let (mine, _theirs) = tokio::io::duplex(64 * 1024);
///         Ok(mine)
///     }
/// }
/// ```
pub trait Connector: Send + Sync + 'static {
    /// The type of its streams.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a stream. Names are resolved on every call; `random` spreads clients over the addresses of one
    /// name. The future is dropped at its timeout.
    fn connect(
        &self,
        server: &ServerAddress,
        random: u64,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    type Stream = TcpStream;

    async fn connect(&self, server: &ServerAddress, random: u64) -> io::Result<TcpStream> {
        let mut addresses: Vec<_> = lookup_host((&*server.host, server.port)).await?.collect();
        Random::new(random).shuffle(&mut addresses);
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match tokio::time::timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}
