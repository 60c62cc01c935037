//! docs/backup.md, command by command, with the real program.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/manual.rs"]
mod manual;
#[path = "../../backup/tests/s3_store/mod.rs"]
mod s3_store;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// The ports of the page.
const PAGE_PORTS: [u16; 6] = [2181, 2182, 2888, 2889, 3888, 3889];

/// Processes that the page starts in the background, by their files. They end with the test.
struct Processes(PathBuf);

impl Drop for Processes {
    fn drop(&mut self) {
        for name in [
            "backup.pid",
            "bucket.pid",
            "sealed.pid",
            "data/1/zookeeper_server.pid",
            "data/2/zookeeper_server.pid",
            "restored/1/zookeeper_server.pid",
            "restored/2/zookeeper_server.pid",
        ] {
            let Ok(pid) = fs::read_to_string(self.0.join(name)) else { continue };
            let pid = pid.trim();
            let is_there = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == self.0);
            if is_there {
                let _ = Command::new("kill").args(["-KILL", pid]).status();
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
    let _processes = Processes(home.clone());
    let page = manual::with_free_ports(include_str!("../../../docs/backup.md"), &PAGE_PORTS);
    let store = s3_store::S3Store::start();
    let page = page.replace("127.0.0.1:9000", &store.address.to_string());
    let mut said = Vec::new();
    for block in manual::blocks(&page) {
        match block.kind.split_once(' ').unwrap_or((&block.kind, "")) {
            ("sh", "") => said.push(manual::run_script(&home, &block)),
            ("properties", file) if !file.is_empty() => fs::write(home.join(file), block.text()).unwrap(),
            (other, _) => panic!("a block of another kind, {other:?}: {}", block.text()),
        }
    }
    assert!(said.len() >= 9, "only {} blocks with commands", said.len());
    let all = said.concat();
    assert!(all.contains("chain 1: from "), "{all}");
    assert!(all.contains("proven: "), "{all}");
    assert!(all.contains(" set version "), "{all}");
    assert!(all.contains(", encrypted"), "{all}");
    assert!(home.join("unsealed/version-2").is_dir());
    let names = store.names();
    assert!(names.contains(&"backups/zookeeper/manifest.json".to_owned()), "{names:?}");
}
