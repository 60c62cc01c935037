//! TLS around a server: a port that forwards to a server without TLS, and a hello that no server accepts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Opens the port. It stays open as long as the runtime of the caller.
///
/// # Errors
/// The port cannot be opened.
pub async fn terminate_tls(target: SocketAddr, config: ServerConfig) -> io::Result<SocketAddr> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut server = TcpStream::connect(target).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut server).await
            });
        }
    });
    Ok(address)
}

/// A ClientHello of TLS 1.0 with one suite and no extension. A server answers with an alert.
pub fn old_client_hello() -> Vec<u8> {
    let mut body = vec![0x03, 0x01];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x00, 0x2f, 1, 0]);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    let mut record = vec![0x16, 0x03, 0x01, 0, message.len() as u8];
    record.extend(message);
    record
}
