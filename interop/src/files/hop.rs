//! One stay of the directory with one server: start, compare, write, and leave it by SIGTERM or SIGKILL.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::WriteRequest;
use zebu_testing::{Launch, ServerProcess, four_letter};

use super::arrangement::{Arrangement, LogPlace, Sweeping};
use super::doomed::Doomed;
use super::requests::{self, Kind};
use super::seats::Seats;
use super::tools;
use super::workload::Workload;
use crate::apache::Edition;
use crate::client::Client;
use crate::differential::Random;
use crate::dump::{Dump, is_below};
use crate::load::Load;

const PATIENCE: Duration = Duration::from_secs(10);

/// The session of the checks; it is closed again each time.
const CHECK_TIMEOUT_MS: i32 = 60_000;

/// Sessions that write while the server is killed.
const WRITERS: usize = 3;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(super) enum Host {
    Zebu(Launch),
    Apache(Edition, Launch),
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Zebu(_) => formatter.write_str("Zebu"),
            Host::Apache(edition, _) => write!(formatter, "{edition}"),
        }
    }
}

impl Host {
    fn launch(&self) -> Launch {
        match self {
            Host::Zebu(launch) | Host::Apache(_, launch) => launch.clone(),
        }
    }
}

/// How a server is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Asked,
    KilledUnderLoad,
}

impl fmt::Display for Leaving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Leaving::Asked => "stopped",
            Leaving::KilledUnderLoad => "killed under load",
        })
    }
}

/// What the checks of a whole run found in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) hops: usize,
    pub(super) kills: usize,
    pub(super) sweeps: usize,
    pub(super) writes: usize,
    pub(super) nodes: usize,
    pub(super) sessions: usize,
    pub(super) ephemerals: usize,
    pub(super) expired: usize,
    pub(super) acknowledged_under_load: u64,
    pub(super) found_unacknowledged: usize,
    pub(super) tools: tools::Read,
}

/// A directory on its way from server to server.
pub(super) struct Journey {
    server: ServerProcess,
    arrangement: Arrangement,
    seats: Seats,
    workload: Workload,
    remembered: Option<Dump>,
    load: Option<Load>,
    doomed: Option<Doomed>,
    last_zxid: i64,
    hops: usize,
    /// How much of the output has been looked at.
    output_read: usize,
}

impl Journey {
    /// Starts the first server on an empty directory.
    pub(super) fn begin(arrangement: Arrangement, host: &Host) -> Result<Journey> {
        let mut builder = arrangement.builder(host.launch());
        builder = builder.property("znode.container.checkIntervalMs", "86400000");
        Ok(Journey {
            server: builder.start()?,
            arrangement,
            seats: Seats::default(),
            workload: Workload::new(),
            remembered: None,
            load: None,
            doomed: None,
            last_zxid: 0,
            hops: 0,
            output_read: 0,
        })
    }

    /// The whole stay. `steps` is the number of writes.
    pub(super) fn stay(
        &mut self,
        host: &Host,
        leaving: Leaving,
        sweeping: Sweeping,
        steps: usize,
        random: &mut Random,
        totals: &mut Totals,
    ) -> Result<()> {
        self.hops += 1;
        totals.hops += 1;
        self.start(host)?;
        self.compare(totals).context("after the start")?;
        self.check_digests(host)?;
        if sweeping == Sweeping::On {
            self.sweep(host, totals)?;
        }
        self.write(steps, random, totals).context("while writing")?;
        self.check_digests(host)?;
        match leaving {
            Leaving::Asked => {
                self.remember()?;
                self.server.stop()?;
            }
            Leaving::KilledUnderLoad => {
                self.kill_under_load(random)?;
                totals.kills += 1;
            }
        }
        self.check_output(host)
    }

    /// Apache's tools over what the server left.
    pub(super) fn read_with_tools(
        &self,
        edition: &Edition,
        leaving: Leaving,
        totals: &mut Totals,
    ) -> Result<()> {
        let snapshots = self.server.data_dir().join("version-2");
        let logs = match self.arrangement.log_place {
            LogPlace::WithSnapshots => snapshots.clone(),
            LogPlace::Apart => self.server.directory().join("logs/version-2"),
        };
        let last_zxid = (leaving == Leaving::Asked).then_some(self.last_zxid);
        let read = tools::read(edition, &snapshots, &logs, last_zxid)
            .with_context(|| format!("tools of {edition}"))?;
        totals.tools.logs += read.logs;
        totals.tools.transactions += read.transactions;
        totals.tools.snapshots += read.snapshots;
        totals.tools.nodes += read.nodes;
        Ok(())
    }

