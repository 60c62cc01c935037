//! `zebu backup` at quorum ports with TLS and SASL: it joins with the right keys, and says why it cannot join
//! with others.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;
#[path = "common/protected.rs"]
mod protected;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ensemble::{TIME_LIMIT, block_on};
use protected::{ProtectedEnsemble, SASL, TLS};

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");

/// No host is the backup's: the servers do not list it.
const ANY_CLIENT: &str = "ssl.quorum.clientHostnameVerification=false\n";

struct Backup {
    child: Child,
    log: PathBuf,
    place: PathBuf,
}

impl Backup {
    fn start(protected: &ProtectedEnsemble, name: &str, more: &[&str]) -> Backup {
        let home = protected.ensemble.home.path();
        let (place, log) = (home.join(name), home.join(format!("{name}.log")));
        let ports: Vec<String> = (0..3).map(|index| protected.peer_ports(index)[0].to_string()).collect();
        let child = Command::new(ZEBU)
            .args([
                "backup",
                "run",
                "--quorum",
                &ports.join(","),
                "--every",
                "200ms",
                "--tick-time",
                "500",
                "--to",
            ])
            .arg(&place)
            .args(more)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Backup { child, log, place }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn await_said(&self, text: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        while !self.said().contains(text) {
            assert!(Instant::now() < deadline, "it does not say {text:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn has(&self, path: &str) -> bool {
        let history = Command::new(ZEBU).args(["backup", "history"]).arg(&self.place).arg(path).output();
        history.unwrap().status.success()
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(protected: &ProtectedEnsemble, index: usize) -> String {
    path(protected, &format!("zoo{index}.cfg"))
}

fn path(protected: &ProtectedEnsemble, name: &str) -> String {
    protected.ensemble.home.path().join(name).to_str().unwrap().to_owned()
}

fn follows(protected: &ProtectedEnsemble, config: &str, more: &[&str]) {
    let words = [&["--quorum-config", config], more].concat();
    let backup = Backup::start(protected, "backup", &words);
    backup.await_said("synchronized with the leader");
    block_on(protected.writes_through(&[0], "written"));
    let deadline = Instant::now() + TIME_LIMIT;
    while !backup.has("/written-0") {
        assert!(Instant::now() < deadline, "{}", backup.said());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_backup_of_an_ensemble_with_sasl() {
    let protected = ProtectedEnsemble::start(SASL);
    let plain = Backup::start(&protected, "plain", &["--json"]);
    plain.await_said("the stay at the leader is over");
    // The file has nothing but the keys that are needed.
    let only = path(&protected, "only.cfg");
    let jaas = path(&protected, "jaas0.conf");
    fs::write(&only, format!("{SASL}fips-mode=false\njava.security.auth.login.config={jaas}\n")).unwrap();
    follows(&protected, &only, &[]);
    assert!(!Path::new(&plain.place).join("manifest.json").exists());
}

#[test]
fn a_backup_of_an_ensemble_with_tls_and_sasl() {
    let protected = ProtectedEnsemble::start(&format!("{SASL}{TLS}{ANY_CLIENT}"));
    follows(&protected, &config(&protected, 1), &[]);
}

/// Servers that check host names accept the backup if they list it.
#[test]
fn a_backup_that_the_servers_list() {
    let roles = ["participant", "participant", "participant", "observer"];
    let mut protected = ProtectedEnsemble::prepare_as(&roles, TLS);
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(3);
    let own = config(&protected, 3);
    let unlisted = Backup::start(&protected, "unlisted", &["--quorum-config", &own]);
    unlisted.await_said("the stay at the leader is over");
    follows(&protected, &own, &["--id", "4"]);
    assert!(!unlisted.said().contains("synchronized with the leader"), "{}", unlisted.said());
}

#[test]
fn wrong_files_are_errors_at_the_start() {
    let protected = ProtectedEnsemble::prepare(TLS);
    for (name, text, said) in [
        ("missing.cfg", None, "cannot be read"),
        (
            "store.cfg",
            Some("sslQuorum=true\nssl.quorum.keyStore.location=/missing.pem\n"),
            "trustStore.location",
        ),
        ("jaas.cfg", Some(SASL), "needs a JAAS file"),
    ] {
        let file = path(&protected, name);
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let mut backup = Backup::start(&protected, "none", &["--quorum-config", &file]);
        assert_eq!(backup.child.wait().unwrap().code(), Some(2), "{name}");
        assert!(backup.said().contains(said), "{name}: {}", backup.said());
    }
}
