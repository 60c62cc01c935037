//! Scenarios as text: an ensemble of even pace, faults at chosen moments, and the lines of the trace that matter.
//! For tests that show what the protocol does rather than that nothing is broken.
//!
//! ```text
//! servers 3            voters; also: observers N, clients N, calls N, history N (transactions kept in memory)
//! members 2            they may change, and so many voters must be left; spares N: servers that are on no list yet
//! at 2000 reconfig remove leader   also: add N, observer N, port N 2182, all N,N,N, version known, version wrong,
//!                      client N (else the operator asks, who may); several of them make one request
//! at 2000 kill leader  also: kill N, power leader, power all, pause N 500, isolate leader 1500, rot N,
//!                      move CLIENT
//! trap newleader sends 300   the next server that sends (or gets) it ends, and comes back after 300 ms
//! show serves UpToDate       which lines are shown: those that contain one of the words
//! ```

use std::collections::BTreeMap;

use crate::core::Trace;
use crate::members::{Asked, Seat, Vote, Wish};
use crate::network::{Host, Latency};
use crate::plan::{Fault, LEADER, Planned, Rotten, Step, When};
use crate::queue::{MS, Time};
use crate::shape::{DiskShape, FaultKind, MembersShape, PurgeShape, Shape};
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
    shape: Shape,
    plan: Vec<Planned>,
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
            // Who may change them is a client of its own.
            script.shape.clients += 1;
        }
        // A trap waits from the start; the rest comes in order.
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
                self.shape.members = Some(MembersShape {
                    voters_min: number(voters_min)? as usize,
                    wishes: 0,
                    joins_as: Vote::Lacks,
                    late_permille: 0,
                    curious_permille: 0,
                });
            }
            ["clients", count] => self.shape.clients = number(count)? as usize,
            ["calls", count] => self.shape.workload.calls_max = number(count)?,
            ["history", count] => self.shape.history_entries = number(count)? as usize,
            ["snapshots", count] => self.shape.disk.snap_count = number(count)?,
            ["lasts", ms] => self.shape.safety = number(ms)? * MS,
            ["show", words @ ..] => self.show.extend(words.iter().map(|word| word.replace('_', " "))),
            ["at", ms, fault @ ..] => {
                let fault = self.fault(fault)?;
                self.plan.push(Planned { at: number(ms)? * MS, fault });
            }
            ["trap", ..] => {
                let fault = self.fault(words)?;
                self.plan.push(Planned { at: 0, fault });
            }
            _ => return None,
        }
        Some(())
    }

    fn fault(&self, words: &[&str]) -> Option<Fault> {
        let server = |word: &str| if word == "leader" { Some(LEADER) } else { word.parse().ok() };
        let time = |word: &str| word.parse::<Time>().ok().map(|ms| ms * MS);
        let down = 300 * MS;
        Some(match words {
            ["reconfig", wish @ ..] => self.reconfig(wish)?,
            ["trap", step, when, ms] => {
                let when = match *when {
                    "sends" => When::Sends,
                    "gets" => When::Gets,
                    _ => return None,
                };
                Fault::Trap { on: step_of(step)?, when, skip: 0, down: time(ms)?, survives: None }
            }
            ["move", client] => Fault::ClientMoves { client: client.parse().ok()? },
            ["kill", it] => Fault::Kill { server: server(it)?, down },
            ["power", "all"] => {
                Fault::PowerLoss { servers: (0..self.shape.servers()).collect(), down, survives: 0 }
            }
            ["power", it] => Fault::PowerLoss { servers: vec![server(it)?], down, survives: 0 },
            ["pause", it, ms] => Fault::Pause { server: server(it)?, lasts: time(ms)? },
            ["rot", it] => Fault::BitRot { server: server(it)?, file: Rotten::Log, place: 77 << 16, down },
            ["isolate", it, ms] => {
                let one = Host(server(it)?);
                let others = (0..self.shape.servers()).map(Host).filter(|other| *other != one);
                let paths = others.flat_map(|other| [(one, other), (other, one)]).collect();
                Fault::Cut { name: FaultKind::Isolate, paths, lasts: time(ms)? }
            }
            _ => return None,
        })
    }

    /// A wish for other members.
    fn reconfig(&self, mut words: &[&str]) -> Option<Fault> {
        let server = |word: &str| if word == "leader" { Some(LEADER) } else { word.parse().ok() };
        let mut client = self.shape.clients;
        let (mut join, mut leave) = (Vec::new(), Vec::new());
        let mut all: Option<BTreeMap<usize, Seat>> = None;
        let mut asked = Asked::Any;
        while let [what, it, rest @ ..] = words {
            words = rest;
            match *what {
                "add" => join.push((server(it)?, Seat::usual(Vote::Has))),
                "observer" => join.push((server(it)?, Seat::usual(Vote::Lacks))),
                "remove" => leave.push(server(it)?),
                "client" => client = it.parse().ok()?,
                "version" if *it == "known" => asked = Asked::Known,
                "version" => asked = Asked::Wrong,
                "port" => {
                    let [port, rest @ ..] = words else { return None };
                    words = rest;
                    let client_port = port.parse().ok()?;
                    join.push((server(it)?, Seat { client_port, ..Seat::usual(Vote::Has) }));
                }
                "all" => {
                    let named: Option<Vec<usize>> = it.split(',').map(|word| word.parse().ok()).collect();
                    all = Some(named?.into_iter().map(|server| (server, Seat::usual(Vote::Has))).collect());
                }
                _ => return None,
            }
        }
        let wish = match all {
            Some(seats) => Wish::All { seats, groups: BTreeMap::new() },
            None => Wish::Some { join, leave },
        };
        Some(Fault::Reconfig { client, wish, asked })
    }
}

fn step_of(word: &str) -> Option<Step> {
    let name = |step: &Step| format!("{step:?}").to_lowercase();
    Step::ALL.into_iter().find(|step| name(step) == word)
}

/// Everything takes the same time every time.
fn even_shape() -> Shape {
    let mut shape = Shape::draw(7);
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
    shape.disk = DiskShape {
        sync_low: MS,
        sync_high: MS,
        preallocate: 0,
        size_max: None,
        snap_count: 1_000_000,
        purge: PurgeShape::AfterSnapshots,
    };
    shape.distant = None;
    shape.turn = 0;
    shape.last_counter = zebu_zab::LAST_COUNTER;
    shape.workload.restless_permille = 0;
    shape.workload.data_max = 40;
    shape.workload.weights = shape.workload.weights.iter().map(|_| 0).collect();
    // Creates and sets: something to agree upon.
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
