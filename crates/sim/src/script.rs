//! Scenarios as text: an ensemble with constant latencies, faults at chosen moments, and the relevant lines
//! of the trace. For tests that show the course of the protocol rather than the absence of violations.
//!
//! ```text
//! servers 3            voters; also: observers N, clients N, calls N,
//!                      history N (transactions kept in memory)
//! members 2            reconfig is enabled, and so many voters must remain;
//!                      spares N: servers outside the first config
//! at 2000 reconfig remove leader   also: add N, observer N, port N 2182, all N,N,N, version known,
//!                      version wrong, client N (default: the operator, which has the permission);
//!                      several of them make one request
//! syncs 1              weight of syncs beside creates and sets; pace MS: the pause between calls
//! syncing 3            number of clients that call nothing but sync
//! pipeline 4           calls of a client in flight; sessions MS: the session timeout
//! spread 5             a paused server that goes on takes connections and timers in any order,
//!                      within so many ms
//! masters              observers connect to followers; memory: observers have no log
//! readonly MS          a server without a leader serves reads after MS; clients accept that
//! grace MS             learners keep their connections for MS without a leader; unnoticed: a server that
//!                      closes one because it has no leader violates a guarantee
//! local upgrade        sessions are local until they need an ephemeral node; local plain: always
//! ephemerals 1         weight of ephemeral creates; gets 1: of reads
//! at 2000 kill leader  also: kill N, kill N 4000 (its downtime), power leader, power all, pause N 500,
//!                      freeze N 500 (with its clocks), isolate leader 1500, rot N, move CLIENT
//! trap newleader sends 300   the next server that sends (or gets) it stops, and restarts after 300 ms
//! show serves UpToDate       selects the lines that contain one of the words
//! ```

use std::collections::BTreeMap;

use zebu_node::LocalSessionSupport;
use zebu_zab::{ObserverLog, ObserverMasters};

use crate::client::OperationKind;
use crate::context::Trace;
use crate::fault_kind::FaultKind;
use crate::members::{ExpectedVersion, ReconfigChange, ServerSeat, VoteRight};
use crate::network::{Host, Latency};
use crate::plan::{Fault, LEADER, PacketEnd, PlannedFault, ProtocolStep, RottenFile};
use crate::queue::{MS, VirtualTime};
use crate::run_parameters::{
    DiskParameters, PurgeParameters, ReconfigParameters, RunParameters, ServerKinds,
};
use crate::world::World;

/// Runs a scenario and returns the lines that it wants shown, and how it ended.
pub fn run_script(text: &str) -> Result<String, String> {
    let script = Script::parse(text)?;
    let world = World::new(script.shape, script.plan, Trace::kept());
    let outcome = world.run();
    let mut shown = String::new();
    for line in &outcome.trace {
        if script.show.iter().any(|word| line.contains(word.as_str())) {
            shown.push_str(line.trim_start());
            shown.push('\n');
        }
    }
    match outcome.violation {
        None => shown.push_str("holds\n"),
        Some(violation) => shown.push_str(&format!("BROKEN {}: {}\n", violation.checker, violation.text)),
    }
    Ok(shown)
}

struct Script {
    shape: RunParameters,
    plan: Vec<PlannedFault>,
    show: Vec<String>,
}

