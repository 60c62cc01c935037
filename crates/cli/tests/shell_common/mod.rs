//! A server process and the shell beside it.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use zebu_testing::ServerProcess;

use super::common;

/// A server, and a directory for files.
pub(crate) struct Shell {
    server: ServerProcess,
    home: TempDir,
}

/// The output of a shell.
#[derive(Debug)]
pub(crate) struct ShellOutput {
    pub(crate) status: i32,
    pub(crate) raw_out: Vec<u8>,
    /// Standard output without greeting and events.
    pub(crate) out: String,
    pub(crate) out_with_events: String,
    pub(crate) error: String,
    pub(crate) events: Vec<String>,
}

impl ShellOutput {
    pub(crate) fn expect_done(&self) {
        assert_eq!(self.status, 0, "{self:?}");
    }
}

pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

impl Shell {
    pub(crate) fn start() -> Shell {
        let server = common::server().property("zookeeper.extendedTypesEnabled", "true").start();
        Shell { server: server.expect("a server"), home: tempfile::tempdir().expect("a directory") }
    }

    /// Starts a server with a further line of zoo.cfg.
    pub(crate) fn start_with(line: &str) -> Shell {
        let server = common::server().line(line).start();
        Shell { server: server.expect("a server"), home: tempfile::tempdir().expect("a directory") }
    }

    pub(crate) fn address(&self) -> String {
        self.server.address().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name).display().to_string()
    }

    /// The program in its directory, without the environment variables of the caller.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(words).current_dir(self.home.path()).env_clear().env("TZ", "UTC");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null());
        command
    }

    /// `zebu shell` with these words.
    pub(crate) fn raw(&self, words: &[&str]) -> ShellOutput {
        let mut command = self.command(&["shell"]);
        shell_output(&command.args(words).output().expect("the shell runs"))
    }

    /// One command.
    pub(crate) fn run(&self, words: &[&str]) -> ShellOutput {
        let address = self.address();
        self.raw(&[&["-server", &address][..], words].concat())
    }

    /// Commands from standard input.
    pub(crate) fn session(&self, commands: &str) -> ShellOutput {
        let address = self.address();
        let mut command = self.command(&["shell", "-server", &address]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the shell starts");
        let mut input = child.stdin.take().expect("a pipe");
        let commands = commands.to_owned();
        // It may end before it has read everything.
        let writer = std::thread::spawn(move || drop(input.write_all(commands.as_bytes())));
        let output = child.wait_with_output().expect("the shell ends");
        writer.join().expect("the writer ends");
        shell_output(&output)
    }
}

fn shell_output(output: &Output) -> ShellOutput {
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut out = String::new();
    let mut events = Vec::new();
    let mut rest = all.as_str();
    for greeting in ["Connecting to ", "Welcome to ZooKeeper!", "JLine support is disabled"] {
        if rest.starts_with(greeting) {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        }
    }
    while let Some((before, after)) = rest.split_once("\nWATCHER::\n\n") {
        out.push_str(before);
        let (event, after) = after.split_once('\n').expect("an event has a line");
        events.push(event.to_owned());
        rest = after;
    }
    out.push_str(rest);
    ShellOutput {
        status: output.status.code().expect("it was not killed"),
        raw_out: output.stdout.clone(),
        out,
        out_with_events: all,
        error: String::from_utf8_lossy(&output.stderr).into_owned(),
        events,
    }
}
