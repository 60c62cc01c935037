//! The ports of a running server that take plain connections and TLS: `clientPort`, the quorum port and the
//! election port. The bytes come before a handshake or inside TLS. The server must close the connection, must
//! not panic, and must go on to serve.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;
use zebu_security::secret::SecretText;
use zebu_security::store::{StoreInput, read_key_store, read_trust_store};
use zebu_security::verify::{
    CertificatePolicy, CertificateUsage, JavaServerVerifier, NameCheck, OwnCertificate, RevocationMode,
};
use zebu_server::config::{ConfigInputs, Environment, LocalSystem, load};
use zebu_testing::port::free_address;

use crate::corpus::{self, Side};

/// Far more than the deadlines of the server.
const CLOSE_MAX: Duration = Duration::from_secs(30);

/// More bytes would only fill the socket.
const INPUT_MAX: usize = 64 << 10;

/// The server of all inputs.
static SERVER: LazyLock<TlsPorts> =
    LazyLock::new(|| TlsPorts::start().expect("a server with test certificates starts on loopback"));

/// Set by a panic of any thread of the server.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The ports, in the order of the selector byte.
const PORTS: u8 = 3;

struct TlsPorts {
    addresses: [SocketAddr; PORTS as usize],
    client: Arc<ClientConfig>,
    _directory: TempDir,
}

impl TlsPorts {
    fn start() -> io::Result<TlsPorts> {
        note_panics();
        let directory = TempDir::new()?;
        let home = directory.path();
        let [client, quorum, election] = [free_address()?, free_address()?, free_address()?];
        let [key, certificate, authority] = certificates();
        fs::write(home.join("key.pem"), [key.clone(), certificate.clone()].concat())?;
        fs::write(home.join("trust.pem"), &authority)?;
        fs::create_dir(home.join("data"))?;
        fs::write(home.join("data/myid"), "1\n")?;
        fs::write(home.join("zoo.cfg"), settings(home, [client, quorum, election]))?;
        serve(home);
        let ports = TlsPorts {
            addresses: [client, quorum, election],
            client: client_config(&[key, certificate].concat(), &authority)?,
            _directory: directory,
        };
        let deadline = Instant::now() + CLOSE_MAX;
        while !ports.is_serving() {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(ports)
    }

    fn is_serving(&self) -> bool {
        let answer = zebu_testing::four_letter::ask(self.addresses[0], "srvr", CLOSE_MAX);
        answer.is_ok_and(|answer| answer.contains("Mode: leader"))
    }

    fn connect(&self, port: u8) -> TcpStream {
        let connect = || {
            let stream = TcpStream::connect_timeout(&self.addresses[usize::from(port % PORTS)], CLOSE_MAX)?;
            stream.set_read_timeout(Some(CLOSE_MAX))?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(stream)
        };
        connect().expect("all ports listen for as long as the server runs")
    }
}

/// Key, certificate and authority.
fn certificates() -> [Vec<u8>; 3] {
    let files = corpus::security_files("certificates", &["localhost.key", "localhost.crt", "ca.crt"]);
    files.try_into().expect("the test certificates are in the repository")
}

fn settings(home: &Path, [client, quorum, election]: [SocketAddr; 3]) -> String {
    let mut text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\nadmin.enableServer=false\nforceSync=no\nstandaloneEnabled=false\n\
         server.1=localhost:{}:{}\nclient.portUnification=true\nsslQuorum=true\nportUnification=true\n",
        home.join("data").display(),
        client.port(),
        quorum.port(),
        election.port()
    );
    for prefix in ["ssl.", "ssl.quorum."] {
        text.push_str(&format!(
            "{prefix}keyStore.location={}\n{prefix}trustStore.location={}\n{prefix}clientAuth=want\n",
            home.join("key.pem").display(),
            home.join("trust.pem").display()
        ));
    }
    text
}