impl Script {
    fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script { shape: even_shape(), plan: Vec::new(), show: Vec::new() };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() {
                script.line(&words).ok_or_else(|| format!("{line:?} is not understood"))?;
            }
        }
        if script.shape.members.is_some() {
            // The operator is a client of its own.
            script.shape.clients += 1;
        }
        // A breakpoint waits from the start; the other faults come in order.
        script.plan.sort_by_key(|planned| planned.at);
        Ok(script)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        let number = |word: &str| word.parse::<u64>().ok();
        match words {
            ["servers", count] => self.shape.voters = number(count)? as usize,
            ["observers", count] => self.shape.observers = number(count)? as usize,
            ["spares", count] => self.shape.spares = number(count)? as usize,
            ["members", voters_min] => {
                self.shape.members = Some(ReconfigParameters {
                    voters_min: number(voters_min)? as usize,
                    changes: 0,
                    joins_as: VoteRight::Lacks,
                    late_permille: 0,
                    curious_permille: 0,
                });
            }
            ["clients", count] => self.shape.clients = number(count)? as usize,
            ["calls", count] => self.shape.workload.calls_max = number(count)?,
            ["syncs", weight] => self.shape.workload.weights[OperationKind::Sync as usize] = number(weight)?,
            ["sessions", ms] => self.shape.workload.session_timeout_ms = number(ms)?,
            ["pipeline", calls] => self.shape.workload.pipeline = number(calls)? as usize,
            ["spread", ms] => self.shape.resume_spread = number(ms)? * MS,
            ["syncing", clients] => self.shape.syncing_clients = number(clients)? as usize,
            ["pace", ms] => self.shape.workload.pause = number(ms)? * MS,
            ["history", count] => self.shape.history_entries = number(count)? as usize,
            ["snapshots", count] => self.shape.disk.snap_count = number(count)?,
            ["masters"] => self.shape.kinds.masters = ObserverMasters::Followers,
            ["memory"] => self.shape.kinds.observer_log = ObserverLog::InMemory,
            ["readonly", ms] => self.shape.kinds.read_only_after_ms = Some(number(ms)? as i64),
            ["grace", ms] => self.shape.kinds.election_grace_ms = number(ms)? as i64,
            ["unnoticed"] => self.shape.kinds.only_leader_ends = true,
            ["local", "upgrade"] => self.shape.kinds.local_sessions = LocalSessionSupport::WithUpgrade,
            ["local", "plain"] => self.shape.kinds.local_sessions = LocalSessionSupport::WithoutUpgrade,
            ["ephemerals", weight] => {
                self.shape.workload.weights[OperationKind::CreateEphemeral as usize] = number(weight)?;
            }
            ["gets", weight] => self.shape.workload.weights[OperationKind::Get as usize] = number(weight)?,
            ["lasts", ms] => self.shape.safety = number(ms)? * MS,
            ["show", words @ ..] => self.show.extend(words.iter().map(|word| word.replace('_', " "))),
            ["at", ms, fault @ ..] => {
                let fault = self.fault(fault)?;
                self.plan.push(PlannedFault { at: number(ms)? * MS, fault });
            }
            ["trap", ..] => {
                let fault = self.fault(words)?;
                self.plan.push(PlannedFault { at: 0, fault });
            }
            _ => return None,
        }
        Some(())
    }

    fn fault(&self, words: &[&str]) -> Option<Fault> {
        let server = |word: &str| if word == "leader" { Some(LEADER) } else { word.parse().ok() };
        let time = |word: &str| word.parse::<VirtualTime>().ok().map(|ms| ms * MS);
        let down = 300 * MS;
        Some(match words {
            ["reconfig", change @ ..] => self.reconfig(change)?,
            ["trap", step, when, ms] => {
                let when = match *when {
                    "sends" => PacketEnd::Sends,
                    "gets" => PacketEnd::Gets,
                    _ => return None,
                };
                Fault::EndAtStep { on: step_of(step)?, when, skip: 0, down: time(ms)?, survives: None }
            }
            ["move", client] => Fault::ClientMoves { client: client.parse().ok()? },
            ["kill", it] => Fault::Kill { server: server(it)?, down },
            ["kill", it, ms] => Fault::Kill { server: server(it)?, down: time(ms)? },
            ["power", "all"] => {
                Fault::PowerLoss { servers: (0..self.shape.servers()).collect(), down, survives: 0 }
            }
            ["power", it] => Fault::PowerLoss { servers: vec![server(it)?], down, survives: 0 },
            ["pause", it, ms] => Fault::Pause { server: server(it)?, lasts: time(ms)? },
            ["freeze", it, ms] => Fault::Freeze { server: server(it)?, lasts: time(ms)? },
            ["rot", it] => {
                Fault::BitRot { server: server(it)?, file: RottenFile::Log, place: 77 << 16, down }
            }
            ["isolate", it, ms] => {
                let one = Host(server(it)?);
                let others = (0..self.shape.servers()).map(Host).filter(|other| *other != one);
                let paths = others.flat_map(|other| [(one, other), (other, one)]).collect();
                Fault::Cut { name: FaultKind::Isolate, paths, lasts: time(ms)? }
            }
            _ => return None,
        })
    }

    /// A reconfig request.
    fn reconfig(&self, mut words: &[&str]) -> Option<Fault> {
        let server = |word: &str| if word == "leader" { Some(LEADER) } else { word.parse().ok() };
        let mut client = self.shape.clients;
        let (mut join, mut leave) = (Vec::new(), Vec::new());
        let mut all: Option<BTreeMap<usize, ServerSeat>> = None;
        let mut asked = ExpectedVersion::Any;
        while let [what, it, rest @ ..] = words {
            words = rest;
            match *what {
                "add" => join.push((server(it)?, ServerSeat::usual(VoteRight::Has))),
                "observer" => join.push((server(it)?, ServerSeat::usual(VoteRight::Lacks))),
                "remove" => leave.push(server(it)?),
                "client" => client = it.parse().ok()?,
                "version" if *it == "known" => asked = ExpectedVersion::Known,
                "version" => asked = ExpectedVersion::Wrong,
                "port" => {
                    let [port, rest @ ..] = words else { return None };
                    words = rest;
                    let client_port = port.parse().ok()?;
                    join.push((server(it)?, ServerSeat { client_port, ..ServerSeat::usual(VoteRight::Has) }));
                }
                "all" => {
                    let named: Option<Vec<usize>> = it.split(',').map(|word| word.parse().ok()).collect();
                    all = Some(
                        named?
                            .into_iter()
                            .map(|server| (server, ServerSeat::usual(VoteRight::Has)))
                            .collect(),
                    );
                }
                _ => return None,
            }
        }
        let change = match all {
            Some(seats) => ReconfigChange::Full { servers: seats, groups: BTreeMap::new() },
            None => ReconfigChange::Incremental { join, leave },
        };
        Some(Fault::Reconfig { client, change, version: asked })
    }
}

