//! An ensemble inside the test's own process: several servers that agree over real sockets, each with a
//! directory of its own, behind a network that can be broken. It owns servers, directories and network.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use zebu_server::ShutdownMode;
use zebu_server::config::{ConfigInputs, Environment, LocalSystem, ServerConfig, load};

use super::running::Running;
use super::{TestServerError, failed};
use crate::four_letter;
use crate::network::{Content, Flow, Network, Ports};

/// Short ticks, as a [`TestServer`](super::TestServer) has them. A member that hears nothing gives up after
/// two seconds: machines that run tests are often busy with something else.
const BASE: &str = "feed.readers=world:anyone\ntickTime=100\nminSessionTimeout=200\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n\
                    admin.enableServer=false\nforceSync=no\npreAllocSize=1024\ninitLimit=100\nsyncLimit=20\n\
                    clientPortAddress=127.0.0.1\n";

/// How long an ensemble may take to get a leader. Far more than it needs.
const LEADER_MAX: Duration = Duration::from_secs(60);

/// How often members are asked what they are.
const POLL: Duration = Duration::from_millis(20);

/// How long a member may take to answer that.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What an ensemble is to be started with; see [`TestEnsemble::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before start"]
pub struct TestEnsembleBuilder {
    members: usize,
    lines: Vec<String>,
}

impl TestEnsembleBuilder {
    /// A line of every member's zoo.cfg; the last one for a key counts.
    pub fn line(mut self, line: impl Into<String>) -> TestEnsembleBuilder {
        self.lines.push(line.into());
        self
    }

    /// Starts all members; one of them leads and all serve when this returns.
    ///
    /// # Errors
    /// Says what the machine lacks, or that no leader was found.
    pub async fn start(self) -> Result<TestEnsemble, TestServerError> {
        let directory = TempDir::new().map_err(failed("make a directory for the ensemble"))?;
        let network = Network::new(self.members).map_err(failed("start the network"))?;
        let places = connect(&network, self.members).map_err(failed("open a port for a member"))?;
        let mut members = Vec::new();
        for (index, place) in places.into_iter().enumerate() {
            let config = self.config(directory.path(), index, &place)?;
            let running = Running::start(config.clone()).await?;
            let Place { client, public, .. } = place;
            members.push(Member { config, client, public, running: Mutex::new(Some(running)) });
        }
        let ensemble = TestEnsemble { members, network, _directory: directory };
        ensemble.wait_for_all().await?;
        Ok(ensemble)
    }

    fn config(&self, home: &Path, index: usize, place: &Place) -> Result<ServerConfig, TestServerError> {
        let data = home.join(format!("data{index}"));
        fs::create_dir(&data).map_err(failed("make a data directory"))?;
        fs::write(data.join("myid"), format!("{}\n", index + 1)).map_err(failed("write myid"))?;
        let mut text = format!("{BASE}dataDir={}\nclientPort={}\n", data.display(), place.client.port());
        for line in self.lines.iter().chain(&place.lines) {
            text.push_str(line);
            text.push('\n');
        }
        let path = home.join(format!("zoo{index}.cfg"));
        fs::write(&path, text).map_err(failed("write zoo.cfg"))?;
        let inputs = ConfigInputs {
            arguments: vec![path.display().to_string()],
            properties: vec![
                "zookeeper.4lw.commands.whitelist=*".to_owned(),
                "zookeeper.extendedTypesEnabled=true".to_owned(),
            ],
            // A developer's variables are not part of a test.
            environment: Environment::default(),
        };
        let loaded = load(&inputs, &LocalSystem);
        loaded.config.ok_or_else(|| {
            let errors: Vec<String> = loaded.diagnostics.errors.iter().map(ToString::to_string).collect();
            TestServerError::Config(errors.join("; "))
        })
    }
}

/// Where a member listens, where clients find it, and how it sees the ensemble.
struct Place {
    client: SocketAddr,
    public: SocketAddr,
    lines: Vec<String>,
}

/// Opens the ways between all members, and from clients to each.
fn connect(network: &Network, members: usize) -> std::io::Result<Vec<Place>> {
    let mut ports = Ports::default();
    let mut own = Vec::new();
    for _ in 0..members {
        own.push([ports.free()?, ports.free()?, ports.free()?]);
    }
    let mut ways = Vec::new();
    for from in 0..members {
        for to in 0..members {
            let way = (network.listen(&mut ports)?, network.listen(&mut ports)?);
            ways.push((from, to, way));
        }
    }
    let election_of: Vec<SocketAddr> = ways.iter().map(|(_, _, (_, election))| election.0).collect();
    let mut places = Vec::new();
    for [client, ..] in &own {
        let (public, listener) = network.listen(&mut ports)?;
        network.serve(listener, (network.clients(), places.len()), *client, Content::Plain);
        places.push(Place { client: *client, public, lines: Vec::new() });
    }
    for (from, to, (quorum, election)) in ways {
        let (mut quorum_at, mut election_at) = (quorum.0, election.0);
        if from == to {
            [_, quorum_at, election_at] = own[to];
        } else {
            network.serve(quorum.1, (from, to), own[to][1], Content::Plain);
            let called_back_at = election_of[to * members + from];
            network.serve(election.1, (from, to), own[to][2], Content::Election { called_back_at });
        }
        let line = format!("server.{}=127.0.0.1:{}:{}", to + 1, quorum_at.port(), election_at.port());
        places[from].lines.push(line);
    }
    Ok(places)
}

#[derive(Debug)]
struct Member {
    config: ServerConfig,
    client: SocketAddr,
    public: SocketAddr,
    running: Mutex<Option<Running>>,
}

