//! A server to load, and how its sessions reach it: plain or by TLS, with or without a SASL user.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zebu_client::{Connector, SaslLogin, ServerList, TlsConnector};

/// A server to load.
#[derive(Clone, Debug)]
pub struct BenchServer {
    /// `host:port`
    pub address: String,
    /// TLS, if the port speaks it.
    pub tls: Option<TlsConnector>,
    /// The user of the sessions.
    pub sasl: Option<SaslLogin>,
}

impl From<String> for BenchServer {
    fn from(address: String) -> BenchServer {
        BenchServer { address, tls: None, sasl: None }
    }
}

impl From<&str> for BenchServer {
    fn from(address: &str) -> BenchServer {
        BenchServer::from(address.to_owned())
    }
}

impl From<&String> for BenchServer {
    fn from(address: &String) -> BenchServer {
        BenchServer::from(address.clone())
    }
}

impl From<&BenchServer> for BenchServer {
    fn from(server: &BenchServer) -> BenchServer {
        server.clone()
    }
}

type TlsStream = <TlsConnector as Connector>::Stream;

/// The connection of a session.
pub(crate) enum BenchStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl BenchStream {
    pub(crate) async fn open(server: &BenchServer) -> io::Result<BenchStream> {
        let Some(connector) = &server.tls else {
            let stream = TcpStream::connect(&server.address).await?;
            stream.set_nodelay(true)?;
            return Ok(BenchStream::Plain(stream));
        };
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let list: ServerList = server.address.parse().map_err(|error| invalid(format!("{error}")))?;
        let first = list.servers().first().ok_or_else(|| invalid("no server".to_owned()))?;
        Ok(BenchStream::Tls(Box::new(connector.connect(first, 0).await?)))
    }

    /// The socket, if bytes arrive on it as they are.
    pub(crate) fn plain(&self) -> io::Result<&TcpStream> {
        match self {
            BenchStream::Plain(stream) => Ok(stream),
            BenchStream::Tls(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the times of arrival are known for plain connections only; leave TLS away",
            )),
        }
    }
}

impl AsyncRead for BenchStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            BenchStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            BenchStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for BenchStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            BenchStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            BenchStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            BenchStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            BenchStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            BenchStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            BenchStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
