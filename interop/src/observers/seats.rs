//! Servers with a number, a loopback address and a directory each. The addresses differ because the port
//! where followers serve observers has the same number everywhere.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testing::{Launch, four_letter, port};

use super::Launches;
use crate::client::Client;
use crate::dump::Dump;

/// How long a step may take. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

const WORD_PATIENCE: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(50);

const SESSION_MS: i32 = 20_000;

/// Who sits on a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Apache,
    Zebu,
}

/// Whose digests count. An Apache member that loses its leader while it is behind reads its log while it
/// still applies what was decided, and counts a wrong digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digests {
    OfAll,
    OfZebu,
}

/// Whether a seat has a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Participant,
    Observer,
}

struct Seat {
    id: u8,
    vote: Vote,
    launch: Launch,
    kind: Kind,
    ports: [u16; 3],
    child: Option<Child>,
}

pub(super) struct Seats {
    home: PathBuf,
    seats: Vec<Seat>,
}

impl Seats {
    /// Writes configurations; nothing runs yet. `lines` are added to every file.
    pub(super) fn new(
        home: &Path,
        launches: &Launches,
        members: &[(u8, Kind, Vote)],
        lines: &str,
    ) -> Result<Seats> {
        let mut seats = Vec::new();
        for &(id, kind, vote) in members {
            let ports = [port::free_address()?, port::free_address()?, port::free_address()?];
            let launch = match kind {
                Kind::Apache => launches.apache.clone(),
                Kind::Zebu => launches.zebu.clone(),
            };
            seats.push(Seat {
                id,
                vote,
                launch,
                kind,
                ports: ports.map(|address| address.port()),
                child: None,
            });
        }
        let seats = Seats { home: home.to_owned(), seats };
        let all: Vec<String> = seats.seats.iter().map(Seat::line).collect();
        for seat in &seats.seats {
            let data = seats.data(seat.id);
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", seat.id))?;
            let role = if seat.vote == Vote::Observer { "peerType=observer\n" } else { "" };
            let text = format!(
                "tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\ndataDir={}\n\
                 maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\nskipACL=yes\n\
                 {role}{lines}{}\n",
                data.display(),
                all.join("\n")
            );
            fs::write(seats.config(seat.id), text)?;
        }
        Ok(seats)
    }

    fn data(&self, id: u8) -> PathBuf {
        self.home.join(format!("data{id}"))
    }

    pub(super) fn config(&self, id: u8) -> PathBuf {
        self.home.join(format!("zoo{id}.cfg"))
    }

    fn seat(&self, id: u8) -> Result<&Seat> {
        self.seats.iter().find(|seat| seat.id == id).with_context(|| format!("there is no server {id}"))
    }

    pub(super) fn ids(&self) -> Vec<u8> {
        self.seats.iter().map(|seat| seat.id).collect()
    }

    pub(super) fn kind(&self, id: u8) -> Result<Kind> {
        Ok(self.seat(id)?.kind)
    }

    /// Whether an Apache sits there, in its own place or for a check of this program in that of a Zebu.
    fn is_apache(&self, id: u8) -> Result<bool> {
        let program = &self.seat(id)?.launch.program;
        Ok(self.seats.iter().any(|seat| seat.kind == Kind::Apache && seat.launch.program == *program))
    }