/// A Zebu ensemble for a test, in the test's own process. Members are numbered from zero.
///
/// Everything is gone when it is dropped. It has the settings of a [`TestServer`](super::TestServer); the
/// limits are those of a machine that is busy: a lost leader is noticed at once if it goes, within two
/// seconds if it is cut off.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use zebu_client::Client;
/// use zebu_testing::TestEnsemble;
///
/// let ensemble = TestEnsemble::start(3).await?;
/// let client = Client::connect(&ensemble.connect_string()).await?;
/// let session = client.session().id;
/// client.create("/kept").await?;
///
/// let leader = ensemble.wait_for_leader().await?;
/// ensemble.kill(leader).await?;
/// assert!(client.exists("/kept").await?.is_some());
/// assert_eq!(client.session().id, session);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestEnsemble {
    // In the order in which they go: the servers before their directories.
    members: Vec<Member>,
    network: Network,
    _directory: TempDir,
}

impl TestEnsemble {
    /// Starts an ensemble with the defaults; one member leads and all serve when this returns.
    ///
    /// # Errors
    /// Says what the machine lacks, or that no leader was found.
    pub async fn start(members: usize) -> Result<TestEnsemble, TestServerError> {
        TestEnsemble::builder(members).start().await
    }

    /// Begins an ensemble with other settings.
    pub fn builder(members: usize) -> TestEnsembleBuilder {
        TestEnsembleBuilder { members, lines: Vec::new() }
    }

    /// How many members there are, running or not.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// What clients are given: all members. It stays the same over every restart.
    pub fn connect_string(&self) -> String {
        let all: Vec<String> = self.members.iter().map(|member| member.public.to_string()).collect();
        all.join(",")
    }

    /// Where clients find one member.
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].public
    }

    /// Stops a member as an operator would: what was begun is finished and answered.
    ///
    /// # Errors
    /// The server ended badly.
    pub async fn stop(&self, member: usize) -> Result<(), TestServerError> {
        self.end(member, ShutdownMode::Graceful).await
    }

    /// Ends a member as a crash would: connections break, nothing more is answered, and writes that were not
    /// in its log yet are lost.
    ///
    /// # Errors
    /// The server ended badly.
    pub async fn kill(&self, member: usize) -> Result<(), TestServerError> {
        self.end(member, ShutdownMode::Abort).await
    }

    async fn end(&self, member: usize, how: ShutdownMode) -> Result<(), TestServerError> {
        let running = self.members[member].running.lock().await.take();
        match running {
            Some(running) => Ok(running.end(how).await?),
            None => Ok(()),
        }
    }

    /// Starts a member again on the same ports and files; one that runs is stopped first. It may not serve
    /// yet when this returns: see [`TestEnsemble::wait_for_all`].
    ///
    /// # Errors
    /// The server did not start.
    pub async fn restart(&self, member: usize) -> Result<(), TestServerError> {
        self.stop(member).await?;
        let started = Running::start(self.members[member].config.clone()).await?;
        *self.members[member].running.lock().await = Some(started);
        Ok(())
    }

    /// Cuts a member off from the others, until [`TestEnsemble::heal`]; clients still reach it. Nothing is
    /// lost of what is on its way, it comes late.
    pub fn isolate(&self, member: usize) {
        for other in (0..self.members.len()).filter(|&other| other != member) {
            self.network.set(member, other, Flow::Held);
            self.network.set(other, member, Flow::Held);
        }
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.network.heal();
    }

    /// Cuts the connections of all clients to a member; they can come back at once.
    pub fn cut_clients(&self, member: usize) {
        self.network.cut(self.network.clients(), member);
    }

    /// The server that reports itself as leader; `None` if there is none. A leader that was disconnected a
    /// moment ago may still report it.
    pub async fn leader(&self) -> Option<usize> {
        for (index, _) in self.running().await {
            if self.mode(index).await.as_deref() == Some("leader") {
                return Some(index);
            }
        }
        None
    }

    /// Waits until a member leads.
    ///
    /// # Errors
    /// None does in a minute.
    pub async fn wait_for_leader(&self) -> Result<usize, TestServerError> {
        let deadline = Instant::now() + LEADER_MAX;
        loop {
            if let Some(leader) = self.leader().await {
                return Ok(leader);
            }
            if Instant::now() > deadline {
                return Err(TestServerError::NoLeader(LEADER_MAX));
            }
            sleep(POLL).await;
        }
    }

    /// Waits until every member that runs serves; the one that leads.
    ///
    /// # Errors
    /// They do not in a minute.
    pub async fn wait_for_all(&self) -> Result<usize, TestServerError> {
        let deadline = Instant::now() + LEADER_MAX;
        loop {
            let mut modes = Vec::new();
            for (index, _) in self.running().await {
                modes.push((index, self.mode(index).await));
            }
            let leaders = modes.iter().filter(|(_, mode)| mode.as_deref() == Some("leader"));
            if let [(leader, _)] = leaders.collect::<Vec<_>>()[..]
                && modes.iter().all(|(_, mode)| mode.is_some())
            {
                return Ok(*leader);
            }
            if Instant::now() > deadline {
                return Err(TestServerError::NoLeader(LEADER_MAX));
            }
            sleep(POLL).await;
        }
    }

    /// Members that run, with their own addresses.
    async fn running(&self) -> Vec<(usize, SocketAddr)> {
        let mut running = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            if member.running.lock().await.is_some() {
                running.push((index, member.client));
            }
        }
        running
    }

    async fn mode(&self, member: usize) -> Option<String> {
        let address = self.members[member].client;
        let ask = move || four_letter::ask(address, "srvr", ANSWER_MAX);
        let text = tokio::task::spawn_blocking(ask).await.ok()?.ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }
}
