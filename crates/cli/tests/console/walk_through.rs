//! The walk-through of docs/console.md: its lines are executed, and the browser finds the holder of the lock.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::browser::Browser;
use crate::dev_ports;
use crate::manual;

const PAGE: &str = include_str!("../../../../docs/console.md");
/// Ports of the page: of the first client port, and of the first server's console.
const PAGE_PORTS: [u16; 2] = [12181, 14882];
/// From a client port of `zebu dev` to the port of the console.
const CONSOLE_OFFSET: u16 = PAGE_PORTS[1] - PAGE_PORTS[0];

/// A line in a shell of its own. The shell and its programs end with the value.
struct Terminal(Child);

impl Terminal {
    fn open(home: &Path, line: &str) -> Terminal {
        let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
        let child = Command::new("bash")
            .args(["-c", line])
            .current_dir(home)
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Terminal(child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn the_walk_through_finds_the_holder_of_a_lock() {
    let home = TempDir::new().unwrap();
    let home = home.path().canonicalize().unwrap();
    std::fs::create_dir(home.join("bin")).unwrap();
    symlink(manual::ZEBU, home.join("bin/zebu")).unwrap();
    let first = dev_ports::first_free();
    let page = manual::section(PAGE, "Who holds the lock?")
        .replace(&PAGE_PORTS[0].to_string(), &first.to_string())
        .replace(&PAGE_PORTS[1].to_string(), &(first + CONSOLE_OFFSET).to_string());
    let began = Instant::now();
    // Later programs end first: the servers wait for their sessions.
    let mut terminals = Vec::new();
    let mut console = None;
    for block in manual::blocks(&page) {
        match block.kind.as_str() {
            "sh terminal" => terminals.push(Terminal::open(&home, block.text().trim())),
            "sh" => drop(manual::run_script(&home, &block)),
            "text console" => console = block.lines[0].strip_prefix("http://").map(str::to_owned),
            other => panic!("{other}: {block:?}"),
        }
        // The second contender comes when the first one is there, as a reader's hands are slower than both.
        if terminals.len() == 2 {
            await_contender(&home, first);
        }
    }
    let console = console.unwrap();
    let Some(browser) = Browser::start(console.strip_suffix("/console/").unwrap().parse().unwrap()) else {
        return;
    };
    browser.open("?lang=en");
    browser.keys("body", "gr");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "pay-7");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "127.0.0.1");
    browser.wait_text("[data-kind=curator-lock] tr:not(.holds)", "pay-9");
    println!("the holder is found {:?} after the first line", began.elapsed());
    browser.click("[data-kind=curator-lock] tr.holds .session a");
    browser.wait_text("main", "/locks/payments/_c_11111111");
    while let Some(terminal) = terminals.pop() {
        drop(terminal);
    }
}

/// Waits until the queue has a child.
fn await_contender(home: &Path, port: u16) {
    let line =
        format!("until zebu -server 127.0.0.1:{port} ls /locks/payments | grep -q lock; do sleep 0.2; done");
    let block = manual::Block { kind: "sh".to_owned(), lines: vec![line] };
    manual::run_script(home, &block);
}
