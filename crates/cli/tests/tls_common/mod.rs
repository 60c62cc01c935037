//! A certificate authority, a server with a TLS port and a blocking TLS client for tests.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};
use tempfile::TempDir;
use zebu_proto::client::{ConnectResponse, ReplyHeader, RequestHeader};
use zebu_proto::{Jute, OpCode, Reader};
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, JavaServerVerifier, NameCheck, OwnCertificate, RevocationMode,
};
use zebu_testing::raw::new_session_request;
use zebu_testing::{ServerProcess, ServerProcessBuilder, port};

use crate::common::server;

pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
pub(crate) const BOTH_VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

/// A certificate authority of one test.
pub(crate) struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

impl TestAuthority {
    pub(crate) fn new(name: &str) -> TestAuthority {
        let mut params = subject(&[(DnType::CommonName, name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        TestAuthority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The certificate of the authority.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Key and certificate of a server on this machine.
    pub(crate) fn server(&self, name: &str) -> String {
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = subject(&[(DnType::CommonName, name)]).distinguished_name;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// Key and certificate of a client.
    pub(crate) fn client(&self, parts: &[(DnType, &str)]) -> String {
        let mut params = subject(parts);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    pub(crate) fn issue(&self, params: &CertificateParams) -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        key.serialize_pem() + &certificate.pem()
    }
}

pub(crate) fn subject(parts: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in parts {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

/// Writes a file that only this user can read.
pub(crate) fn write_private(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;
    // Replaced by a rename, as careful operators do it.
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&new, path).unwrap();
}

/// A server with a plain port and a TLS port, its authority and its files.
pub(crate) struct SecureServer {
    pub(crate) server: ServerProcess,
    pub(crate) secure: SocketAddr,
    pub(crate) authority: TestAuthority,
    pub(crate) folder: TempDir,
}

impl SecureServer {
    pub(crate) fn start(lines: &[&str]) -> SecureServer {
        let authority = TestAuthority::new("Test CA");
        let (folder, secure) = (TempDir::new().unwrap(), port::free_address().unwrap());
        let builder = with_tls(folder.path(), secure, &authority.server("localhost"), &authority.pem());
        let server = lines.iter().fold(builder, |builder, line| builder.line(*line)).start().unwrap();
        SecureServer { server, secure, authority, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A client `CN=name,O=Zebu Test`.
    pub(crate) fn client(&self, name: &str) -> Arc<ClientConfig> {
        self.client_named(&[(DnType::OrganizationName, "Zebu Test"), (DnType::CommonName, name)])
    }

    /// A client with this subject.
    pub(crate) fn client_named(&self, parts: &[(DnType, &str)]) -> Arc<ClientConfig> {
        client_config(&self.authority.pem(), Some(&self.authority.client(parts)), &BOTH_VERSIONS)
    }

    pub(crate) fn metric(&self, name: &str) -> i64 {
        metric(self.server.address(), name)
    }
}

/// A server with the files of its TLS port in a folder. It takes any number of connections of one host.
pub(crate) fn with_tls(folder: &Path, secure: SocketAddr, key: &str, trust: &str) -> ServerProcessBuilder {
    write_private(&folder.join("server.pem"), key);
    fs::write(folder.join("trust.pem"), trust).unwrap();
    server()
        .line(format!("secureClientPort={}", secure.port()))
        .line("secureClientPortAddress=127.0.0.1")
        .line("maxClientCnxns=0")
        .line(format!("ssl.keyStore.location={}", folder.join("server.pem").display()))
        .line(format!("ssl.trustStore.location={}", folder.join("trust.pem").display()))
}

/// A file of the certificates that OpenSSL and keytool made.
pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../security/testdata/certificates").join(name);
    fs::read_to_string(path).unwrap()
}

/// What a client trusts and shows.
pub(crate) fn client_config(
    trust: &str,
    identity: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let none = SecretText::default();
    let trusted = read_trust_store(&StoreInput::new(trust.as_bytes(), &none)).unwrap();
    let policy = CertificatePolicy::new(&trusted, CertificateUsage::Server, RevocationMode::Off).unwrap();
    let verifier = JavaServerVerifier::new(policy, NameCheck::DialledName);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let keys = read_key_store(&StoreInput::new(pem.as_bytes(), &none)).unwrap();
            builder.with_client_cert_resolver(OwnCertificate::new(&keys).unwrap())
        }
    })
}

/// One TLS connection.
pub(crate) struct TlsClient {
    pub(crate) stream: StreamOwned<ClientConnection, TcpStream>,
    next_xid: i32,
}

impl TlsClient {
    /// Connects and finishes the handshake of this side.
    pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsClient> {
        let mut socket = TcpStream::connect_timeout(&address, TIME_LIMIT)?;
        socket.set_read_timeout(Some(TIME_LIMIT))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(TlsClient { stream: StreamOwned::new(session, socket), next_xid: 1 })
    }

    /// Connects and opens a session.
    pub(crate) fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsClient> {
        let mut client = TlsClient::connect(address, config)?;
        client.handshake()?;
        Ok(client)
    }

    /// Opens a session.
    pub(crate) fn handshake(&mut self) -> io::Result<ConnectResponse> {
        let mut bytes = Vec::new();
        zebu_proto::frame::write_frame(&mut bytes, |out| new_session_request().encode(out));
        self.stream.write_all(&bytes)?;
        let frame = self.receive_frame()?;
        ConnectResponse::decode(&mut Reader::new(&frame)).map_err(io::Error::other)
    }

    pub(crate) fn receive_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Sends one request and waits for its reply.
    pub(crate) fn call(
        &mut self,
        op: OpCode,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<(ReplyHeader, Vec<u8>)> {
        let mut bytes = Vec::new();
        let xid = self.next_xid;
        self.next_xid += 1;
        zebu_proto::frame::write_frame(&mut bytes, |out| {
            RequestHeader { xid, op: op.wire() }.encode(out);
            body(out);
        });
        self.stream.write_all(&bytes)?;
        let frame = self.receive_frame()?;
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader).map_err(io::Error::other)?;
        Ok((header, reader.rest().to_vec()))
    }

    /// The ids that whoAmI shows, as `scheme:user`.
    pub(crate) fn who_am_i(&mut self) -> Vec<String> {
        let (header, body) = self.call(OpCode::WhoAmI, |_| {}).unwrap();
        assert_eq!(header.err, 0);
        let mut reader = Reader::new(&body);
        let infos = Vec::<zebu_proto::client::ClientInfo>::decode(&mut reader).unwrap();
        infos
            .iter()
            .map(|info| format!("{}:{}", info.scheme.as_deref().unwrap(), info.user.as_deref().unwrap()))
            .collect()
    }

    /// The certificate of the server.
    pub(crate) fn server_certificate(&self) -> Vec<u8> {
        self.stream.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

/// Whether a connection is of use: a session can be opened. A refused certificate shows only here in TLS 1.3.
pub(crate) fn is_accepted(address: SocketAddr, config: &Arc<ClientConfig>) -> bool {
    TlsClient::open(address, config).is_ok()
}

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {TIME_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One value of mntr.
pub(crate) fn metric(address: SocketAddr, name: &str) -> i64 {
    let text = zebu_testing::four_letter::ask(address, "mntr", TIME_LIMIT).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}
