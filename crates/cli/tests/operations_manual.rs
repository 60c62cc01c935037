//! docs/operations.md, command by command, with the real program: an ensemble is configured, watched, grown,
//! repaired and upgraded as the page says.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/manual.rs"]
mod manual;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// The ports of the page.
const PAGE_PORTS: [u16; 16] =
    [2181, 2182, 2183, 2184, 2888, 2889, 2890, 2891, 3888, 3889, 3890, 3891, 8081, 8082, 8083, 8084];

/// Servers that the page starts in the background. They end with the test.
struct Servers(PathBuf);

impl Drop for Servers {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let Ok(pid) = fs::read_to_string(entry.path().join("zookeeper_server.pid")) else { continue };
            let is_there =
                fs::read_link(format!("/proc/{}/cwd", pid.trim())).is_ok_and(|place| place == self.0);
            if is_there {
                let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
            }
        }
    }
}

#[test]
fn every_command_of_the_page_works() {
    let home = TempDir::new().unwrap();
    let home = home.path().canonicalize().unwrap();
    fs::create_dir(home.join("bin")).unwrap();
    symlink(manual::ZEBU, home.join("bin/zebu")).unwrap();
    let _servers = Servers(home.clone());
    let page = manual::with_free_ports(include_str!("../../../docs/operations.md"), &PAGE_PORTS);
    let mut said = String::new();
    let mut scripts = 0;
    for block in manual::blocks(&page) {
        match block.kind.split_once(' ').unwrap_or((&block.kind, "")) {
            ("sh", "") => {
                said = manual::run_script(&home, &block);
                scripts += 1;
            }
            ("properties", file) if !file.is_empty() => fs::write(home.join(file), block.text()).unwrap(),
            // Lines that the commands before printed; a line with an ellipsis is a description.
            ("text", "printed") => {
                for line in block.lines.iter().filter(|line| !line.contains('…')) {
                    assert!(said.contains(line.trim()), "{line:?} was not printed: {said}");
                }
            }
            ("properties" | "text", _) => {
                let has_command = |line: &String| line.starts_with("zebu ") || line.starts_with("$ ");
                assert!(!block.lines.iter().any(has_command), "commands that are not run: {}", block.text());
            }
            (other, _) => panic!("a block of another kind, {other:?}: {}", block.text()),
        }
    }
    assert!(scripts >= 12, "only {scripts} blocks with commands");
}
