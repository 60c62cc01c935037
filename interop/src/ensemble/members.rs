//! The members: processes with a configuration and a directory each. A member knows its own ports, and the
//! others by those of the network between them.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testing::network::{Content, Network, Ports};
use zebu_testing::{Launch, four_letter};

use super::disk::{SmallDisk, TRIGGER_VARIABLE, build_library};

/// How long an ensemble may take to get a leader back. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

const WORD_PATIENCE: Duration = Duration::from_secs(1);

/// What a Zebu server is called; all others are Apache's.
pub(super) const ZEBU: &str = "Zebu";

/// The tick of all members. A learner or leader that hears nothing gives up after four of them.
pub(super) const TICK_MS: u64 = 500;

/// A signal by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Kill,
    Terminate,
    Stop,
    Continue,
}

impl Signal {
    fn word(self) -> &'static str {
        match self {
            Signal::Kill => "-KILL",
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        }
    }
}

struct Member {
    name: String,
    launch: Launch,
    /// Its own client port, which only this program uses.
    address: SocketAddr,
    /// Where clients find it.
    public: SocketAddr,
    config: PathBuf,
    data: PathBuf,
    log: PathBuf,
    trigger: PathBuf,
    child: Option<Child>,
    disk: Option<SmallDisk>,
}

/// All members.
pub(super) struct Members {
    members: Vec<Member>,
    pub(super) network: Network,
    library: PathBuf,
    /// How often each was seen to lead.
    pub(super) led: Vec<usize>,
}

/// The ports of a member.
struct Own {
    client: SocketAddr,
    quorum: SocketAddr,
    election: SocketAddr,
}

/// Where one member finds another.
struct Way {
    quorum: (SocketAddr, TcpListener),
    election: (SocketAddr, TcpListener),
}