    /// The config lines of all servers.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seats.iter().map(Seat::line).collect()
    }

    pub(super) fn address(&self, id: u8) -> Result<SocketAddr> {
        let seat = self.seat(id)?;
        Ok(format!("{}:{}", seat.host(), seat.ports[0]).parse()?)
    }

    pub(super) fn addresses(&self, ids: &[u8]) -> Result<String> {
        let all: Result<Vec<String>> = ids.iter().map(|&id| Ok(self.address(id)?.to_string())).collect();
        Ok(all?.join(","))
    }

    pub(super) fn start(&mut self, id: u8) -> Result<()> {
        let config = self.config(id);
        let log = File::options().create(true).append(true).open(self.home.join(format!("log{id}")))?;
        let seat = self.seats.iter_mut().find(|seat| seat.id == id).context("no such seat")?;
        let child = Command::new(&seat.launch.program)
            .args(&seat.launch.before)
            .args(&seat.launch.after)
            .arg(&config)
            .env("ZEBU_LOG", "debug")
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start server {id}"))?;
        seat.child = Some(child);
        Ok(())
    }

    pub(super) fn start_all(&mut self, ids: &[u8]) -> Result<()> {
        ids.iter().try_for_each(|&id| self.start(id))
    }

    pub(super) fn kill(&mut self, id: u8) -> Result<()> {
        let seat = self.seats.iter_mut().find(|seat| seat.id == id).context("no such seat")?;
        if let Some(mut child) = seat.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Whether its process listens to clients.
    pub(super) fn answers(&self, id: u8) -> bool {
        self.address(id).is_ok_and(|address| four_letter::ask(address, "srvr", WORD_PATIENCE).is_ok())
    }

    pub(super) fn mode(&self, id: u8) -> Option<String> {
        let text = four_letter::ask(self.address(id).ok()?, "srvr", WORD_PATIENCE).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// A number that `mntr` reports, without `zk_`.
    pub(super) fn monitor(&self, id: u8, key: &str) -> Option<i64> {
        let text = four_letter::ask(self.address(id).ok()?, "mntr", WORD_PATIENCE).ok()?;
        let value =
            |line: &str| line.strip_prefix("zk_")?.strip_prefix(key)?.strip_prefix('\t')?.parse().ok();
        text.lines().find_map(value)
    }

    /// Waits until these servers serve, one as the leader, and returns the leader.
    pub(super) fn await_leader(&self, ids: &[u8]) -> Result<u8> {
        self.until("a leader and those who follow", || {
            let modes: Vec<_> = ids.iter().map(|&id| (id, self.mode(id))).collect();
            let mut leaders = modes.iter().filter(|(_, mode)| mode.as_deref() == Some("leader"));
            let leader = leaders.next().map(|(id, _)| *id)?;
            (leaders.next().is_none() && modes.iter().all(|(_, mode)| mode.is_some())).then_some(leader)
        })
    }

    /// Whom an observer learns from, once it is one of these.
    pub(super) fn await_master(&self, observer: u8, among: &[u8]) -> Result<u8> {
        self.until(&format!("server {observer} learns from one of {among:?}"), || {
            let master = self.monitor(observer, "observer_master_id")?;
            let master = u8::try_from(master).ok()?;
            (self.mode(observer)? == "observer" && among.contains(&master)).then_some(master)
        })
    }

    pub(super) fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let modes: Vec<_> = self.ids().iter().map(|&id| (id, self.mode(id))).collect();
                bail!("not seen: {what}; the servers are {modes:?}; {}", self.last_words());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether these bytes are in a server's transaction log.
    pub(super) fn is_in_log(&self, id: u8, bytes: &[u8]) -> Result<bool> {
        for entry in fs::read_dir(self.data(id).join("version-2"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("log.")
                && fs::read(entry.path())?.windows(bytes.len()).any(|window| window == bytes)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that these servers have the same tree and no digest mismatch. No client may write meanwhile.
    pub(super) fn compare(&self, ids: &[u8], digests: Digests) -> Result<()> {
        let zxid = |id| four_letter::last_zxid(self.address(id).ok()?, WORD_PATIENCE).ok();
        let mut readers = Vec::new();
        for &id in ids {
            readers.push((
                id,
                Client::open(self.address(id)?, SESSION_MS).with_context(|| format!("server {id}"))?,
            ));
        }
        self.until("the same last transaction everywhere", || {
            let all: Vec<_> = ids.iter().map(|&id| zxid(id)).collect();
            (all[0].is_some() && all.iter().all(|zxid| *zxid == all[0])).then_some(())
        })?;
        let mut reference: Option<(u8, Dump)> = None;
        for (id, client) in &mut readers {
            let dump = Dump::read(client)?;
            if let Some((first, reference)) = &reference {
                let differences = reference.differences(&dump, &|_| false);
                ensure!(differences.is_empty(), "servers {first} and {id} differ: {differences:?}");
            } else {
                reference = Some((*id, dump));
            }
            let wrong = self.monitor(*id, "digest_mismatches_count").unwrap_or(0);
            let counts = digests == Digests::OfAll || !self.is_apache(*id)?;
            ensure!(!counts || wrong == 0, "server {id} counts {wrong} wrong digests");
        }
        Ok(())
    }

    /// The end of each log, for a report of something that went wrong.
    fn last_words(&self) -> String {
        let mut text = String::new();
        for seat in &self.seats {
            let log = fs::read_to_string(self.home.join(format!("log{}", seat.id))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n    ");
            text.push_str(&format!("\n  server {} ({:?}):\n    {last}", seat.id, seat.kind));
        }
        text
    }
}

impl Seat {
    fn host(&self) -> String {
        format!("127.0.0.{}", self.id)
    }

    fn line(&self) -> String {
        let ([client, quorum, election], host) = (self.ports, self.host());
        let role = if self.vote == Vote::Observer { "observer" } else { "participant" };
        format!("server.{}={host}:{quorum}:{election}:{role};{host}:{client}", self.id)
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        for child in self.seats.iter_mut().filter_map(|seat| seat.child.as_mut()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
