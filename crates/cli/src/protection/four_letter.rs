//! One four-letter word to one server, over TCP or TLS, and its whole answer. Time and size are bounded.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zebu_client::{Connector, ServerAddress, ServerList, TlsConnector};
use zebu_server::host_address;

/// Limits of one question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordLimits {
    pub(crate) time: Duration,
    pub(crate) answer_bytes: u64,
}

/// Sends a word, with the rest of its line, and returns the answer.
pub(crate) fn ask(
    address: &str,
    word: &str,
    tls: Option<&TlsConnector>,
    limits: WordLimits,
) -> io::Result<String> {
    let answer = match tls {
        Some(connector) => ask_by_tls(address, word, connector, limits)?,
        None => ask_plainly(address, word, limits)?,
    };
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A name may have several addresses; the first that answers counts.
fn ask_plainly(address: &str, word: &str, limits: WordLimits) -> io::Result<Vec<u8>> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let (host, port) = split(address)?;
    for address in host_address::resolve(host, port)? {
        let asked = TcpStream::connect_timeout(&address, limits.time)
            .and_then(|stream| converse(stream, word, limits));
        match asked {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Host, without the brackets of an IPv6 address, and port. A zone stays: `resolve` understands it.
fn split(address: &str) -> io::Result<(&str, u16)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "expected HOST:PORT");
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok((host, port.parse().map_err(|_| wrong())?))
}

fn converse(mut stream: TcpStream, word: &str, limits: WordLimits) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(limits.time))?;
    stream.write_all(word.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(limits.answer_bytes).read_to_end(&mut answer)?;
    match answer.as_slice() {
        // An alert of TLS: the server did not understand the word.
        [21, 3, ..] => Err(io::Error::other("the server speaks TLS on this port; use --tls")),
        _ => Ok(answer),
    }
}

fn ask_by_tls(
    address: &str,
    word: &str,
    connector: &TlsConnector,
    limits: WordLimits,
) -> io::Result<Vec<u8>> {
    let list: ServerList =
        address.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{error}")))?;
    let server: ServerAddress =
        list.servers().first().cloned().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let conversation = async {
            let mut stream = connector.connect(&server, 0).await?;
            stream.write_all(word.as_bytes()).await?;
            stream.flush().await?;
            let mut answer = Vec::new();
            // The write side stays open: a close_notify would end the connection at some servers.
            match (&mut stream).take(limits.answer_bytes).read_to_end(&mut answer).await {
                Ok(_) => Ok(answer),
                // Servers often close without close_notify.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {
                    Ok(answer)
                }
                Err(error) => Err(error),
            }
        };
        match tokio::time::timeout(limits.time, conversation).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    })
}
