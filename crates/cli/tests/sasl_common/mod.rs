//! A server with users, and the exchanges of a DIGEST-MD5 client with it.
#![allow(dead_code, unused_imports, reason = "every test file uses its own part of this")]

#[path = "../../../security/tests/sasl/digest_response.rs"]
mod digest_response;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zebu_proto::client::{ClientInfo, ReplyHeader};
use zebu_proto::jute::encode_buffer;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_testing::{RawClient, ServerProcess, ServerProcessBuilder};

use crate::common::{done, server};

pub(crate) use digest_response::{DigestResponse, bob, token_of};

pub(crate) const PROVIDER: &str =
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// A server with users, and the directory of its JAAS file.
pub(crate) struct SaslServer {
    pub(crate) server: ServerProcess,
    directory: TempDir,
}

impl SaslServer {
    /// A server with these lines beside the usual ones.
    pub(crate) fn start(lines: &[&str]) -> SaslServer {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("jaas.conf");
        fs::write(&path, jaas(&[])).expect("a JAAS file");
        let mut builder = builder(&path).line(PROVIDER).line("superUser=super");
        for line in lines {
            builder = builder.line(*line);
        }
        SaslServer { server: builder.start().expect("a server with users"), directory }
    }

    pub(crate) fn jaas_path(&self) -> PathBuf {
        self.directory.path().join("jaas.conf")
    }

    pub(crate) fn client(&self) -> RawClient {
        crate::common::open(&self.server).0
    }
}

/// A server with this JAAS file.
pub(crate) fn builder(jaas: &Path) -> ServerProcessBuilder {
    server()
        .property("java.security.auth.login.config", jaas.display().to_string())
        .property("zookeeper.fips-mode", "false")
}

/// A JAAS file with the usual users and these.
pub(crate) fn jaas(more: &[(&str, &str)]) -> String {
    let usual = [
        ("bob", "bobsecret"),
        ("super", "adminsecret"),
        ("mü€", "pässwörd"),
        ("weird", "a\\\"b\\\\c,d=e"),
        ("empty", ""),
        ("al@ice", "alicesecret"),
    ];
    let mut text = "Server {\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n".to_owned();
    for (user, password) in usual.iter().chain(more) {
        text.push_str(&format!("    \"user_{user}\"=\"{password}\"\n"));
    }
    text + "    ;\n};\n"
}

/// Sends a token and returns the reply.
pub(crate) fn send_token(
    client: &mut RawClient,
    token: Option<&[u8]>,
) -> Result<(ReplyHeader, Option<Vec<u8>>), zebu_testing::raw::RawError> {
    let (_, header, body) = client.call(OpCode::Sasl, |out| encode_buffer(token, out))?;
    let mut reader = Reader::new(&body);
    let token = reader.buffer().expect("a token in the body").map(<[u8]>::to_vec);
    assert_eq!(reader.remaining(), 0, "nothing behind the token");
    Ok((header, token))
}

/// Asks for the challenge and returns its nonce.
pub(crate) fn challenge(client: &mut RawClient, first: &[u8]) -> String {
    let (header, token) = send_token(client, Some(first)).expect("a challenge");
    assert_eq!((header.err, header.zxid), (0, 0));
    let text = String::from_utf8(token.expect("no null token")).expect("text");
    let rest = text.strip_prefix("realm=\"zk-sasl-md5\",nonce=\"").expect("realm and nonce first");
    let (nonce, rest) = rest.split_once('"').expect("the end of the nonce");
    assert_eq!((nonce.len(), rest), (40, ",charset=utf-8,algorithm=md5-sess"));
    nonce.to_owned()
}

/// The ids that whoAmI shows, without the address.
pub(crate) fn ids(client: &mut RawClient) -> Vec<String> {
    let (_, body) = done(client, OpCode::WhoAmI, |_| ());
    let infos = Vec::<ClientInfo>::decode(&mut Reader::new(&body)).expect("credentials");
    let text = |text: Option<Box<str>>| text.unwrap_or_default();
    let ids = infos.into_iter().map(|info| format!("{}:{}", text(info.scheme), text(info.user)));
    let mut ids: Vec<String> = ids.filter(|id| !id.starts_with("ip:")).collect();
    ids.sort();
    ids
}

/// A whole exchange. Returns the error of the last reply.
pub(crate) fn authenticate(client: &mut RawClient, user: &'static str, password: &'static str) -> i32 {
    let nonce = challenge(client, b"");
    send_token(client, Some(&DigestResponse::of(user, password).token(&nonce))).expect("a reply").0.err
}
