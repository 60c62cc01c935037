//! The members: processes with a configuration and a directory each.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testing::{Launch, four_letter, port};

/// How long an ensemble may take to get a leader back. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

const WORD_PATIENCE: Duration = Duration::from_secs(3);

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
    address: SocketAddr,
    config: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// All members.
pub(super) struct Members {
    members: Vec<Member>,
    /// How often each was seen to lead.
    pub(super) led: Vec<usize>,
}

impl Members {
    /// Writes configurations and directories; nothing runs yet.
    pub(super) fn new(home: PathBuf, launches: Vec<(String, Launch)>) -> Result<Members> {
        let mut ports: Vec<SocketAddr> = Vec::new();
        while ports.len() < 3 * launches.len() {
            let address = port::free_address()?;
            if !ports.contains(&address) {
                ports.push(address);
            }
        }
        let line = |index: usize| {
            let (quorum, election) = (ports[3 * index + 1].port(), ports[3 * index + 2].port());
            format!("server.{}=127.0.0.1:{quorum}:{election}\n", index + 1)
        };
        let lines: String = (0..launches.len()).map(line).collect();
        let mut members = Vec::new();
        for (index, (name, launch)) in launches.into_iter().enumerate() {
            let data = home.join(format!("data{}", index + 1));
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            let address = ports[3 * index];
            let config = home.join(format!("zoo{}.cfg", index + 1));
            let text = format!(
                "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
                 maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\nsnapCount=2000\n{lines}",
                data.display(),
                address.port()
            );
            fs::write(&config, text)?;
            let log = home.join(format!("log{}", index + 1));
            members.push(Member { name, launch, address, config, log, child: None });
        }
        let led = vec![0; members.len()];
        Ok(Members { members, led })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn name(&self, index: usize) -> &str {
        &self.members[index].name
    }

    pub(super) fn address(&self, index: usize) -> SocketAddr {
        self.members[index].address
    }

    pub(super) fn connect_string(&self) -> String {
        self.members.iter().map(|member| member.address.to_string()).collect::<Vec<_>>().join(",")
    }

    pub(super) fn start(&mut self, index: usize) -> Result<()> {
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

    pub(super) fn is_up(&self, index: usize) -> bool {
        self.members[index].child.is_some()
    }

    fn mode(&self, index: usize) -> Option<String> {
        let text = four_letter::ask(self.address(index), "srvr", WORD_PATIENCE).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// The member that leads, if one says so.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.len())
            .filter(|&index| self.is_up(index))
            .find(|&index| self.mode(index).as_deref() == Some("leader"))
    }

    /// Waits until every member that is up serves, one of them as the leader.
    pub(super) fn await_service(&mut self) -> Result<Duration> {
        let started = Instant::now();
        loop {
            let up: Vec<usize> = (0..self.len()).filter(|&index| self.is_up(index)).collect();
            let modes: Vec<_> = up.iter().map(|&index| self.mode(index)).collect();
            let leaders = modes.iter().flatten().filter(|mode| *mode == "leader").count();
            if leaders == 1 && modes.iter().all(Option::is_some) {
                if let Some(leader) = self.leader() {
                    self.led[leader] += 1;
                }
                return Ok(started.elapsed());
            }
            if started.elapsed() > PATIENCE {
                let names: Vec<_> = up.iter().map(|&index| self.name(index)).collect();
                bail!("after {PATIENCE:?} {names:?} are {modes:?}; logs: {}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        self.members.iter().map(|member| member.log.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
