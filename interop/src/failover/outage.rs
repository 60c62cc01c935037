//! One outage: the leader of a loaded ensemble goes, and writes are watched until they succeed again.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_testing::four_letter;
use zebu_testing::raw::SESSION_TIMEOUT_MS;

use crate::steady::{Acknowledged, Pace, Writers};
use crate::trio::{SERVERS, Trio, mode_in};

/// How long is watched after the leader went. A fail-over takes less than half a second.
const WATCHED: Duration = Duration::from_secs(3);

/// How long a new leader may take to be found.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the others are asked whether they lead.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// How a leader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// SIGKILL.
    Killed,
    /// SIGTERM.
    Asked,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Killed => "killed",
            End::Asked => "asked to stop",
        })
    }
}

/// The times of one failover, counted from the signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    pub(super) end: End,
    /// Until the first writer had an answer behind its pause.
    pub(super) writes_ms: f64,
    /// Until all of them had.
    pub(super) all_writers_ms: f64,
    /// Until another server reported that it leads and serves.
    pub(super) leader_ms: f64,
    /// From the start of the server that went until all serve again.
    pub(super) rejoined_ms: f64,
    /// Writes per second before.
    pub(super) rate: f64,
    pub(super) expired: usize,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: writes again after {:.0} ms, of all writers after {:.0} ms; new leader after {:.0} ms; \
             started again, it serves after {:.0} ms ({:.0} writes/s before)",
            self.end, self.writes_ms, self.all_writers_ms, self.leader_ms, self.rejoined_ms, self.rate
        )
    }
}

/// Loads the ensemble, takes its leader away, and brings it back at the end.
pub(super) fn measure(trio: &mut Trio, end: End, writers: usize, warm_up: Duration) -> Result<Outage> {
    trio.await_service()?;
    let leader = trio.leader()?;
    let load = Writers::start(&trio.addresses(), writers, Pace::Unbounded, SESSION_TIMEOUT_MS);
    std::thread::sleep(warm_up);
    let before = load.acknowledged().len();
    let at = match end {
        End::Killed => trio.kill(leader)?,
        End::Asked => trio.terminate(leader)?,
    };
    let others: Vec<SocketAddr> =
        (0..SERVERS).filter(|index| *index != leader).map(|index| trio.address(index)).collect();
    let leader_ms = millis(await_leader(&others, at)?);
    std::thread::sleep(WATCHED.saturating_sub(at.elapsed()));
    let acknowledged = load.acknowledged();
    let fates = load.finish()?;
    trio.reap(leader)?;
    trio.start(leader)?;
    let rejoined_ms = millis(trio.await_service()?);
    let back = came_back(&acknowledged, at);
    ensure!(back.len() == writers, "after {WATCHED:?} only {} of {writers} writers were back", back.len());
    Ok(Outage {
        end,
        writes_ms: millis(back[0] - at),
        all_writers_ms: millis(back[writers - 1] - at),
        leader_ms,
        rejoined_ms,
        rate: before as f64 / warm_up.as_secs_f64(),
        expired: fates.iter().map(|fate| fate.expired).sum(),
    })
}

fn await_leader(others: &[SocketAddr], at: Instant) -> Result<Duration> {
    while at.elapsed() < PATIENCE {
        for &address in others {
            let answer = four_letter::ask(address, "srvr", PATIENCE);
            if answer.ok().and_then(|text| mode_in(&text)).as_deref() == Some("leader") {
                return Ok(at.elapsed());
            }
        }
        std::thread::sleep(ASK_EVERY);
    }
    None.context("nobody else leads")
}

/// When each writer came back, soonest first. A writer of the server that went has its first answer on
/// another connection. A writer that kept its connection has its first answer behind its longest pause,
/// because a server may still answer what the ended leader had committed.
fn came_back(acknowledged: &[Acknowledged], at: Instant) -> Vec<Instant> {
    let mut answers: BTreeMap<usize, Vec<Acknowledged>> = BTreeMap::new();
    for write in acknowledged.iter().filter(|write| write.answered >= at) {
        answers.entry(write.writer).or_default().push(*write);
    }
    let back = |writes: Vec<Acknowledged>| {
        if let Some(first) = writes.iter().find(|write| write.connection > 0) {
            return Some(first.answered);
        }
        let mut before = at;
        let pauses = writes.iter().map(|write| {
            let pause = write.answered - before;
            before = write.answered;
            (pause, std::cmp::Reverse(write.answered))
        });
        pauses.max().map(|(_, std::cmp::Reverse(answered))| answered)
    };
    let mut all: Vec<Instant> = answers.into_values().filter_map(back).collect();
    all.sort();
    all
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dying_leader_still_answers_does_not_count() {
        let at = Instant::now();
        let write = |writer, connection, ms: u64| {
            let answered = at + Duration::from_millis(ms);
            Acknowledged { sent: at, answered, writer, connection }
        };
        let writes = [write(1, 0, 1), write(2, 0, 2), write(2, 1, 200), write(1, 1, 201), write(1, 1, 202)];
        let after: Vec<Duration> = came_back(&writes, at).into_iter().map(|back| back - at).collect();
        assert_eq!(after, [200, 201].map(Duration::from_millis));
        // This one kept its connection: the first answer is of the dying leader.
        let kept = [write(3, 0, 2), write(3, 0, 40), write(3, 0, 45)];
        assert_eq!(came_back(&kept, at), [at + Duration::from_millis(40)]);
    }
}
