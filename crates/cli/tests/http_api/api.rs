//! A server with the API, and calls of it.

use std::io::Write;
use std::net::SocketAddr;

use serde_json::Value;
use zebu_testing::{ServerProcess, ServerProcessBuilder};

use crate::admin_common::{Answer, SUPER_DIGEST, admin_port, connect, exchange};
use crate::common;

/// The API of a running server.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
}

/// A server with an admin port; the API is off.
pub(crate) fn plain_server() -> ServerProcessBuilder {
    common::server()
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line("extendedTypesEnabled=true")
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
}

pub(crate) fn server() -> ServerProcessBuilder {
    plain_server().line("admin.api.enabled=true")
}

impl Api {
    pub(crate) fn of(server: &ServerProcess) -> Api {
        Api { address: admin_port(server) }
    }

    /// Sends a request with further header lines.
    pub(crate) fn call(&self, method: &str, path: &str, lines: &[&str], body: &[u8]) -> Answer {
        exchange(connect(self.address), &request(method, path, lines, body))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], b"")
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.call("PUT", path, &[], body)
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.call("POST", path, &[], body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, &[], b"")
    }

    /// Sends bytes and reads to the end of the connection, which may bring no answer.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = connect(self.address);
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
        answer
    }
}

pub(crate) fn request(method: &str, path: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let host = match lines.iter().any(|line| line.starts_with("Host:")) {
        true => "",
        false => "Host: 127.0.0.1\r\n",
    };
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = match method == "GET" || method == "HEAD" {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!("{method} /v1{path} HTTP/1.1\r\n{host}Connection: close\r\n{length}{lines}\r\n");
    [head.as_bytes(), body].concat()
}

/// The whole JSON of an answer.
pub(crate) fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error} in {}", answer.text()))
}

/// Checks that an answer is a problem with this status and code.
pub(crate) fn refused(answer: &Answer, status: u16, code: &str) {
    let said = (answer.status, json(answer)["code"].as_str().map(str::to_owned));
    assert_eq!(said, (status, Some(code.to_owned())), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(json(answer)["status"], status);
}
