//! Three servers of one kind with the default limits, as processes with a directory each: what is measured
//! about ensembles is measured on them. It starts, signals and asks; it judges nothing.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testing::{Launch, four_letter, port};

/// How many servers.
pub(crate) const SERVERS: usize = 3;

/// How long an ensemble may take to be complete. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(120);

const WORD_PATIENCE: Duration = Duration::from_secs(5);

struct Member {
    launch: Launch,
    address: SocketAddr,
    config: PathBuf,
    data: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// The ensemble.
pub(crate) struct Trio {
    members: Vec<Member>,
    _home: tempfile::TempDir,
}

impl Trio {
    /// Writes configurations; nothing runs yet. `lines` are added to every zoo.cfg.
    pub(crate) fn new(launches: [Launch; SERVERS], lines: &str) -> Result<Trio> {
        let home = tempfile::Builder::new().prefix("zebu-trio").tempdir()?;
        let mut ports: Vec<SocketAddr> = Vec::new();
        while ports.len() < 3 * SERVERS {
            let address = port::free_address()?;
            if !ports.contains(&address) {
                ports.push(address);
            }
        }
        let server = |index: usize| {
            let (quorum, election) = (ports[3 * index + 1].port(), ports[3 * index + 2].port());
            format!("server.{}=127.0.0.1:{quorum}:{election}\n", index + 1)
        };
        let servers: String = (0..SERVERS).map(server).collect();
        let mut members = Vec::new();
        for (index, launch) in launches.into_iter().enumerate() {
            let name = |what: &str| home.path().join(format!("{what}{}", index + 1));
            let (data, config, log) = (name("data"), name("zoo.cfg."), name("log"));
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            let address = ports[3 * index];
            let text = format!(
                "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\n{lines}{servers}",
                data.display(),
                address.port()
            );
            fs::write(&config, text)?;
            members.push(Member { launch, address, config, data, log, child: None });
        }
        Ok(Trio { members, _home: home })
    }

    /// Starts all of them and waits until they serve.
    pub(crate) fn start_all(&mut self) -> Result<()> {
        (0..SERVERS).try_for_each(|index| self.start(index))?;
        self.await_service().map(|_| ())
    }

    pub(crate) fn start(&mut self, index: usize) -> Result<()> {
        let member = &mut self.members[index];
        let log = File::options().create(true).append(true).open(&member.log)?;
        let child = Command::new(&member.launch.program)
            .args(&member.launch.before)
            .args(&member.launch.after)
            .arg(&member.config)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start server {}", index + 1))?;
        member.child = Some(child);
        Ok(())
    }

    pub(crate) fn address(&self, index: usize) -> SocketAddr {
        self.members[index].address
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    pub(crate) fn data_dir(&self, index: usize) -> &Path {
        &self.members[index].data
    }

    pub(crate) fn log(&self, index: usize) -> &Path {
        &self.members[index].log
    }

    /// Sends SIGKILL and does not wait; returns the moment before.
    pub(crate) fn kill(&mut self, index: usize) -> Result<Instant> {
        let child = self.members[index].child.as_mut().context("the server does not run")?;
        let at = Instant::now();
        child.kill()?;
        Ok(at)
    }

    /// Sends SIGTERM and does not wait; returns the moment before.
    pub(crate) fn terminate(&mut self, index: usize) -> Result<Instant> {
        let id = self.id(index)?.to_string();
        let at = Instant::now();
        ensure!(Command::new("kill").args(["-TERM", &id]).status()?.success(), "kill -TERM {id} failed");
        Ok(at)
    }

    /// Waits until a server that was told to end has ended.
    pub(crate) fn reap(&mut self, index: usize) -> Result<()> {
        if let Some(mut child) = self.members[index].child.take() {
            child.wait()?;
        }
        Ok(())
    }

    pub(crate) fn id(&self, index: usize) -> Result<u32> {
        self.members[index].child.as_ref().map(Child::id).context("the server does not run")
    }

    /// Resident memory of a server in bytes.
    pub(crate) fn resident(&self, index: usize) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id(index)?))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib << 10)
    }

    /// What `srvr` says.
    pub(crate) fn srvr(&self, index: usize) -> Option<String> {
        four_letter::ask(self.address(index), "srvr", WORD_PATIENCE).ok()
    }

    /// A value that `mntr` reports.
    pub(crate) fn mntr(&self, index: usize, key: &str) -> Option<String> {
        let text = four_letter::ask(self.address(index), "mntr", WORD_PATIENCE).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('\t').map(|value| value.trim().to_owned()))
    }

    pub(crate) fn mode(&self, index: usize) -> Option<String> {
        mode_in(&self.srvr(index)?)
    }

    /// The server that leads.
    pub(crate) fn leader(&self) -> Result<usize> {
        let leads = |index: &usize| self.mode(*index).as_deref() == Some("leader");
        (0..SERVERS).find(leads).context("nobody leads")
    }

    /// Waits until every server that was started serves, one of them as the leader.
    pub(crate) fn await_service(&self) -> Result<Duration> {
        let started = Instant::now();
        loop {
            let up = (0..SERVERS).filter(|&index| self.members[index].child.is_some());
            let modes: Vec<Option<String>> = up.map(|index| self.mode(index)).collect();
            let leaders = modes.iter().flatten().filter(|mode| *mode == "leader").count();
            if leaders == 1 && modes.iter().all(Option::is_some) {
                return Ok(started.elapsed());
            }
            if started.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} the servers are {modes:?}; the last lines: {}", self.last_lines());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn last_lines(&self) -> String {
        let tail = |member: &Member| {
            let text = fs::read_to_string(&member.log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(5).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        self.members.iter().map(tail).collect::<Vec<_>>().join("\n--\n")
    }
}

/// The mode that an answer to `srvr` names.
pub(crate) fn mode_in(srvr: &str) -> Option<String> {
    srvr.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
}

impl Drop for Trio {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
