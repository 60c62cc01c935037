//! One round: an ensemble, a backup, clients, kills; then the comparison.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_backup::core::archive::all_segments;
use zebu_backup::core::difference::compare;
use zebu_backup::core::manifest::Manifest;
use zebu_backup::core::plan::{Point, plan};
use zebu_backup::core::replay::{Unobserved, rebuild};
use zebu_backup::core::target::Target;
use zebu_backup::directory::{DirectoryTarget, DirectoryUse};
use zebu_proto::Zxid;
use zebu_storage::FileDisk;
use zebu_testing::Launch;
use zebu_tree::Tree;

use super::load::BackupLoad;
use super::process::BackupProcess;
use super::reference::Reference;
use super::restored::serve_and_compare;
use crate::differential::Random;
use crate::trio::{SERVERS, Trio};

/// Points of each round that are compared.
const POINTS: usize = 10;

/// How long clients write between two kills.
const STAY: Duration = Duration::from_millis(1500);

/// Whose servers form the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Apache,
    Zebu,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Apache => "Apache",
            Kind::Zebu => "Zebu",
        })
    }
}

/// What a round needs.
pub(super) struct Round<'a> {
    pub(super) kind: Kind,
    pub(super) binary: &'a Path,
    pub(super) zebu: &'a Launch,
    pub(super) apache: &'a Launch,
    pub(super) kills: usize,
}

impl Round<'_> {
    /// Runs it, and returns what it compared.
    pub(super) fn run(&self, random: &mut Random) -> Result<String> {
        let launch = match self.kind {
            Kind::Apache => self.apache,
            Kind::Zebu => self.zebu,
        };
        let home = tempfile::Builder::new().prefix("zebu-backup").tempdir()?;
        let mut trio = Trio::new([launch.clone(), launch.clone(), launch.clone()], "")?;
        trio.start_all()?;
        let load = BackupLoad::start(&trio.addresses(), random)?;
        let mut backup = BackupProcess::start(self.binary, &trio.addresses(), home.path())?;
        backup.await_stored(Zxid(0))?;
        let mut killed = Vec::new();
        for _ in 0..self.kills {
            std::thread::sleep(STAY);
            killed.push(kill(&mut trio, &mut backup, random)?);
        }
        std::thread::sleep(STAY);
        let writes = load.written();
        let last = load.finish()?;
        backup.await_stored(last)?;
        backup.end()?;
        for index in 0..SERVERS {
            trio.terminate(index)?;
            trio.reap(index)?;
        }
        let reference = Reference::read((0..SERVERS).map(|index| trio.data_dir(index)), last)?;
        let compared = self.compare(&backup, &reference, random, home.path())?;
        Ok(format!("{writes} writes, killed {}, {compared}", killed.join(", ")))
    }

    fn compare(
        &self,
        backup: &BackupProcess,
        reference: &Reference,
        random: &mut Random,
        home: &Path,
    ) -> Result<String> {
        backup.succeed(&["verify"])?;
        let target = DirectoryTarget::open(FileDisk, backup.place(), DirectoryUse::Read, "")?;
        let stored = target.manifest()?.context("no manifest")?;
        let manifest = Manifest::decode(&stored.bytes)?;
        let segments = all_segments(&target, &manifest)?;
        let chains = manifest.bases.last().map_or(0, |base| base.chain);
        ensure!(chains == 1, "the members had everything, and the backup has {chains} chains");
        let first = manifest.bases[0].zxid;
        let known: Vec<Zxid> = reference.zxids().into_iter().filter(|zxid| *zxid >= first).collect();
        ensure!(known.len() > POINTS, "only {} transactions", known.len());
        let mut points: Vec<Zxid> = (0..POINTS).map(|_| *random.pick(&known)).collect();
        points.push(known[known.len() - 1]);
        points.sort();
        points.dedup();
        let served = [points[points.len() / 3], points[points.len() - 1]];
        reference.replay(&points, |zxid, expected| {
            let planned = plan(&manifest, &segments, Point::Zxid(zxid))?;
            let state = rebuild(&target, &planned, 3, &mut Unobserved)?;
            same(expected, &state.tree).with_context(|| format!("the state at {zxid}"))?;
            if served.contains(&zxid) {
                for (name, launch) in [("zebu", self.zebu), ("apache", self.apache)] {
                    let data = home.join(format!("{name}-{:x}", zxid.0));
                    let (point, out) = (format!("{:#x}", zxid.0), data.display().to_string());
                    backup.succeed(&["restore", "--to-zxid", &point, "--out", &out])?;
                    serve_and_compare(launch, home, &data, expected)
                        .with_context(|| format!("{name} on the state at {zxid}"))?;
                }
            }
            Ok(())
        })?;
        Ok(format!("{} of {} points compared, {} bases", points.len(), known.len(), manifest.bases.len()))
    }
}

/// The same nodes, data, ACLs and stats, and the same digest.
fn same(expected: &Tree, found: &Tree) -> Result<()> {
    let mut differences = Vec::new();
    compare(expected, found, "/", &mut |path, difference| {
        // The first config is of no transaction: each server takes it from its file.
        if path != "/zookeeper/config" {
            differences.push(format!("{path}: {difference:?}"));
        }
    });
    ensure!(differences.is_empty(), "the backup differs from the members' logs: {}", differences.join("; "));
    ensure!(expected.last_zxid() == found.last_zxid(), "it ends at {}", found.last_zxid());
    Ok(())
}

/// Kills the leader, another member or the backup; everything comes back.
fn kill(trio: &mut Trio, backup: &mut BackupProcess, random: &mut Random) -> Result<String> {
    let leader = trio.leader()?;
    let (index, name) = match random.below(4) {
        0 | 1 => (leader, "the leader"),
        2 => ((leader + 1) % SERVERS, "a follower"),
        _ => {
            backup.kill_and_restart()?;
            return Ok("the backup".to_owned());
        }
    };
    trio.kill(index)?;
    trio.reap(index)?;
    // Now and then the backup misses the change too.
    let both = random.percent(30);
    if both {
        backup.kill_and_restart()?;
    }
    trio.start(index)?;
    trio.await_service()?;
    Ok(if both { format!("{name} and the backup") } else { name.to_owned() })
}
