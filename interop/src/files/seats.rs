//! The sessions of a round: those that live through every change of hands, those that end, and those that
//! are left to expire.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::WriteRequest;
use zebu_proto::{Jute, OpCode, Reader, Text};
use zebu_testing::Session;

use super::requests::{self, Kind};
use crate::client::Client;
use crate::dump::Dump;

/// Timeout of a session that stays.
const LASTING_MS: i32 = 300_000;

/// Timeout of a session that is left: longer than a change of hands takes.
const LEFT_MS: i32 = 8_000;

/// Timeout of a session that expires where it was opened.
const EXPIRING_MS: i32 = 2_000;

/// How long a server may take to expire a session.
const EXPIRY_LIMIT: Duration = Duration::from_secs(40);

/// Credentials of the sessions that stay.
const USERS: [&[&str]; 3] = [&[], &["u1:p1"], &["u1:p1", "u2:p2"]];

/// A session without a client, which has to expire.
#[derive(Clone, Debug)]
pub(super) struct Left {
    session: Session,
    nodes: Vec<String>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Seats {
    lasting: Vec<Session>,
    clients: Vec<Client>,
    /// Sessions that have ended, one way or the other.
    ended: Vec<Session>,
    /// Expires here.
    expiring: Option<Left>,
    /// Expires where the directory goes next.
    left: Option<(Client, Left)>,
    /// Came from where the directory was before.
    arrived: Option<Left>,
    serial: usize,
}

impl Seats {
    /// Opens the lasting sessions, or comes back to them.
    pub(super) fn sit_down(&mut self, address: SocketAddr) -> Result<()> {
        self.clients.clear();
        self.arrived = self.left.take().map(|(_, left)| left);
        if self.lasting.is_empty() {
            for _ in USERS {
                self.clients.push(Client::open(address, LASTING_MS)?);
            }
            self.lasting = self.clients.iter().map(Client::session).collect();
        } else {
            for session in &self.lasting {
                let mut stranger = *session;
                stranger.password[3] ^= 1;
                let refused = Client::resume(address, stranger, LASTING_MS)?.is_none();
                ensure!(refused, "a wrong password for session 0x{:x} was taken", session.id.0);
                let client = Client::resume(address, *session, LASTING_MS)?;
                self.clients.push(client.with_context(|| format!("session 0x{:x} is lost", session.id.0))?);
            }
        }
        for (client, users) in self.clients.iter_mut().zip(USERS) {
            ensure!(client.timeout_ms() == LASTING_MS, "a timeout became {}", client.timeout_ms());
            users.iter().try_for_each(|user| client.add_user(user))?;
        }
        for session in &self.ended {
            let refused = Client::resume(address, *session, LASTING_MS)?.is_none();
            ensure!(refused, "session 0x{:x} had ended and is there again", session.id.0);
        }
        Ok(())
    }

    /// How many sessions were resumed or refused, each as it should be.
    pub(super) fn checked(&self) -> usize {
        self.lasting.len() + self.ended.len()
    }

    /// The lasting sessions with their connections.
    pub(super) fn clients(&mut self) -> &mut [Client] {
        &mut self.clients
    }

    /// A session that makes two ephemeral nodes below `parent` and closes.
    pub(super) fn come_and_go(&mut self, address: SocketAddr, parent: &str) -> Result<()> {
        let mut client = Client::open(address, EXPIRING_MS)?;
        self.ephemerals(&mut client, parent)?;
        client.write(&WriteRequest::CloseSession)?;
        self.ended.push(client.session());
        Ok(())
    }

    /// Opens the session that expires on this server: its connection is closed at once.
    pub(super) fn open_expiring(&mut self, address: SocketAddr) -> Result<()> {
        let mut client = Client::open(address, EXPIRING_MS)?;
        let nodes = self.ephemerals(&mut client, "")?;
        self.expiring = Some(Left { session: client.session(), nodes });
        Ok(())
    }

    /// Opens the session that is to expire on the next server.
    pub(super) fn open_left(&mut self, address: SocketAddr) -> Result<()> {
        let mut client = Client::open(address, LEFT_MS)?;
        let nodes = self.ephemerals(&mut client, "")?;
        let left = Left { session: client.session(), nodes };
        self.left = Some((client, left));
        Ok(())
    }

    /// Waits until those have expired that must, and looks for their nodes.
    pub(super) fn wait_for_expiry(&mut self, client: &mut Client, address: SocketAddr) -> Result<usize> {
        let gone: Vec<Left> = self.expiring.take().into_iter().chain(self.arrived.take()).collect();
        for left in &gone {
            let deadline = Instant::now() + EXPIRY_LIMIT;
            for node in &left.nodes {
                while exists(client, node)? {
                    if Instant::now() > deadline {
                        bail!("{node} of session 0x{:x} is still there", left.session.id.0);
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            }
            let refused = Client::resume(address, left.session, LASTING_MS)?.is_none();
            ensure!(refused, "session 0x{:x} has expired and is there", left.session.id.0);
            self.ended.push(left.session);
        }
        Ok(gone.len())
    }

    /// Asks the server for the ephemeral nodes of each lasting session and compares with `dump`.
    pub(super) fn check_ephemerals(&mut self, dump: &Dump) -> Result<usize> {
        let mut count = 0;
        for client in &mut self.clients {
            let id = client.session().id.0;
            client.queue(OpCode::GetEphemerals, |out| Some(Box::from("/")).encode(out));
            client.flush()?;
            let (header, body) = client.reply()?;
            ensure!(header.err == 0, "getEphemerals answered {}", header.err);
            let listed: Vec<Text> = Jute::decode(&mut Reader::new(&body))?;
            let mut listed: Vec<String> = listed.into_iter().flatten().map(String::from).collect();
            listed.sort();
            let owned = dump.0.iter().filter(|(_, node)| node.stat.ephemeral_owner == id);
            let owned: Vec<String> = owned.map(|(path, _)| path.clone()).collect();
            ensure!(listed == owned, "session 0x{id:x} owns {owned:?}, the server lists {listed:?}");
            count += owned.len();
        }
        Ok(count)
    }

    fn ephemerals(&mut self, client: &mut Client, parent: &str) -> Result<Vec<String>> {
        self.serial += 1;
        let path = format!("{parent}/of-session-{}-", self.serial);
        let mut nodes = Vec::new();
        for kind in [Kind::Ephemeral, Kind::EphemeralSequential] {
            // Below some nodes this is refused, which is as good a transaction as another.
            nodes.extend(client.write(&requests::create(&path, kind))?.created);
        }
        Ok(nodes)
    }
}

/// Whether there is a node.
pub(super) fn exists(client: &mut Client, path: &str) -> Result<bool> {
    client.queue(OpCode::Exists, |out| {
        Some(Box::from(path)).encode(out);
        false.encode(out);
    });
    client.flush()?;
    Ok(client.reply()?.0.err == 0)
}
