//! What all clients of a history share, and what each of them draws.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::history::{Call, Kind, nanos};
use crate::differential::Random;

/// The longest pause between two operations of a client, in microseconds.
const PAUSE_MAX_US: usize = 6000;

/// What the clients of one history share.
pub(super) struct Shared {
    pub(super) began: Instant,
    pub(super) stop: AtomicBool,
    /// The nodes of this history, which begin with value and version 0.
    pub(super) paths: Vec<String>,
    /// Of one client.
    pub(super) operations_max: usize,
}

/// The choices of one client.
pub(super) struct Draws {
    random: Random,
    client: usize,
    written: i64,
    /// The last version that the client has seen of each node.
    versions: Vec<i32>,
}

impl Draws {
    pub(super) fn new(seed: u64, client: usize, nodes: usize) -> Draws {
        Draws { random: Random::new(seed), client, written: 0, versions: vec![0; nodes] }
    }

    /// The next call, which begins now.
    pub(super) fn call(&mut self, shared: &Shared) -> Call {
        let node = self.random.below(shared.paths.len());
        let kind = self.random.weighted(&[(5, Kind::Read), (3, Kind::Write), (2, Kind::WriteIf)]);
        Call { client: self.client, node, kind, called: nanos(shared.began) }
    }

    /// A value that no other write has.
    pub(super) fn fresh_value(&mut self, client: usize) -> i64 {
        self.written += 1;
        (client as i64 + 1) << 32 | self.written
    }

    /// The version that a conditional write wants.
    pub(super) fn wanted_version(&self, call: &Call) -> Option<i32> {
        (call.kind == Kind::WriteIf).then(|| self.versions[call.node])
    }

    pub(super) fn seen(&mut self, node: usize, version: i32) {
        self.versions[node] = version;
    }

    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_micros(self.random.below(PAUSE_MAX_US) as u64)
    }
}
