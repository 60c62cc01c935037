//! The members of a mixed ensemble: seats with a configuration and a directory each, and who sits on them. A
//! seat can change hands between Apache and Zebu and keeps both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::Zxid;
use zebu_testing::{Launch, four_letter, port};

use crate::apache::Edition;

/// How long an ensemble may take to get a leader. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

const WORD_PATIENCE: Duration = Duration::from_secs(3);

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Shows what Apache's learners and leaders say about a synchronisation.
const LOGBACK: &str = r#"<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level [%thread] %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <logger name="org.apache.zookeeper.server.quorum.Learner" level="INFO"/>
  <logger name="org.apache.zookeeper.server.quorum.LearnerHandler" level="DEBUG"/>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"#;

/// Who sits on a seat.
#[derive(Clone, Debug)]
pub(super) enum Server {
    Zebu(PathBuf),
    /// Zebu as it was released before.
    PreviousZebu(PathBuf),
    Apache(Edition),
}

impl Server {
    pub(super) fn name(&self) -> String {
        match self {
            Server::Zebu(_) => "Zebu".to_owned(),
            Server::PreviousZebu(_) => "the previous Zebu".to_owned(),
            Server::Apache(edition) => edition.to_string(),
        }
    }

    /// The words of its log count.
    pub(super) fn is_zebu(&self) -> bool {
        matches!(self, Server::Zebu(_) | Server::PreviousZebu(_))
    }
}

/// Whether a seat has a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Participant,
    Observer,
}

/// A signal by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Kill,
    Terminate,
    Stop,
}

struct Seat {
    server: Server,
    address: SocketAddr,
    election: SocketAddr,
    config: PathBuf,
    /// The configuration without the lines of [`Fleet::configure`].
    base: String,
    data: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    excused: Excused,
}

/// Wrong digests that a server counted by itself while it took a whole state, and up to which transaction.
#[derive(Clone, Copy, Debug)]
struct Excused {
    count: u64,
    up_to: Zxid,
}

const NOTHING_EXCUSED: Excused = Excused { count: 0, up_to: Zxid::ZERO };

/// All seats. They are counted from 0; the number in `myid` is one more.
pub(super) struct Fleet {
    home: PathBuf,
    seats: Vec<Seat>,
    /// Words for the command line of each server.
    words: Vec<String>,
}

impl Fleet {
    /// Writes configurations and directories; nothing runs yet.
    pub(super) fn new(home: &Path, servers: Vec<(Server, Vote)>) -> Result<Fleet> {
        let mut ports: Vec<SocketAddr> = Vec::new();
        while ports.len() < 3 * servers.len() {
            let address = port::free_address()?;
            if !ports.contains(&address) {
                ports.push(address);
            }
        }
        let mut lines = String::new();
        for (index, (_, vote)) in servers.iter().enumerate() {
            let (quorum, election) = (ports[3 * index + 1].port(), ports[3 * index + 2].port());
            let role = if *vote == Vote::Observer { ":observer" } else { "" };
            lines.push_str(&format!("server.{}=127.0.0.1:{quorum}:{election}{role}\n", index + 1));
        }
        fs::write(home.join("logback.xml"), LOGBACK)?;
        let mut seats = Vec::new();
        for (index, (server, vote)) in servers.into_iter().enumerate() {
            let number = index + 1;
            let data = home.join(format!("data{number}"));
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{number}\n"))?;
            let address = ports[3 * index];
            let config = home.join(format!("zoo{number}.cfg"));
            let role = if vote == Vote::Observer { "peerType=observer\n" } else { "" };
            let text = format!(
                "tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\ndataDir={}\nclientPort={}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\n{role}{lines}",
                data.display(),
                address.port()
            );
            fs::write(&config, &text)?;
            let (log, election) = (home.join(format!("log{number}")), ports[3 * index + 2]);
            let (child, excused, base) = (None, NOTHING_EXCUSED, text);
            seats.push(Seat { server, address, election, config, base, data, log, child, excused });
        }
        Ok(Fleet { home: home.to_owned(), seats, words: Vec::new() })
    }

    /// Adds lines to each configuration, and words to each command line.
    pub(super) fn protect(&mut self, lines: &str, words: &[String]) -> Result<()> {
        self.words = words.to_vec();
        (0..self.len()).try_for_each(|index| self.configure(index, lines))
    }

    /// Adds lines to one configuration, in place of those that were added before.
    pub(super) fn configure(&self, index: usize, lines: &str) -> Result<()> {
        let seat = &self.seats[index];
        Ok(fs::write(&seat.config, format!("{}\n{lines}", seat.base))?)
    }

