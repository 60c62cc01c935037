//! One outage: the leader of a loaded ensemble goes, and writes are watched until they succeed again.

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

/// What was seen. All times count from the signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    pub(super) end: End,
    /// Until the first write behind the gap was acknowledged.
    pub(super) writes_ms: f64,
    /// Until as many writes were acknowledged behind the gap as there are writers.
    pub(super) all_writers_ms: f64,
    /// Until somebody else said that it leads and serves.
    pub(super) leader_ms: f64,
    /// Writes per second before.
    pub(super) rate: f64,
    pub(super) expired: usize,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: writes again after {:.0} ms, of all writers after {:.0} ms; new leader after {:.0} ms \
             ({:.0} writes/s before)",
            self.end, self.writes_ms, self.all_writers_ms, self.leader_ms, self.rate
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
    trio.await_service()?;
    let resumed = behind_the_gap(&acknowledged, at);
    ensure!(resumed.len() >= writers, "after {WATCHED:?} writes had not come back");
    Ok(Outage {
        end,
        writes_ms: millis(resumed[0].answered - at),
        all_writers_ms: millis(resumed[writers - 1].answered - at),
        leader_ms,
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

/// The writes behind the longest time without any, of those that were answered after the signal.
fn behind_the_gap(acknowledged: &[Acknowledged], at: Instant) -> &[Acknowledged] {
    let first = acknowledged.partition_point(|write| write.answered < at);
    let gap = |index: usize| {
        let previous = match index.checked_sub(1) {
            Some(previous) => acknowledged[previous].answered.max(at),
            None => at,
        };
        acknowledged[index].answered - previous
    };
    let end = (first..acknowledged.len()).max_by_key(|&index| gap(index));
    end.map_or(&[], |index| &acknowledged[index..])
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
        let write = |ms: u64| Acknowledged { sent: at, answered: at + Duration::from_millis(ms) };
        let writes = [write(1), write(2), write(200), write(201)];
        assert_eq!(behind_the_gap(&writes, at).len(), 2);
        assert_eq!(behind_the_gap(&writes[2..], at).len(), 2);
        assert_eq!(behind_the_gap(&[], at).len(), 0);
    }
}
