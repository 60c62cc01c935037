//! Servers of the lab, one on each host, as processes. It starts, signals and asks them; it judges nothing.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::{CreateMode, CreateOp, CreateRequest};
use zebu_proto::{Acl, OpCode};
use zebu_testing::{Launch, RawClient, four_letter};

use super::lab::{Family, address, on, run};

/// How long anything may take that has to happen. Far more than it needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);
const WORD_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) const CLIENT_PORT: u16 = 2181;
pub(crate) const QUORUM_PORT: u16 = 2888;
pub(crate) const ELECTION_PORT: u16 = 3888;

/// The tick of all servers, if the shape does not say another one.
const TICK_MS: u64 = 500;

/// One server.
struct Server {
    launch: Launch,
    /// Words before the program: `prlimit`, `env` and the like.
    before: Vec<OsString>,
    directory: PathBuf,
    child: Option<Child>,
    /// Whether its data is on a file system of its own.
    has_disk: bool,
}

/// How the servers are configured.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// `server.N=` lines, or what stands in their place.
    pub(crate) servers: String,
    /// Further lines of every zoo.cfg.
    pub(crate) lines: String,
    /// The tick in milliseconds. A learner or leader that hears nothing gives up after four of them.
    pub(crate) tick_ms: u64,
}

impl Shape {
    /// Servers under names such as `zk1`; `suffix` chooses the kind of name.
    pub(crate) fn named(count: u8, suffix: &str) -> Shape {
        Shape::of(count, |host| format!("zk{host}{suffix}:{QUORUM_PORT}:{ELECTION_PORT}"))
    }

    /// Servers with these addresses.
    pub(crate) fn of(count: u8, place: impl Fn(u8) -> String) -> Shape {
        let servers = (1..=count).map(|host| format!("server.{host}={}\n", place(host))).collect();
        Shape { servers, lines: String::new(), tick_ms: TICK_MS }
    }

    /// With one more line.
    pub(crate) fn with(mut self, line: &str) -> Shape {
        self.lines += line;
        self.lines += "\n";
        self
    }
}

/// All servers. Number 1 is on host 1.
pub(crate) struct Fleet {
    servers: Vec<Server>,
}

impl Fleet {
    /// Writes directories and configurations; nothing runs yet.
    pub(crate) fn new(home: &Path, launches: Vec<Launch>, shape: &Shape) -> Result<Fleet> {
        let mut servers = Vec::new();
        for (number, launch) in (1u8..).zip(launches) {
            let directory = home.join(format!("server{number}"));
            let data = directory.join("data");
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{number}\n"))?;
            let text = format!(
                "tickTime={}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={CLIENT_PORT}\n\
                 maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{}{}",
                shape.tick_ms,
                data.display(),
                shape.lines,
                shape.servers
            );
            fs::write(directory.join("zoo.cfg"), text)?;
            servers.push(Server { launch, before: Vec::new(), directory, child: None, has_disk: false });
        }
        Ok(Fleet { servers })
    }

    fn server(&mut self, number: u8) -> &mut Server {
        &mut self.servers[usize::from(number) - 1]
    }