fn step_of(word: &str) -> Option<ProtocolStep> {
    let name = |step: &ProtocolStep| format!("{step:?}").to_lowercase();
    ProtocolStep::ALL.into_iter().find(|step| name(step) == word)
}

/// Parameters with constant times.
fn even_shape() -> RunParameters {
    let mut shape = RunParameters::draw(7);
    shape.voters = 3;
    shape.observers = 0;
    shape.spares = 0;
    shape.members = None;
    shape.groups = Vec::new();
    shape.clients = 1;
    shape.tick_ms = 100;
    shape.init_limit = 10;
    shape.sync_limit = 5;
    shape.history_entries = 1000;
    shape.latency = Latency { low: MS, high: MS, straggler_permille: 0 };
    shape.disk = DiskParameters {
        sync_low: MS,
        sync_high: MS,
        preallocate: 0,
        size_max: None,
        snap_count: 1_000_000,
        purge: PurgeParameters::AfterSnapshots,
    };
    shape.distant = None;
    shape.turn = 0;
    shape.stalled_leaders = 0;
    shape.kinds = ServerKinds::DEFAULT;
    shape.syncing_clients = 0;
    shape.resume_spread = 0;
    shape.last_counter = zebu_zab::LAST_COUNTER;
    shape.workload.restless_permille = 0;
    shape.workload.data_max = 40;
    shape.workload.weights = shape.workload.weights.iter().map(|_| 0).collect();
    // Creates and sets: transactions to commit.
    shape.workload.weights[0] = 1;
    shape.workload.weights[6] = 1;
    shape.workload.pipeline = 1;
    shape.workload.pause = 50 * MS;
    shape.workload.calls_max = 40;
    shape.workload.session_timeout_ms = 1000;
    shape.workload.names = 6;
    shape.safety = 5000 * MS;
    shape
}
