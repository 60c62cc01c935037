//! Requests to the admin server of a server: one short HTTP exchange per connection, plain or by TLS.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zebu_client::{Connector, ServerAddress, TcpConnector, TlsConnector};

use crate::console::printable;

/// `admin.serverPort` without a setting.
const PORT_DEFAULT: u16 = 8080;

/// How long an exchange may take, and the longest answer.
const TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The longest credential.
const AUTH_BYTES_MAX: usize = 4096;

/// The place of an admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminAddress(ServerAddress);

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AdminAddress {
    /// Reads `host`, `host:port` or `[address]:port`.
    pub(crate) fn parse(text: &str) -> Result<AdminAddress, String> {
        let wrong = || format!("{text} is no host and no host:port");
        let is_bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_v6 && !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            Some(_) | None => (text, PORT_DEFAULT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        AdminAddress::of(host, port).ok_or_else(wrong)
    }

    /// The host of a server with the port of its admin server.
    pub(crate) fn of(host: &str, port: u16) -> Option<AdminAddress> {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_%".contains(&byte);
        let is_valid = !host.is_empty() && host.bytes().all(is_host);
        is_valid.then(|| AdminAddress(ServerAddress { host: host.into(), port }))
    }
}

/// How admin servers are asked.
#[derive(Debug)]
pub(crate) struct AdminAccess {
    /// Value of the header `Authorization`.
    authorization: Option<String>,
    command_url: String,
    tls: Option<TlsConnector>,
}

impl AdminAccess {
    /// Reads the credential.
    pub(crate) fn open(
        auth_file: Option<&Path>,
        command_url: &str,
        tls: Option<TlsConnector>,
    ) -> Result<AdminAccess, String> {
        let authorization = auth_file.map(read_authorization).transpose()?;
        if !command_url.starts_with('/') || command_url.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(format!("{command_url} is no path"));
        }
        let command_url = command_url.trim_end_matches('/').to_owned();
        Ok(AdminAccess { authorization, command_url, tls })
    }

    /// Asks a server to drain and to stop.
    pub(crate) fn drain(&self, address: &AdminAddress) -> Result<(), String> {
        let answer = self.post(address, "drain").map_err(|error| error.to_string())?;
        read_answer(&answer)
    }

    /// Whether the port of the admin server accepts connections.
    pub(crate) fn answers(&self, address: &AdminAddress) -> bool {
        let connected = run(async { TcpConnector.connect(&address.0, 0).await.map(drop) });
        connected.is_ok()
    }

    fn post(&self, address: &AdminAddress, command: &str) -> io::Result<String> {
        let authorization =
            self.authorization.as_ref().map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
        let request = format!(
            "POST {}/{command} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: \
             0\r\n{authorization}\r\n",
            self.command_url
        );
        match &self.tls {
            Some(connector) => run(exchange(connector, &address.0, &request)),
            None => run(exchange(&TcpConnector, &address.0, &request)),
        }
    }
}

fn read_authorization(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = text.trim_end_matches(['\r', '\n']);
    let is_valid = line.len() <= AUTH_BYTES_MAX
        && line.contains(' ')
        && line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if is_valid {
        Ok(line.to_owned())
    } else {
        Err(format!("{}: expected one line: digest super:secret", file.display()))
    }
}

fn run<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match tokio::time::timeout(TIME_MAX, work).await {
            Ok(done) => done,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    })
}

async fn exchange(connector: &impl Connector, server: &ServerAddress, request: &str) -> io::Result<String> {
    let stream = connector.connect(server, 0).await?;
    converse(stream, request).await
}

/// Sends the request and reads to the end. The write side stays open: some servers take its end for that of
/// the connection.
async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || answer.is_empty() => Err(error),
        Ok(_) | Err(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// The outcome of a command: the status line, and the error that the body names.
fn read_answer(answer: &str) -> Result<(), String> {
    let status = answer.split_whitespace().nth(1).filter(|_| answer.starts_with("HTTP/1."));
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let value: Option<serde_json::Value> = body
        .find('{')
        .zip(body.rfind('}'))
        .and_then(|(start, end)| serde_json::from_str(body.get(start..=end)?).ok());
    let error = value.as_ref().and_then(|value| value.get("error")).and_then(|error| error.as_str());
    match (status, error) {
        (Some("200"), None) if value.is_some() => Ok(()),
        (Some("401" | "403"), _) => Err(
            "the admin server does not accept this identity; --auth-file must hold that of the super user"
                .to_owned(),
        ),
        (Some(_), Some(error)) => Err(printable(error)),
        (Some(status), None) => Err(format!("the admin server answered with status {status}")),
        (None, _) => Err("this is no admin server of Zebu (admin.serverPort)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_admin_servers() {
        for (text, shown) in [
            ("zk1", "zk1:8080"),
            ("zk1:81", "zk1:81"),
            ("[::1]:81", "[::1]:81"),
            ("::1", "[::1]:8080"),
            ("[::1]", "[::1]:8080"),
        ] {
            assert_eq!(AdminAddress::parse(text).unwrap().to_string(), shown, "{text}");
        }
        for wrong in ["", "zk1:x", "a b", "zk1\r\nx:1"] {
            assert!(AdminAddress::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn answers_of_admin_servers() {
        let answer =
            |status: &str, body: &str| read_answer(&format!("HTTP/1.1 {status}\r\nA: b\r\n\r\n{body}"));
        assert_eq!(answer("200 OK", "{\"command\": \"drain\", \"error\": null}"), Ok(()));
        let unknown = answer("200 OK", "{\"command\": \"drain\", \"error\": \"Unknown command: drain\"}");
        assert_eq!(unknown, Err("Unknown command: drain".to_owned()));
        assert!(answer("401 Unauthorized", "{\"error\": \"x\"}").unwrap_err().contains("--auth-file"));
        assert!(answer("404 Not Found", "").unwrap_err().contains("404"));
        assert!(read_answer("SSH-2.0").unwrap_err().contains("no admin server"));
        assert!(answer("200 OK", "").is_err(), "an answer without an object is no success");
    }

    #[test]
    fn a_credential_is_one_line() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("auth");
        for (text, expected) in [
            ("digest super:secret\n", Some("digest super:secret")),
            ("super:secret\n", None),
            ("digest a:b\nx: y\n", None),
            ("", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read_authorization(&file).ok().as_deref(), expected, "{text:?}");
        }
    }
}
