//! The matrix: with one release of Apache, Zebu follows, observes and leads, and each kind of synchronisation
//! is brought about in each of these roles and counted as both sides tell it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use zebu_proto::client::WriteRequest;

use super::agree;
use super::fleet::{Fleet, Server, Signal, Vote};
use super::seen::{self, Kind, Seen};
use super::table::{Part, Table};
use super::writes::{SESSION_MS, Writes, create};
use super::{long, poison};
use crate::apache::Edition;
use crate::client::Client;
use crate::outcome;

/// The seats. At equal histories the highest number leads, so the tested server leads when it may.
const FIRST: usize = 0;
const SECOND: usize = 1;
const TESTED: usize = 2;
const OBSERVER: usize = 3;

/// Fewer than a leader keeps in memory, and more.
const FEW: usize = 24;
const MANY: usize = 800;

/// Enough that a whole state is not sent at once.
const LARGE: usize = 8_000;

/// One release, from the start to the last comparison.
pub(super) struct Matrix<'a> {
    release: String,
    fleet: Fleet,
    writes: Writes,
    table: &'a mut Table,
    /// Whether Zebu is tested, or Apache in its place.
    tested: Server,
}

impl<'a> Matrix<'a> {
    pub(super) fn new(
        home: &Path,
        edition: &Edition,
        tested: Server,
        table: &'a mut Table,
    ) -> Result<Matrix<'a>> {
        let apache = Server::Apache(edition.clone());
        let fleet = Fleet::new(
            home,
            vec![
                (apache.clone(), Vote::Participant),
                (apache, Vote::Participant),
                (tested.clone(), Vote::Participant),
                (tested.clone(), Vote::Observer),
            ],
        )?;
        Ok(Matrix { release: edition.number(), fleet, writes: Writes::default(), table, tested })
    }

    /// All steps; the first fault ends it.
    pub(super) fn run(&mut self) -> Result<()> {
        type Step<'a> = (&'static str, fn(&mut Matrix<'a>) -> Result<()>);
        let steps: [Step<'a>; 10] = [
            ("join an ensemble that has a history", Self::join),
            ("take a DIFF", Self::take_diff),
            ("take a SNAP", Self::take_snapshot),
            ("keep what does not decode from Apache", Self::keep_poison),
            ("send a TRUNC", Self::send_truncate),
            ("send DIFFs and a SNAP", Self::send_diff_and_snapshot),
            ("send a SNAP under load", Self::send_snapshot_under_load),
            ("lead through transactions that would be too long", Self::lead_through_long_transactions),
            ("take a TRUNC", Self::take_truncate),
            ("agree on everything", Self::agree),
        ];
        for (what, step) in steps {
            let name = format!("{} {what}", self.release);
            if let Err(fault) = step(self) {
                println!("{}", self.fleet.last_words());
                outcome::not_ok(&name, &fault);
                return Err(fault);
            }
            outcome::ok(&name);
        }
        Ok(())
    }

    /// Every kind in every role was seen.
    pub(super) fn verdict(&self) {
        for part in [Part::Follower, Part::Observer, Part::Leader] {
            for kind in Kind::ALL {
                let count = self.table.count(&self.release, part, kind);
                let name = format!("{} Zebu as {} and {kind}", self.release, part.word());
                if count > 0 {
                    outcome::ok(&name);
                } else {
                    outcome::not_ok(&name, &anyhow::anyhow!("was never seen"));
                }
            }
        }
    }

    fn join(&mut self) -> Result<()> {
        for index in [FIRST, SECOND] {
            self.fleet.start(index)?;
        }
        let (leader, _) = self.fleet.await_service()?;
        self.write(leader, MANY)?;
        self.learn(&[TESTED, OBSERVER], Kind::Snap)
    }

    fn take_diff(&mut self) -> Result<()> {
        self.kill(&[TESTED, OBSERVER])?;
        self.write(SECOND, FEW)?;
        self.learn(&[TESTED, OBSERVER], Kind::Diff)
    }

    fn take_snapshot(&mut self) -> Result<()> {
        self.kill(&[TESTED, OBSERVER])?;
        self.write(SECOND, MANY)?;
        self.learn(&[TESTED, OBSERVER], Kind::Snap)
    }

    fn keep_poison(&mut self) -> Result<()> {
        if !self.tested.is_zebu() {
            return Ok(());
        }
        for member in [TESTED, OBSERVER] {
            poison::send_through(&self.fleet, member, self.leader()?)?;
        }
        Ok(())
    }

    /// ZooKeeper leads, logs proposals that no follower has, and follows Zebu when it returns.
    fn send_truncate(&mut self) -> Result<()> {
        ensure!(self.leader()? != TESTED, "Apache does not lead");
        let former = self.leader()?;
        let other = FIRST + SECOND - former;
        self.leave_uncommitted(former, &[other, TESTED, OBSERVER])?;
        for index in [other, TESTED] {
            self.fleet.start(index)?;
        }
        let (leader, _) = self.fleet.await_service()?;
        ensure!(leader == TESTED, "member {} leads", leader + 1);
        self.teach(former, Kind::Trunc)?;
        self.learn(&[OBSERVER], Kind::Diff)
    }

    fn send_diff_and_snapshot(&mut self) -> Result<()> {
        self.kill(&[FIRST])?;
        self.write(TESTED, FEW)?;
        self.teach(FIRST, Kind::Diff)?;
        if self.tested.is_zebu() {
            // More than memory holds: from the log.
            self.kill(&[FIRST])?;
            self.write(TESTED, MANY)?;
            self.teach(FIRST, Kind::Diff)?;
        }
        self.kill(&[FIRST])?;
        self.fleet.empty(FIRST)?;
        self.write(TESTED, FEW)?;
        self.teach(FIRST, Kind::Snap)
    }

    /// The state changes while it is sent, and no digest is wrong because of it.
    fn send_snapshot_under_load(&mut self) -> Result<()> {
        if !self.tested.is_zebu() {
            // Apache's learners count wrong digests then.
            return Ok(());
        }
        Writes::make_large(self.fleet.address(TESTED), LARGE)?;
        self.fleet.await_equal_zxids()?;
        self.kill(&[FIRST])?;
        self.fleet.empty(FIRST)?;
        let (stop, address) = (AtomicBool::new(false), self.fleet.address(TESTED));
        let load = || Writes::change_large(address, LARGE, || !stop.load(Ordering::Acquire));
        let (taught, loaded) = std::thread::scope(|scope| {
            let load = scope.spawn(load);
            let taught = self.bring_up(FIRST, Kind::Snap);
            stop.store(true, Ordering::Release);
            (taught, load.join())
        });
        taught?;
        loaded.map_err(|_| anyhow::anyhow!("the load panicked"))??;
        self.settle()
    }

    /// Apache's members go on, and one of them starts again with what it has logged.
    fn lead_through_long_transactions(&mut self) -> Result<()> {
        if !self.tested.is_zebu() {
            // Apache's ensembles have no leader any more then.
            return Ok(());
        }
        ensure!(self.leader()? == TESTED, "Zebu does not lead");
        long::end_sessions(&self.fleet, &[FIRST, TESTED])?;
        long::refuse_lists(&self.fleet, &[FIRST, TESTED])?;
        self.kill(&[FIRST])?;
        self.teach(FIRST, Kind::Diff)
    }

    /// Zebu leads, logs proposals that no follower has, and follows ZooKeeper when it returns. The observer
    /// was a participant and has them too; by INFORM alone it could not be ahead of the leader.
    fn take_truncate(&mut self) -> Result<()> {
        ensure!(self.leader()? == TESTED, "Zebu does not lead");
        // Something must follow the last snapshot of those who will lead, or they remember nothing to cut to.
        self.write(TESTED, FEW)?;
        self.leave_uncommitted(TESTED, &[FIRST, SECOND, OBSERVER])?;
        self.fleet.copy_knowledge(TESTED, OBSERVER)?;
        for index in [FIRST, SECOND] {
            self.fleet.start(index)?;
        }
        self.fleet.await_service()?;
        self.learn(&[TESTED, OBSERVER], Kind::Trunc)
    }

    fn agree(&mut self) -> Result<()> {
        let leader = self.leader()?;
        self.write(leader, MANY)?;
        let agreement = agree::compare(&self.fleet)?;
        println!("  {} nodes and {} digests are equal", agreement.nodes, agreement.digests);
        ensure!(agreement.digests > 0, "no two members had a digest of the same transaction");
        Ok(())
    }

    fn leader(&self) -> Result<usize> {
        self.fleet.leader().context("nobody leads")
    }

    fn kill(&mut self, members: &[usize]) -> Result<()> {
        agree::no_mismatches(&self.fleet)?;
        members.iter().try_for_each(|&index| self.fleet.signal(index, Signal::Kill))
    }

    /// Writes, and waits until all who are up have it.
    fn write(&mut self, member: usize, count: usize) -> Result<()> {
        self.writes.write(self.fleet.address(member), count)?;
        self.fleet.await_equal_zxids()
    }

    /// Tested servers come back under Apache; each must be brought up to date in this way.
    fn learn(&mut self, members: &[usize], kind: Kind) -> Result<()> {
        let leader = self.leader()?;
        let mark = self.fleet.log_mark(leader);
        let marks: Vec<u64> = members.iter().map(|&index| self.fleet.log_mark(index)).collect();
        members.iter().try_for_each(|&index| self.fleet.start(index))?;
        self.fleet.await_service()?;
        ensure!(self.leader()? == leader, "the leader has changed");
        for (&index, mark) in members.iter().zip(marks) {
            let seen = seen::received(&self.fleet, index, mark)?;
            ensure!(seen.of(kind) > 0, "member {} took {seen}, not a {kind}", index + 1);
            if leader != TESTED {
                let part = if index == OBSERVER { Part::Observer } else { Part::Follower };
                self.table.add(&self.release, part, &seen);
            }
        }
        self.also_said(seen::sent(&self.fleet, leader, mark)?, kind, members.len())?;
        self.settle()
    }

    /// Apache comes back under the tested server and must be brought up to date in this way.
    fn teach(&mut self, member: usize, kind: Kind) -> Result<()> {
        self.bring_up(member, kind)?;
        self.settle()
    }

    fn bring_up(&mut self, member: usize, kind: Kind) -> Result<()> {
        ensure!(self.leader()? == TESTED, "Zebu does not lead");
        let (mark, learned) = (self.fleet.log_mark(TESTED), self.fleet.log_mark(member));
        self.fleet.start(member)?;
        self.fleet.await_service()?;
        ensure!(self.leader()? == TESTED, "the leader has changed");
        let received = seen::received(&self.fleet, member, learned)?;
        ensure!(received.of(kind) > 0, "{} took {received}, not a {kind}", self.fleet.server(member).name());
        let sent = seen::sent(&self.fleet, TESTED, mark)?;
        ensure!(sent.of(kind) > 0, "Zebu sent {sent}, not a {kind}");
        self.table.add(&self.release, Part::Leader, &sent);
        Ok(())
    }

    /// The leader tells the same story.
    fn also_said(&self, sent: Seen, kind: Kind, times: usize) -> Result<()> {
        ensure!(sent.of(kind) >= times, "the leader says that it sent {sent}, not {times} {kind}");
        Ok(())
    }

    /// A write gets everywhere, and no digest was wrong.
    fn settle(&mut self) -> Result<()> {
        let leader = self.leader()?;
        self.write(leader, FEW)?;
        agree::no_mismatches(&self.fleet)
    }

    /// The leader logs a proposal that no follower receives. Then all servers stop.
    fn leave_uncommitted(&mut self, leader: usize, others: &[usize]) -> Result<()> {
        let marker = format!("uncommitted-{leader}");
        let mut client = Client::open(self.fleet.address(leader), SESSION_MS)?;
        self.fleet.await_equal_zxids()?;
        for &other in others {
            self.fleet.signal(other, Signal::Stop)?;
        }
        client.queue_write(&WriteRequest::Create(create("/uncommitted", 0, &marker)));
        client.flush()?;
        self.fleet.await_in_log(leader, marker.as_bytes())?;
        self.fleet.signal(leader, Signal::Kill)?;
        for &other in others {
            self.fleet.signal(other, Signal::Kill)?;
            ensure!(!self.fleet.is_in_log(other, marker.as_bytes())?, "member {} has it", other + 1);
        }
        Ok(())
    }
}

/// Shows that the poison is one: sent to Apache itself, it stops an ensemble of it.
pub(super) fn poison_is_poison(home: &Path, edition: &Edition) -> Result<bool> {
    let apache = Server::Apache(edition.clone());
    let seats = vec![(apache.clone(), Vote::Participant), (apache, Vote::Participant)];
    let mut fleet = Fleet::new(home, seats)?;
    (0..fleet.len()).try_for_each(|index| fleet.start(index))?;
    let (leader, _) = fleet.await_service()?;
    poison::stops_apache(&fleet, leader)
}