impl Members {
    /// Writes configurations and directories; nothing runs yet.
    pub(super) fn new(home: &Path, launches: Vec<(String, Launch)>) -> Result<Members> {
        let count = launches.len();
        let network = Network::new(count)?;
        let mut ports = Ports::default();
        let own: Vec<Own> = (0..count)
            .map(|_| Ok(Own { client: ports.free()?, quorum: ports.free()?, election: ports.free()? }))
            .collect::<Result<_>>()?;
        let lines = connect_members(&network, &mut ports, &own)?;
        let mut members = Vec::new();
        for (index, (name, launch)) in launches.into_iter().enumerate() {
            let (public, listener) = network.listen(&mut ports)?;
            network.serve(listener, (network.clients(), index), own[index].client, Content::Plain);
            let data = home.join(format!("data{}", index + 1));
            fs::create_dir_all(&data)?;
            let disk = SmallDisk::mount(&data);
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            let config = home.join(format!("zoo{}.cfg", index + 1));
            fs::write(&config, configuration(&data, own[index].client, &lines[index]))?;
            let (log, trigger) =
                (home.join(format!("log{}", index + 1)), home.join(format!("failing{}", index + 1)));
            let address = own[index].client;
            members.push(Member {
                name,
                launch,
                address,
                public,
                config,
                data,
                log,
                trigger,
                child: None,
                disk,
            });
        }
        let (led, library) = (vec![0; members.len()], build_library(home)?);
        Ok(Members { members, network, library, led })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn name(&self, index: usize) -> &str {
        &self.members[index].name
    }

    /// Its own port, past the network.
    pub(super) fn address(&self, index: usize) -> SocketAddr {
        self.members[index].address
    }

    /// Where clients find the members.
    pub(super) fn public_addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.public).collect()
    }

    /// Where the member keeps its files.
    pub(super) fn data(&self, index: usize) -> &Path {
        &self.members[index].data
    }

    /// Its disk, if it can be filled.
    pub(super) fn disk(&self, index: usize) -> Option<&SmallDisk> {
        self.members[index].disk.as_ref()
    }

    /// The file that lets its syncs fail.
    pub(super) fn trigger(&self, index: usize) -> &Path {
        &self.members[index].trigger
    }

    pub(super) fn start(&mut self, index: usize) -> Result<()> {
        let member = &mut self.members[index];
        if member.child.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(&member.log)?;
        let child = Command::new(&member.launch.program)
            .args(&member.launch.before)
            .args(&member.launch.after)
            .arg(&member.config)
            .env("LD_PRELOAD", &self.library)
            .env(TRIGGER_VARIABLE, &member.trigger)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", member.name))?;
        member.child = Some(child);
        Ok(())
    }

    /// Sends a signal to a member's process; one that ends it is waited for.
    pub(super) fn signal(&mut self, index: usize, signal: Signal) -> Result<()> {
        let member = &mut self.members[index];
        let Some(child) = &mut member.child else { return Ok(()) };
        let status = Command::new("kill").arg(signal.word()).arg(child.id().to_string()).status()?;
        ensure!(status.success(), "kill {} of {} failed", signal.word(), member.name);
        if matches!(signal, Signal::Kill | Signal::Terminate) {
            child.wait()?;
            member.child = None;
        }
        Ok(())
    }

    /// Whether a member ends by itself within some time.
    pub(super) fn ends_within(&mut self, index: usize, limit: Duration) -> Result<bool> {
        let started = Instant::now();
        let member = &mut self.members[index];
        let Some(child) = &mut member.child else { return Ok(true) };
        while started.elapsed() < limit {
            if child.try_wait()?.is_some() {
                member.child = None;
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }

    pub(super) fn is_up(&self, index: usize) -> bool {
        self.members[index].child.is_some()
    }

    /// Whether a member is a Zebu server.
    pub(super) fn is_zebu(&self, index: usize) -> bool {
        self.name(index) == ZEBU
    }

    /// Where a member writes what happens.
    pub(super) fn log(&self, index: usize) -> &Path {
        &self.members[index].log
    }

    /// What a member answers to a four-letter word.
    pub(super) fn ask(&self, index: usize, word: &str) -> Option<String> {
        four_letter::ask(self.address(index), word, WORD_PATIENCE).ok()
    }

    fn mode(&self, index: usize) -> Option<String> {
        let text = self.ask(index, "srvr")?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// The member that leads, if one says so.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.len())
            .filter(|&index| self.is_up(index))
            .find(|&index| self.mode(index).as_deref() == Some("leader"))
    }

    /// Waits until every member serves, one of them as the leader. All must be up: one that has ended by
    /// itself is an error.
    pub(super) fn await_service(&mut self) -> Result<Duration> {
        let started = Instant::now();
        loop {
            for index in 0..self.len() {
                ensure!(
                    !self.ends_within(index, Duration::ZERO)? && !self.has_ended(index)?,
                    "{} (member {}) has ended by itself; log: {}",
                    self.name(index),
                    index + 1,
                    self.logs()
                );
            }
            let modes: Vec<_> = (0..self.len()).map(|index| self.mode(index)).collect();
            let leaders = modes.iter().flatten().filter(|mode| *mode == "leader").count();
            if leaders == 1 && modes.iter().all(Option::is_some) {
                if let Some(leader) = self.leader() {
                    self.led[leader] += 1;
                }
                return Ok(started.elapsed());
            }
            if started.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} the members are {modes:?}; logs: {}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn has_ended(&mut self, index: usize) -> Result<bool> {
        let Some(child) = &mut self.members[index].child else { return Ok(true) };
        Ok(child.try_wait()?.is_some())
    }

    /// Ends all members in order.
    pub(super) fn stop(&mut self) -> Result<()> {
        (0..self.len()).try_for_each(|index| self.signal(index, Signal::Terminate))
    }

    /// Ends all members and copies their files to where they stay, away from file systems that go.
    pub(super) fn keep_files(&mut self, home: &Path) -> Result<()> {
        self.kill_all();
        for (index, member) in self.members.iter().enumerate() {
            let kept = home.join(format!("kept{}", index + 1));
            let status = Command::new("cp").arg("-a").arg(&member.data).arg(&kept).status()?;
            ensure!(status.success(), "{} was not copied to {}", member.data.display(), kept.display());
        }
        Ok(())
    }

    fn kill_all(&mut self) {
        for mut child in self.members.iter_mut().filter_map(|member| member.child.take()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn logs(&self) -> String {
        self.members.iter().map(|member| member.log.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// Opens the ways between all members; the `server.N` lines as each of them has to see them.
fn connect_members(network: &Network, ports: &mut Ports, own: &[Own]) -> Result<Vec<String>> {
    let count = own.len();
    let mut ways: Vec<Vec<Option<Way>>> = Vec::new();
    for from in 0..count {
        let mut row = Vec::new();
        for to in 0..count {
            let way = || {
                Ok::<_, std::io::Error>(Way {
                    quorum: network.listen(ports)?,
                    election: network.listen(ports)?,
                })
            };
            let mut way = way;
            row.push(if from == to { None } else { Some(way()?) });
        }
        ways.push(row);
    }
    let line = |from: usize, to: usize| {
        let (quorum, election) = match &ways[from][to] {
            Some(way) => (way.quorum.0, way.election.0),
            None => (own[to].quorum, own[to].election),
        };
        format!("server.{}=127.0.0.1:{}:{}\n", to + 1, quorum.port(), election.port())
    };
    let lines = (0..count).map(|from| (0..count).map(|to| line(from, to)).collect()).collect();
    let back: Vec<Vec<Option<SocketAddr>>> = ways
        .iter()
        .map(|row| row.iter().map(|way| way.as_ref().map(|way| way.election.0)).collect())
        .collect();
    for (from, row) in ways.into_iter().enumerate() {
        for (to, way) in row.into_iter().enumerate() {
            let (Some(way), Some(called_back_at)) = (way, back[to][from]) else { continue };
            network.serve(way.quorum.1, (from, to), own[to].quorum, Content::Plain);
            let content = Content::Election { called_back_at };
            network.serve(way.election.1, (from, to), own[to].election, content);
        }
    }
    Ok(lines)
}

fn configuration(data: &Path, client: SocketAddr, lines: &str) -> String {
    format!(
        "tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\nsnapCount=2000\npreAllocSize=64\n\
         autopurge.purgeInterval=0\n{lines}",
        data.display(),
        client.port()
    )
}

impl Drop for Members {
    fn drop(&mut self) {
        self.kill_all();
    }
}