/// Starts the server, which ends with this process.
fn serve(home: &Path) {
    let inputs = ConfigInputs {
        arguments: vec![home.join("zoo.cfg").display().to_string()],
        properties: Vec::new(),
        environment: Environment::default(),
    };
    let loaded = load(&inputs, &LocalSystem);
    let config = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics.errors));
    std::thread::spawn(move || {
        let ended = zebu_server::run_until(config, |_| (), std::future::pending());
        panic!("the server ended: {ended:?}");
    });
}

fn note_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICKED.store(true, Ordering::SeqCst);
        report(panic);
    }));
}

fn client_config(identity: &[u8], authority: &[u8]) -> io::Result<Arc<ClientConfig>> {
    let none = SecretText::default();
    let keys = read_key_store(&StoreInput::new(identity, &none)).map_err(io::Error::other)?;
    let trusted = read_trust_store(&StoreInput::new(authority, &none)).map_err(io::Error::other)?;
    let policy = CertificatePolicy::new(&trusted, CertificateUsage::Server, RevocationMode::Off)
        .map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(JavaServerVerifier::new(policy, NameCheck::Off)))
        .with_client_cert_resolver(OwnCertificate::new(&keys).map_err(io::Error::other)?);
    Ok(Arc::new(config))
}

/// One connection. The first byte chooses the port, whether the bytes come inside TLS, and how they are cut.
pub(super) fn run(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    let bytes = &bytes[..bytes.len().min(INPUT_MAX)];
    let server = &*SERVER;
    let stream = server.connect(selector & 3);
    let pieces = if selector & 8 == 0 { INPUT_MAX } else { 7 };
    let ended = match selector & 4 == 0 {
        true => send_raw(stream, bytes, pieces),
        false => send_inside(stream, server.client.clone(), bytes, pieces),
    };
    let is_open =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    assert!(!ended.is_err_and(|error| is_open(&error)), "the server did not close the connection in time");
    assert!(!PANICKED.load(Ordering::SeqCst), "a thread of the server panicked");
    assert!(server.is_serving(), "the server does not serve any more");
}

/// Ends by the close of the server. A reset is one too.
fn send_raw(mut stream: TcpStream, bytes: &[u8], pieces: usize) -> io::Result<()> {
    for piece in bytes.chunks(pieces) {
        stream.write_all(piece)?;
    }
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn send_inside(stream: TcpStream, config: Arc<ClientConfig>, bytes: &[u8], pieces: usize) -> io::Result<()> {
    let name = ServerName::try_from("localhost").expect("a host name");
    let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, stream);
    for piece in bytes.chunks(pieces) {
        stream.write_all(piece)?;
        stream.flush()?;
    }
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(Shutdown::Write)?;
    // The end comes with or without close_notify.
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Beginnings of all protocols of these ports, for each port and both ways.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut beginnings = vec![
        b"ruok".to_vec(),
        vec![0x16],
        vec![0x16, 3, 1, 0, 0],
        vec![0x15, 3, 3, 0, 2, 2, 40],
        client_hello(),
    ];
    let framed = |frame: &Vec<u8>| [&(frame.len() as u32).to_be_bytes()[..], frame].concat();
    let frames = corpus::client_frames(Side::Client);
    let sessions = frames.iter().filter(|frame| frame.len() >= 44).take(4).map(framed);
    beginnings.extend(sessions);
    for port in ["election", "learner"] {
        beginnings.extend(corpus::quorum_messages(port).into_iter().take(4));
    }
    let selectors = (0..PORTS).flat_map(|port| [port, port | 4, port | 8]);
    selectors
        .flat_map(|selector| beginnings.iter().map(move |bytes| [&[selector][..], bytes].concat()))
        .collect()
}

/// A ClientHello of TLS 1.2 with one suite and no extension.
fn client_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    [&[0x16, 3, 1, 0, message.len() as u8][..], &message].concat()
}
