//! docs/getting-started.md and docs/concepts.md, command by command, with the real program. Blocks of the
//! kind `sh terminal` are programs that run in the foreground until the end of the page.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/dev_ports.rs"]
mod dev_ports;
#[path = "common/manual.rs"]
mod manual;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_testing::port;

/// The port of a page's standalone server.
const PAGE_PORT: u16 = 2181;

/// The first port of the page's `zebu dev`, and the number that stands before it.
const PAGE_DEV_PORT: u16 = 12181;

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A program of the page. It ends with the test, and `zebu dev` ends its servers with it.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// A page with free ports in it.
struct Page {
    text: String,
    /// The port of its standalone server.
    single: u16,
}

/// The page with free ports. The ports of `zebu dev` follow each other.
fn with_ports(page: &str) -> Page {
    let first = dev_ports::first_free();
    let mut text = page.to_owned();
    for offset in 0..3 {
        text = text.replace(&(PAGE_DEV_PORT + offset).to_string(), &format!("@{offset}@"));
    }
    let single = port::free_address().unwrap().port();
    text = text.replace(&PAGE_PORT.to_string(), &single.to_string());
    text = text.replace(&(PAGE_DEV_PORT - 1).to_string(), &(first - 1).to_string());
    for offset in 0..3 {
        text = text.replace(&format!("@{offset}@"), &(first + offset).to_string());
    }
    Page { text, single }
}

/// Starts a block's line in the background. `zebu serve` without a file gets one with the page's port.
fn open_terminal(home: &Path, line: &str, port: u16) -> Terminal {
    let mut command = manual::command(home, line);
    if line == "zebu serve" {
        // The line itself always listens on 2181, which another program of this machine may have.
        let config = format!("dataDir=zebu-data\nclientPort={port}\nadmin.enableServer=false\n");
        fs::write(home.join("serve.cfg"), config).unwrap();
        command.arg("serve.cfg");
    }
    let log = fs::File::create(home.join("terminal.log")).unwrap();
    let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    Terminal(child)
}

/// Waits until a server answers, as a reader does before the next command.
fn await_server(home: &Path, port: u16) {
    let deadline = Instant::now() + TIME_LIMIT;
    let line = format!("zebu status 127.0.0.1:{port}");
    while !manual::command(home, &line).output().unwrap().status.success() {
        let log = || fs::read_to_string(home.join("terminal.log")).unwrap_or_default();
        assert!(Instant::now() < deadline, "no server on port {port}: {}", log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs a page; gives the number of blocks with commands.
fn run_page(page: &str) -> usize {
    let home = TempDir::new().unwrap();
    let home = home.path().canonicalize().unwrap();
    fs::create_dir(home.join("bin")).unwrap();
    symlink(manual::ZEBU, home.join("bin/zebu")).unwrap();
    let page = with_ports(page);
    let port = page.single;
    let mut terminals = Vec::new();
    let mut said = String::new();
    let mut scripts = 0;
    for block in manual::blocks(&page.text) {
        match block.kind.as_str() {
            "sh terminal" => {
                let [line] = block.lines.as_slice() else { panic!("one program per terminal: {block:?}") };
                terminals.push(open_terminal(&home, line, port));
                if line == "zebu serve" {
                    await_server(&home, port);
                }
            }
            "sh" => {
                said = manual::run_script(&home, &block);
                scripts += 1;
            }
            "text printed" => {
                for line in &block.lines {
                    assert!(said.contains(line.trim()), "{line:?} was not printed: {said}");
                }
            }
            // `cargo xtask interop book` runs these; the Rust program is a test of the examples.
            "rust,ignore" | "python" | "java" | "go" | "c" => {}
            other => panic!("a block of another kind, {other:?}: {}", block.text()),
        }
    }
    scripts
}

#[test]
fn every_command_of_getting_started_works() {
    assert!(run_page(include_str!("../../../docs/getting-started.md")) >= 6);
}

#[test]
fn every_command_of_the_concepts_works() {
    assert!(run_page(include_str!("../../../docs/concepts.md")) >= 5);
}
