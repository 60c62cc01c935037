//! The server under test: started on a free port with a directory of its own, restarted on request, stopped
//! at the end in every case. A server that was started outside of the suite is used and not stopped.

use std::fmt;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::report::Report;
use super::{apache, port};
use crate::step::target_directory;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
const LOG_LINES_SHOWN: usize = 15;

/// Which server program.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    Zebu,
    Apache,
}

impl Peer {
    /// Its name for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Peer::Zebu => "zebu",
            Peer::Apache => "apache",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Peer::Zebu => "Zebu",
            Peer::Apache => "Apache ZooKeeper",
        })
    }
}

/// Where a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Started here.
    Started(Peer),
    /// Somebody's, at this address.
    Given(String),
}

/// The binary under test.
pub(crate) fn zebu_binary() -> PathBuf {
    target_directory().join("release/zebu")
}

/// A server that answers.
pub(crate) struct RunningServer {
    address: String,
    own: Option<OwnServer>,
}

struct OwnServer {
    peer: Peer,
    directory: TempDir,
    child: Child,
}

impl RunningServer {
    /// Starts the target, or takes the given one, and waits until it accepts connections.
    pub(crate) fn start(target: &Target) -> anyhow::Result<RunningServer> {
        let peer = match target {
            Target::Started(peer) => *peer,
            Target::Given(address) => {
                TcpStream::connect(address).with_context(|| format!("no server answers at {address}"))?;
                return Ok(RunningServer { address: address.clone(), own: None });
            }
        };
        let directory = tempfile::Builder::new().prefix("zebu-interop-").tempdir()?;
        let port = port::free_address()?.port();
        fs::create_dir(directory.path().join("data"))?;
        fs::write(directory.path().join("zoo.cfg"), configuration(&directory, port))?;
        let child = spawn(peer, &directory)?;
        let own = OwnServer { peer, directory, child };
        let mut server = RunningServer { address: format!("127.0.0.1:{port}"), own: Some(own) };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// `host:port` for clients.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether `restart` will work.
    pub(crate) fn can_restart(&self) -> bool {
        self.own.is_some()
    }

    /// Kills the server as a power failure would and starts it again on the same files and port.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("this server is not ours to restart")?;
        own.child.kill().context("cannot kill the server")?;
        own.child.wait()?;
        own.child = spawn(own.peer, &own.directory)?;
        self.wait_until_ready()
    }

    /// Stops the server and adds to the report what only its end can tell: that it died on its own.
    pub(crate) fn finish(mut self, report: anyhow::Result<Report>) -> anyhow::Result<Report> {
        let Some(mut own) = self.own.take() else { return report };
        let died = own.child.try_wait()?;
        let log = own.log_tail();
        own.stop();
        let mut report = match report {
            Ok(report) => report,
            Err(error) => bail!("{error:#}{log}"),
        };
        if let Some(status) = died {
            report.broken.push(format!("the server ended during the suite: {status}"));
        }
        if report.has_trouble() && !log.is_empty() {
            println!("  the server's last words:{log}");
        }
        Ok(report)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("only a server of ours is waited for")?;
        let end = Instant::now() + START_LIMIT;
        while Instant::now() < end {
            if let Some(status) = own.child.try_wait()? {
                bail!("{} ended at its start: {status}{}", own.peer, own.log_tail());
            }
            if TcpStream::connect(&self.address).is_ok() {
                return Ok(());
            }
            sleep(POLL);
        }
        bail!("{} does not listen at {} after {START_LIMIT:?}{}", own.peer, self.address, own.log_tail())
    }
}

impl OwnServer {
    fn stop(&mut self) {
        // SIGTERM by the system's kill: the standard library only knows SIGKILL.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL);
        }
        println!("{} did not end {STOP_LIMIT:?} after SIGTERM: killed", self.peer);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn log_tail(&self) -> String {
        let text = fs::read(self.directory.path().join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        shown.iter().map(|line| format!("\n    server log: {line}")).collect()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            own.stop();
        }
    }
}

fn configuration(directory: &TempDir, port: u16) -> String {
    format!(
        "tickTime=1000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
         extendedTypesEnabled=true\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
        directory.path().join("data").display()
    )
}

fn spawn(peer: Peer, directory: &TempDir) -> anyhow::Result<Child> {
    let file = directory.path().join("zoo.cfg");
    let mut command = match peer {
        Peer::Zebu => {
            let mut command = Command::new(zebu_binary());
            command.arg("serve").arg(file);
            command
        }
        Peer::Apache => {
            let mut command = Command::new("java");
            command.args(["-Xmx256m", "-cp"]).arg(apache::class_path()?);
            command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(file);
            command
        }
    };
    let log = File::options().create(true).append(true).open(directory.path().join("server.log"))?;
    command.current_dir(directory.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {command:?}"))
}