    /// The counts of the workload, in words.
    pub(super) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The end of what the servers wrote.
    pub(super) fn output_tail(&self) -> String {
        let output = self.server.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// Starts the last server once more, to see what it left for itself, and ends it.
    pub(super) fn finish(mut self, host: &Host, totals: &mut Totals) -> Result<()> {
        self.start(host)?;
        self.compare(totals).context("after the last start")?;
        self.check_digests(host)?;
        self.server.stop()?;
        self.check_output(host)
    }

    fn start(&mut self, host: &Host) -> Result<()> {
        self.server.set_launch(host.launch());
        self.server.start()?;
        let zxid = four_letter::last_zxid(self.server.address(), PATIENCE)?.0;
        ensure!(zxid >= self.last_zxid, "zxid 0x{zxid:x} after 0x{:x}", self.last_zxid);
        Ok(())
    }

    /// Compares the tree with what clients saw, and comes back to the sessions.
    fn compare(&mut self, totals: &mut Totals) -> Result<()> {
        let address = self.server.address();
        let mut client = Client::open_super(address, CHECK_TIMEOUT_MS)?;
        let dump = Dump::read(&mut client)?;
        client.write(&WriteRequest::CloseSession)?;
        if let Some(remembered) = &self.remembered {
            let written: Vec<&str> = self.load.iter().flat_map(Load::tops).collect();
            let except = |path: &str| written.iter().any(|top| is_below(path, top));
            let differences = remembered.differences(&dump, &except);
            if !differences.is_empty() {
                let shown = differences[..differences.len().min(8)].join("\n  ");
                bail!("{} differences:\n  {shown}", differences.len());
            }
            totals.nodes += remembered.0.len();
        }
        if let Some(mut load) = self.load.take() {
            let verified = load.verify(&dump)?;
            totals.nodes += verified.nodes;
            totals.found_unacknowledged += verified.unacknowledged;
            totals.acknowledged_under_load += load.acknowledged();
            totals.sessions += load.close(address)?;
        }
        self.seats.sit_down(address)?;
        totals.sessions += self.seats.checked();
        totals.ephemerals += self.seats.check_ephemerals(&dump)?;
        Ok(())
    }

    /// Restarts the server so that it removes containers and TTL nodes, and back again.
    fn sweep(&mut self, host: &Host, totals: &mut Totals) -> Result<()> {
        let Some(doomed) = self.doomed.take() else { return Ok(()) };
        let before = self.dump()?;
        self.server.stop()?;
        Sweeping::On.set(&mut self.server);
        self.server.start()?;
        let mut client = Client::open_super(self.server.address(), CHECK_TIMEOUT_MS)?;
        doomed.wait(&mut client).context("while containers and TTL nodes are removed")?;
        self.server.stop()?;
        Sweeping::Off.set(&mut self.server);
        self.start(host)?;
        let after = self.dump()?;
        for path in before.0.keys().filter(|path| !after.0.contains_key(*path)) {
            let expected = path.starts_with("/doomed") || self.workload.may_be_swept(path);
            ensure!(expected || before.0[path].stat.ephemeral_owner != 0, "{path} was removed");
        }
        self.seats.sit_down(self.server.address())?;
        totals.sweeps += 1;
        Ok(())
    }

    fn write(&mut self, steps: usize, random: &mut Random, totals: &mut Totals) -> Result<()> {
        let address = self.server.address();
        let mut client = Client::open_super(address, CHECK_TIMEOUT_MS)?;
        self.seats.open_expiring(address)?;
        self.workload.run(&mut self.seats, address, steps, random)?;
        totals.writes += steps;
        if self.doomed.is_none() {
            self.doomed = Some(Doomed::make(&mut client, self.hops)?);
        }
        totals.expired += self.seats.wait_for_expiry(&mut client, address)?;
        client.write(&WriteRequest::CloseSession)?;
        self.seats.open_left(address)
    }

    fn remember(&mut self) -> Result<()> {
        self.remembered = Some(self.dump()?);
        self.last_zxid = four_letter::last_zxid(self.server.address(), PATIENCE)?.0;
        Ok(())
    }

    fn kill_under_load(&mut self, random: &mut Random) -> Result<()> {
        let address = self.server.address();
        let top = format!("/load-{}", self.hops);
        let mut client = Client::open_super(address, CHECK_TIMEOUT_MS)?;
        let answer = client.write(&requests::create(&top, Kind::Persistent))?;
        ensure!(answer.error == 0, "{top} was not created: {answer:?}");
        client.write(&WriteRequest::CloseSession)?;
        let mut load = Load::new(address, &top, WRITERS, random)?;
        self.remember()?;
        let delay = Duration::from_millis(20 + random.below(600) as u64);
        load.run_until_killed(&mut self.server, delay)?;
        self.last_zxid = load.last_zxid();
        self.load = Some(load);
        Ok(())
    }

    fn dump(&self) -> Result<Dump> {
        let mut client = Client::open_super(self.server.address(), CHECK_TIMEOUT_MS)?;
        let dump = Dump::read(&mut client)?;
        client.write(&WriteRequest::CloseSession)?;
        Ok(dump)
    }

    /// A server that found another digest than the one in its files says so in a number.
    fn check_digests(&self, host: &Host) -> Result<()> {
        let answer = four_letter::ask(self.server.address(), "mntr", PATIENCE)?;
        let line = answer.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count"));
        let count = line.map(str::trim).with_context(|| format!("mntr of {host} has no such number"))?;
        ensure!(count == "0", "{host} counts {count} digest mismatches");
        Ok(())
    }

    /// Nothing in the output may speak of digests.
    fn check_output(&mut self, host: &Host) -> Result<()> {
        let output = self.server.output();
        let new = output.get(self.output_read..).unwrap_or_default();
        for line in new.lines() {
            let lower = line.to_lowercase();
            let bad = lower.contains("digests are not matching")
                || lower.contains("should hash to")
                || lower.contains("panicked")
                || (matches!(host, Host::Zebu(_)) && line.contains(" ERROR "));
            ensure!(!bad, "{host} wrote: {line}");
        }
        self.output_read = output.len();
        Ok(())
    }
}
