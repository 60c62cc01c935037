//! The certificates of a mixed ensemble are replaced while it serves: first all trust both authorities, then
//! all get new keys, then only the new authority is trusted. No connection is cut, and a file that cannot be
//! read changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::fleet::{Fleet, Server, Vote};
use super::load::Writer;
use super::{migration, rolling};
use crate::apache::Edition;
use crate::outcome::{self, Ending};
use crate::stores;

/// How long a server may take to notice a file. Zebu looks every five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks at a certificate.
const POLL: Duration = Duration::from_millis(200);

/// What Zebu logs.
const USED: &str = "certificate files changed; new connections use them";
const NOT_USED: &str = "changed certificate files cannot be used; the old ones stay in use";

/// Runs it with one release.
pub(super) async fn run(home: &Path, edition: &Edition, tested: &Server) -> Result<Ending> {
    let directory = home.join("certificates");
    fs::create_dir_all(&directory)?;
    let name = format!("{} certificates are replaced under load", edition.number());
    let apache = Server::Apache(edition.clone());
    let servers = [apache.clone(), tested.clone(), apache];
    let mut fleet = Fleet::new(&directory, servers.map(|server| (server, Vote::Participant)).to_vec())?;
    let result = replace_all(&mut fleet, &directory).await;
    Ok(match result {
        Ok(row) => {
            println!("  {row}");
            outcome::ok(&name)
        }
        Err(fault) => {
            println!("{}", fleet.last_words());
            outcome::not_ok(&name, &fault)
        }
    })
}

/// The stores of one member.
struct Files {
    keys: PathBuf,
    trust: PathBuf,
}

impl Files {
    fn of(home: &Path, index: usize) -> Files {
        let path = |name: &str| home.join(format!("{name}{}.pem", index + 1));
        Files { keys: path("keys"), trust: path("trust") }
    }

    fn lines(&self) -> String {
        format!(
            "sslQuorum=true\nsslQuorumReloadCertFiles=true\nssl.quorum.keyStore.location={}\n\
             ssl.quorum.trustStore.location={}\n",
            self.keys.display(),
            self.trust.display()
        )
    }
}

async fn replace_all(fleet: &mut Fleet, home: &Path) -> Result<String> {
    for (authority, server) in [("old", "old-server"), ("new", "new-server")] {
        stores::make_authority(home, authority, &format!("/CN={authority}-authority"))?;
        stores::make_server(home, server, authority)?;
    }
    let text = |name: &str| fs::read_to_string(home.join(format!("{name}.pem")));
    let (old, new) = (text("old")?, text("new")?);
    let all: Vec<Files> = (0..fleet.len()).map(|index| Files::of(home, index)).collect();
    for (index, files) in all.iter().enumerate() {
        fs::write(&files.trust, &old)?;
        fs::write(&files.keys, text("old-server")?)?;
        fleet.configure(index, &files.lines())?;
    }
    let writers = rolling::start_under_load(fleet).await?;
    (0..fleet.len()).try_for_each(|index| await_issuer(fleet, index, "old-authority"))?;

    let calm = Calm::of(fleet)?;
    let marks = fleet.log_marks();
    all.iter().try_for_each(|files| stores::replace(&files.trust, &format!("{old}{new}")))?;
    await_reload(fleet, &marks, USED)?;
    all.iter().try_for_each(|files| stores::replace(&files.keys, &read(&home.join("new-server.pem"))?))?;
    (0..fleet.len()).try_for_each(|index| await_issuer(fleet, index, "new-authority"))?;
    calm.check(fleet, &writers, "after the new certificates").await?;

    let marks = fleet.log_marks();
    for (index, files) in all.iter().enumerate().filter(|(index, _)| fleet.server(*index).is_zebu()) {
        stores::replace(&files.keys, "no store at all")?;
        await_log(fleet, index, marks[index], NOT_USED)?;
        await_issuer(fleet, index, "new-authority")?;
        stores::replace(&files.keys, &read(&home.join("new-server.pem"))?)?;
    }
    let marks = fleet.log_marks();
    all.iter().try_for_each(|files| stores::replace(&files.trust, &new))?;
    await_reload(fleet, &marks, USED)?;
    calm.check(fleet, &writers, "after the old authority went").await?;

    // All servers connect with the new certificates only.
    for index in migration::order(fleet)? {
        let what = || format!("restart server {} with the new certificates", index + 1);
        rolling::restart(fleet, index, &all[index].lines(), &writers).await.with_context(what)?;
    }
    migration::conclude(fleet, writers).await
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("read {}", file.display()))
}

/// The leader and its epoch: they must not change while files do.
struct Calm {
    leader: usize,
    epoch: i64,
}

impl Calm {
    fn of(fleet: &Fleet) -> Result<Calm> {
        let leader = fleet.leader().context("nobody leads")?;
        Ok(Calm { leader, epoch: fleet.epoch(leader)? })
    }

    async fn check(&self, fleet: &Fleet, writers: &[Writer], when: &str) -> Result<()> {
        let now = Calm::of(fleet)?;
        ensure!(
            (now.leader, now.epoch) == (self.leader, self.epoch),
            "{when}: server {} leads in epoch {}, and server {} did in {}",
            now.leader + 1,
            now.epoch,
            self.leader + 1,
            self.epoch
        );
        for index in 0..fleet.len() {
            rolling::check_sessions(fleet, index, writers).await.context(when.to_owned())?;
        }
        let before: usize = writers.iter().map(Writer::acknowledged).sum();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let after: usize = writers.iter().map(Writer::acknowledged).sum();
        ensure!(after > before, "{when} nothing is written any more");
        Ok(())
    }
}

/// Waits until every Zebu says that it uses its files. Apache says nothing; it gets its first chance to be
/// wrong when it meets a new certificate.
fn await_reload(fleet: &Fleet, marks: &[u64], line: &str) -> Result<()> {
    (0..fleet.len())
        .filter(|&index| fleet.server(index).is_zebu())
        .try_for_each(|index| await_log(fleet, index, marks[index], line))
}

fn await_log(fleet: &Fleet, index: usize, mark: u64, line: &str) -> Result<()> {
    let started = Instant::now();
    while !fleet.log_since(index, mark)?.contains(line) {
        ensure!(started.elapsed() < PATIENCE, "member {} does not log {line:?}", index + 1);
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until a member shows a certificate of this authority on its election port.
fn await_issuer(fleet: &Fleet, index: usize, authority: &str) -> Result<()> {
    let address = fleet.election_address(index).to_string();
    let started = Instant::now();
    loop {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &address])
            .stdin(Stdio::null())
            .output()
            .context("run openssl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.lines().any(|line| line.starts_with("issuer=") && line.ends_with(authority)) {
            return Ok(());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "member {} shows no certificate of {authority}: {text}",
            index + 1
        );
        std::thread::sleep(POLL);
    }
}
