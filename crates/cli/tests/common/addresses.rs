//! Ensembles whose servers know each other by other addresses than 127.0.0.1, or by names of their own.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::ensemble::Ensemble;

/// How a server writes the line of another one: who writes, about whom (from 1), quorum port, election port.
pub(crate) type MemberLine<'a> = &'a dyn Fn(usize, usize, u16, u16) -> String;

/// Everything but the processes, with these member lines.
pub(crate) fn prepare(count: usize, lines: &str, member: MemberLine<'_>) -> Ensemble {
    let ensemble = Ensemble::prepare(count, lines);
    for index in 0..count {
        let file = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = fs::read_to_string(&file).unwrap();
        let mut lines: Vec<String> =
            text.lines().filter(|line| !line.starts_with("server.")).map(str::to_owned).collect();
        for (of, [quorum, election]) in ensemble.ports.iter().enumerate() {
            lines.push(member(index + 1, of + 1, *quorum, *election));
        }
        fs::write(file, lines.join("\n")).unwrap();
    }
    ensemble
}

/// Starts a server that sees another file in the place of /etc/hosts.
pub(crate) fn run_with_hosts(ensemble: &mut Ensemble, index: usize, hosts: &Path) {
    let log = fs::File::create(ensemble.home.path().join(format!("log{index}"))).unwrap();
    let child = Command::new("unshare")
        .args(["-Urm", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""])
        .arg(hosts)
        .args([env!("CARGO_BIN_EXE_zebu"), "serve"])
        .arg(ensemble.home.path().join(format!("zoo{index}.cfg")))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    ensemble.children[index] = Some(child);
}