    /// The numbers of all servers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        (1u8..).take(self.servers.len())
    }

    /// Puts a server's data on a file system of its own.
    pub(crate) fn small_disk(&mut self, number: u8, megabytes: u32) -> Result<PathBuf> {
        let data = self.data(number);
        let id = fs::read(data.join("myid"))?;
        let (size, place) = (format!("size={megabytes}m"), data.to_str().context("no text")?.to_owned());
        run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs", &place])?;
        fs::write(data.join("myid"), id)?;
        self.server(number).has_disk = true;
        Ok(data)
    }

    /// Words before the program of one server, from its next start on.
    pub(crate) fn start_with(&mut self, number: u8, words: &[&str]) {
        self.server(number).before = words.iter().map(OsString::from).collect();
    }

    pub(crate) fn data(&self, number: u8) -> PathBuf {
        self.servers[usize::from(number) - 1].directory.join("data")
    }

    /// What a server has logged.
    pub(crate) fn log(&self, number: u8) -> String {
        fs::read_to_string(self.log_file(number)).unwrap_or_default()
    }

    fn log_file(&self, number: u8) -> PathBuf {
        self.servers[usize::from(number) - 1].directory.join("log")
    }

    pub(crate) fn start(&mut self, number: u8) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_file(number))?;
        let server = self.server(number);
        let child = on(number)
            .args(&server.before)
            .arg(&server.launch.program)
            .args(&server.launch.before)
            .args(&server.launch.after)
            .arg(server.directory.join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start server {number}"))?;
        server.child = Some(child);
        Ok(())
    }

    /// Starts all and waits until all serve.
    pub(crate) fn start_all(&mut self) -> Result<()> {
        self.numbers().try_for_each(|number| self.start(number))?;
        self.await_all().map(drop)
    }

    /// Starts these, waits until they serve, and starts the others. Of the first ones that with the largest
    /// id leads.
    pub(crate) fn start_first(&mut self, first: &[u8]) -> Result<()> {
        first.iter().try_for_each(|number| self.start(*number))?;
        self.await_some(first)?;
        self.numbers().filter(|number| !first.contains(number)).try_for_each(|number| self.start(number))?;
        self.await_all().map(drop)
    }

    /// The process of a server.
    pub(crate) fn process(&self, number: u8) -> Result<u32> {
        let server = &self.servers[usize::from(number) - 1];
        Ok(server.child.as_ref().context("the server does not run")?.id())
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, number: u8, signal: &str) -> Result<()> {
        run(&["kill", &format!("-{signal}"), &self.process(number)?.to_string()])
    }

    /// Ends a server at once.
    pub(crate) fn kill(&mut self, number: u8) -> Result<()> {
        let mut child = self.server(number).child.take().context("the server does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Waits until a server ends by itself.
    pub(crate) fn await_end(&mut self, number: u8) -> Result<ExitStatus> {
        let started = Instant::now();
        let server = self.server(number);
        let child = server.child.as_mut().context("the server does not run")?;
        while started.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                server.child = None;
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("server {number} still runs after {PATIENCE:?}")
    }

    /// Where clients find a server.
    pub(crate) fn address(&self, number: u8, family: Family) -> SocketAddr {
        SocketAddr::new(address(number, family), CLIENT_PORT)
    }

    /// All of them, with IPv4.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.numbers().map(|number| self.address(number, Family::V4)).collect()
    }

    /// The answer to a four-letter word.
    pub(crate) fn ask(&self, number: u8, word: &str) -> Option<String> {
        four_letter::ask(self.address(number, Family::V4), word, WORD_PATIENCE).ok()
    }

    /// Its role, if it serves.
    pub(crate) fn mode(&self, number: u8) -> Option<String> {
        let text = self.ask(number, "srvr")?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// A value of `mntr`.
    pub(crate) fn mntr(&self, number: u8, key: &str) -> Option<String> {
        let text = self.ask(number, "mntr")?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t').map(str::to_owned))
    }

    /// The most memory that a server has used, in bytes.
    pub(crate) fn peak_memory(&self, number: u8) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process(number)?))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }

    /// The server that leads.
    pub(crate) fn leader(&self) -> Result<u8> {
        let leads = |number: &u8| self.mode(*number).as_deref() == Some("leader");
        self.numbers().find(leads).context("no server says that it leads")
    }

    /// Waits until all that run serve, one of them as the leader.
    pub(crate) fn await_all(&self) -> Result<Duration> {
        let running: Vec<u8> =
            self.numbers().filter(|number| self.servers[usize::from(*number) - 1].child.is_some()).collect();
        self.await_some(&running)
    }

    /// Waits until these serve, one of them as the leader.
    pub(crate) fn await_some(&self, numbers: &[u8]) -> Result<Duration> {
        let mut modes = Vec::new();
        await_that(PATIENCE, || {
            modes = numbers.iter().map(|number| self.mode(*number)).collect();
            let leaders = modes.iter().flatten().filter(|mode| *mode == "leader").count();
            Ok(leaders == 1 && modes.iter().all(Option::is_some))
        })
        .with_context(|| format!("servers {numbers:?} do not serve: {:?}", self.ends_of_logs(numbers)))
    }

    /// Waits until a server does not serve.
    pub(crate) fn await_out(&self, number: u8) -> Result<Duration> {
        await_that(PATIENCE, || Ok(self.mode(number).is_none()))
            .with_context(|| format!("server {number} still serves"))
    }

    /// Creates a node by a client of this server.
    pub(crate) fn create(&self, number: u8, path: &str, data: &[u8]) -> Result<()> {
        self.create_as(CreateMode::Persistent, number, path, data)
    }

    fn create_as(&self, mode: CreateMode, number: u8, path: &str, data: &[u8]) -> Result<()> {
        let (mut client, _) = RawClient::open(self.address(number, Family::V4))?;
        client.set_patience(PATIENCE);
        let request = CreateRequest {
            op: CreateOp::Create,
            path: Some(path.into()),
            data: Some(data.into()),
            acl: Some(Acl::open().into()),
            flags: mode.flags(),
            ttl_ms: -1,
        };
        let (_, header, _) = client.call(OpCode::Create, |out| request.encode(out))?;
        ensure!(header.err == 0, "create of {path} was answered {}", header.err);
        Ok(())
    }

    /// All have the same last transaction and the same number of nodes, and none counts a wrong digest.
    pub(crate) fn ensure_equal(&self) -> Result<()> {
        // A follower of Apache shows the zxid of the last epoch until it has applied one of the new epoch.
        self.create_as(CreateMode::PersistentSequential, 1, "/equal-", b"")?;
        let zxid = |number| four_letter::last_zxid(self.address(number, Family::V4), WORD_PATIENCE).ok();
        await_that(PATIENCE, || {
            let ends: Vec<_> = self.numbers().map(zxid).collect();
            Ok(ends.iter().all(|end| end.is_some() && *end == ends[0]))
        })
        .context("the servers do not come to the same zxid")?;
        for key in ["zk_znode_count", "zk_digest_mismatches_count"] {
            let values: Vec<_> = self.numbers().map(|number| self.mntr(number, key)).collect();
            ensure!(values.iter().all(|value| *value == values[0]), "{key} differs: {values:?}");
        }
        Ok(())
    }

    fn ends_of_logs(&self, numbers: &[u8]) -> Vec<String> {
        numbers
            .iter()
            .map(|number| {
                let log = self.log(*number);
                let said = |line: &&str| !line.contains("four-letter word");
                let lines: Vec<&str> = log.lines().filter(said).rev().take(3).collect();
                format!("server {number}: {}", lines.into_iter().rev().collect::<Vec<_>>().join(" | "))
            })
            .collect()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for mut child in self.servers.iter_mut().filter_map(|server| server.child.take()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
        for server in self.servers.iter().filter(|server| server.has_disk) {
            let data = server.directory.join("data");
            let _ = run(&["umount", "-l", &data.to_string_lossy()]);
        }
    }
}

/// Asks again and again; how long it took.
pub(crate) fn await_that(limit: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < limit, "not within {limit:?}");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(started.elapsed())
}