    /// Where a member listens for votes.
    pub(super) fn election_address(&self, index: usize) -> SocketAddr {
        self.seats[index].election
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn server(&self, index: usize) -> &Server {
        &self.seats[index].server
    }

    /// Another server takes over the configuration and the directory. The old one must have stopped.
    pub(super) fn hand_over(&mut self, index: usize, server: Server) {
        self.seats[index].server = server;
    }

    pub(super) fn address(&self, index: usize) -> SocketAddr {
        self.seats[index].address
    }

    pub(super) fn connect_string(&self) -> String {
        self.seats.iter().map(|seat| seat.address.to_string()).collect::<Vec<_>>().join(",")
    }

    pub(super) fn is_up(&self, index: usize) -> bool {
        self.seats[index].child.is_some()
    }

    pub(super) fn start(&mut self, index: usize) -> Result<()> {
        let properties = self.properties(index);
        let seat = &mut self.seats[index];
        ensure!(seat.child.is_none(), "member {} runs already", index + 1);
        let launch = match &seat.server {
            Server::Zebu(binary) | Server::PreviousZebu(binary) => Launch::zebu(binary.clone()),
            Server::Apache(edition) => edition.launch()?,
        };
        let log = File::options().create(true).append(true).open(&seat.log)?;
        let child = Command::new(&launch.program)
            .args(&launch.before)
            .args(properties)
            .args(&launch.after)
            .arg(&seat.config)
            .env("ZEBU_LOG", "info")
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", seat.server.name()))?;
        seat.child = Some(child);
        seat.excused = NOTHING_EXCUSED;
        Ok(())
    }

    /// Apache takes a whole state that changes while it is sent, and compares the digests of transactions
    /// whose effects are in it already: under load it counts wrong ones, also when Apache leads. What it has
    /// counted so far is no fault; what it counts from now on is.
    pub(super) fn excuse_digests(&mut self, index: usize) -> Result<u64> {
        let count = self.digest_mismatches(index)?;
        let up_to = four_letter::last_zxid(self.address(index), WORD_PATIENCE)?;
        self.seats[index].excused = Excused { count, up_to };
        Ok(count)
    }

    /// Wrong digests that a member has counted and is not excused for.
    pub(super) fn unexcused_digests(&self, index: usize) -> Result<u64> {
        Ok(self.digest_mismatches(index)?.saturating_sub(self.seats[index].excused.count))
    }

    /// The digests of a member by transaction, without those that it is excused for.
    pub(super) fn digests(&self, index: usize) -> Result<BTreeMap<Zxid, String>> {
        let up_to = self.seats[index].excused.up_to;
        let pair = |line: &str| {
            let (zxid, digest) = line.split_once(": ")?;
            Some((Zxid(i64::from_str_radix(zxid, 16).ok()?), digest.to_owned()))
        };
        let digests = self.ask(index, "hash")?;
        Ok(digests.lines().filter_map(pair).filter(|(zxid, _)| *zxid > up_to).collect())
    }

    fn digest_mismatches(&self, index: usize) -> Result<u64> {
        let monitor = self.monitor(index)?;
        let count = monitor.get("digest_mismatches_count");
        let count = count.with_context(|| format!("member {} has no digest_mismatches_count", index + 1))?;
        Ok(count.parse()?)
    }

    /// Sets ZooKeeper's log level, and forbids transactions from its log: a learner that is far behind gets a
    /// SNAP.
    fn properties(&self, index: usize) -> Vec<String> {
        let mut words = match &self.seats[index].server {
            Server::Zebu(_) | Server::PreviousZebu(_) => Vec::new(),
            Server::Apache(_) => vec![
                "-Dzookeeper.snapshotSizeFactor=-1".to_owned(),
                format!("-Dlogback.configurationFile={}", self.home.join("logback.xml").display()),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=info".to_owned(),
                "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.quorum.LearnerHandler=debug"
                    .to_owned(),
            ],
        };
        words.extend(self.words.clone());
        words
    }

    /// Sends a signal to a member's process; one that ends it is waited for.
    pub(super) fn signal(&mut self, index: usize, signal: Signal) -> Result<()> {
        let word = match signal {
            Signal::Kill => "-KILL",
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
        };
        let seat = &mut self.seats[index];
        let Some(child) = &mut seat.child else { return Ok(()) };
        let status = Command::new("kill").arg(word).arg(child.id().to_string()).status()?;
        ensure!(status.success(), "kill {word} of member {} failed", index + 1);
        if signal != Signal::Stop {
            child.wait()?;
            seat.child = None;
        }
        Ok(())
    }

    /// An answer to a word.
    pub(super) fn ask(&self, index: usize, word: &str) -> Result<String> {
        four_letter::ask(self.address(index), word, WORD_PATIENCE)
            .with_context(|| format!("{word} of member {}", index + 1))
    }

    /// All of `mntr`, without `zk_`.
    pub(super) fn monitor(&self, index: usize) -> Result<BTreeMap<String, String>> {
        let text = self.ask(index, "mntr")?;
        let pair = |line: &str| {
            let (name, value) = line.strip_prefix("zk_")?.split_once('\t')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    pub(super) fn mode(&self, index: usize) -> Option<String> {
        let text = self.ask(index, "srvr").ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// The member that leads, if one says so.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.len())
            .filter(|&index| self.is_up(index))
            .find(|&index| self.mode(index).as_deref() == Some("leader"))
    }

    /// Waits until every member that is up serves, one of them as the leader, and says which and for how long
    /// it took.
    pub(super) fn await_service(&mut self) -> Result<(usize, Duration)> {
        let started = Instant::now();
        loop {
            let up: Vec<usize> = (0..self.len()).filter(|&index| self.is_up(index)).collect();
            let modes: Vec<_> = up.iter().map(|&index| self.mode(index)).collect();
            // A single server leads nothing.
            let primary = if self.len() == 1 { "standalone" } else { "leader" };
            let mut leaders = up.iter().zip(&modes).filter(|(_, mode)| mode.as_deref() == Some(primary));
            if let (Some((leader, _)), None) = (leaders.next(), leaders.next())
                && modes.iter().all(Option::is_some)
            {
                return Ok((*leader, started.elapsed()));
            }
            if started.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} members {up:?} are {modes:?}; {}", self.last_words());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until all who are up have applied the same last transaction.
    pub(super) fn await_equal_zxids(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let up = (0..self.len()).filter(|&index| self.is_up(index));
            let zxids: Vec<_> =
                up.map(|index| four_letter::last_zxid(self.address(index), WORD_PATIENCE).ok()).collect();
            if zxids[0].is_some() && zxids.iter().all(|zxid| *zxid == zxids[0]) {
                return Ok(());
            }
            ensure!(started.elapsed() < PATIENCE, "after {PATIENCE:?} the members stand at {zxids:?}");
            std::thread::sleep(POLL);
        }
    }

    /// How long a member's log is: what is written from now on lies behind it.
    pub(super) fn log_mark(&self, index: usize) -> u64 {
        fs::metadata(&self.seats[index].log).map_or(0, |file| file.len())
    }

    /// The same of all members.
    pub(super) fn log_marks(&self) -> Vec<u64> {
        (0..self.len()).map(|index| self.log_mark(index)).collect()
    }

    /// The epoch of a member's last transaction.
    pub(super) fn epoch(&self, index: usize) -> Result<i64> {
        Ok(four_letter::last_zxid(self.address(index), WORD_PATIENCE)?.0 >> 32)
    }

    /// What a member has logged behind a mark.
    pub(super) fn log_since(&self, index: usize, mark: u64) -> Result<String> {
        let mut text = Vec::new();
        let mut file = File::open(&self.seats[index].log)?;
        file.seek(SeekFrom::Start(mark))?;
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn version_2(&self, index: usize) -> PathBuf {
        self.seats[index].data.join("version-2")
    }

    /// Takes away everything that a member knows.
    pub(super) fn empty(&self, index: usize) -> Result<()> {
        ensure!(!self.is_up(index), "member {} runs", index + 1);
        Ok(fs::remove_dir_all(self.version_2(index))?)
    }

    /// Gives all that one member knows to another one, in place of what it knew.
    pub(super) fn copy_knowledge(&self, from: usize, to: usize) -> Result<()> {
        self.empty(to)?;
        self.fill(to, self, from)
    }

    /// Copies the files of a stopped server of any fleet into an empty seat.
    pub(super) fn fill(&self, to: usize, fleet: &Fleet, from: usize) -> Result<()> {
        fs::create_dir_all(self.version_2(to))?;
        for entry in fs::read_dir(fleet.version_2(from))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), self.version_2(to).join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Waits until these bytes are in a member's transaction log.
    pub(super) fn await_in_log(&self, index: usize, bytes: &[u8]) -> Result<()> {
        let started = Instant::now();
        while !self.is_in_log(index, bytes)? {
            ensure!(started.elapsed() < PATIENCE, "member {} logs no proposal", index + 1);
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub(super) fn is_in_log(&self, index: usize, bytes: &[u8]) -> Result<bool> {
        for entry in fs::read_dir(self.version_2(index))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("log.") {
                let text = fs::read(entry.path())?;
                if text.windows(bytes.len()).any(|window| window == bytes) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The end of each log, for a report of something that went wrong.
    pub(super) fn last_words(&self) -> String {
        let mut text = String::new();
        for (index, seat) in self.seats.iter().enumerate() {
            let log = fs::read_to_string(&seat.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(12)..].join("\n    ");
            text.push_str(&format!("\n  member {} ({}):\n    {last}", index + 1, seat.server.name()));
        }
        text
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.seats.iter_mut().filter_map(|seat| seat.child.as_mut()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
