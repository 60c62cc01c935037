//! The backup process under test: started, killed, ended, and asked for what it has.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use zebu_proto::Zxid;

/// How long the backup may take to have a transaction.
const PATIENCE: Duration = Duration::from_secs(90);

/// A backup and its process.
pub(super) struct BackupProcess {
    binary: PathBuf,
    servers: String,
    place: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl BackupProcess {
    pub(super) fn start(binary: &Path, servers: &[SocketAddr], home: &Path) -> Result<BackupProcess> {
        let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut backup = BackupProcess {
            binary: binary.to_owned(),
            servers,
            place: home.join("backup"),
            log: home.join("backup.log"),
            child: None,
        };
        backup.spawn()?;
        Ok(backup)
    }

    fn spawn(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.binary)
            .args([
                "backup",
                "run",
                "--servers",
                &self.servers,
                "--every",
                "200ms",
                "--base-log",
                "64K",
                "--to",
            ])
            .arg(&self.place)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the backup")?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills the process and starts another one.
    pub(super) fn kill_and_restart(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the backup does not run")?;
        child.kill()?;
        child.wait()?;
        self.spawn()
    }

    /// Ends the process as systemd does. It must have stored everything.
    pub(super) fn end(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the backup does not run")?;
        let id = child.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &id]).status()?.success(), "kill -TERM {id} failed");
        let status = child.wait()?;
        ensure!(status.success(), "the backup ended with {status}: {}", self.last_lines());
        Ok(())
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Runs a tool of the backup.
    pub(super) fn tool(&self, words: &[&str]) -> Result<Output> {
        let (tool, rest) = words.split_first().context("no tool")?;
        let output =
            Command::new(&self.binary).args(["backup", tool]).arg(&self.place).args(rest).output()?;
        Ok(output)
    }

    pub(super) fn succeed(&self, words: &[&str]) -> Result<String> {
        let output = self.tool(words)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "zebu backup {words:?}: {text}{error}; {}", self.last_lines());
        Ok(text)
    }

    pub(super) fn list(&self) -> Option<Value> {
        serde_json::from_slice(&self.tool(&["list", "--json"]).ok()?.stdout).ok()
    }

    /// Waits until it has a transaction.
    pub(super) fn await_stored(&mut self, zxid: Zxid) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = self.list();
            let end = list.as_ref().and_then(|list| list["chains"].as_array()?.last()?["end_zxid"].as_str());
            let end = end.and_then(|text| i64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
            if end.is_some_and(|end| end >= zxid.0) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the backup does not get to {zxid}, it has {end:?}: {}", self.last_lines());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(6).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for BackupProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
