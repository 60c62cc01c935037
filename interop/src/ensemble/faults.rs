//! Makes faults happen, and heals them.

use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use zebu_testing::network::Flow;

use super::load::Load;
use super::members::{Members, Signal};
use super::plan::Fault;
use crate::differential::Random;

/// How long a member with a sick disk may go on before it is killed.
const SICK_MAX: Duration = Duration::from_secs(6);

/// What a fault is made of.
pub(super) struct Hand<'a> {
    pub(super) members: &'a mut Members,
    pub(super) load: &'a Load,
    pub(super) random: &'a mut Random,
    /// Members that were killed because a sick disk did not end them.
    pub(super) stubborn: &'a mut usize,
}

impl Hand<'_> {
    /// Makes it happen, and heals it.
    pub(super) fn make(&mut self, fault: Fault) -> Result<()> {
        let leader = self.members.leader().unwrap_or(0);
        let count = self.members.len();
        let follower = (leader + 1 + self.random.below(count - 1)) % count;
        let anyone = self.random.below(count);
        match fault {
            Fault::KillLeader => self.end_and_start(&[leader], Signal::Kill),
            Fault::KillFollower => self.end_and_start(&[follower], Signal::Kill),
            Fault::KillAll => self.end_and_start(&(0..count).collect::<Vec<_>>(), Signal::Kill),
            Fault::RestartLeader => self.end_and_start(&[leader], Signal::Terminate),
            Fault::PauseLeader => self.pause(leader),
            Fault::PauseFollower => self.pause(follower),
            Fault::ClientVanishes => {
                self.load.vanish(self.random.below(1000));
                Ok(())
            }
            Fault::FailingSync => self.failing_sync(anyone),
            Fault::FullDisk => self.full_disk(anyone),
            Fault::IsolateLeader
            | Fault::IsolateFollower
            | Fault::Halves
            | Fault::LeaderNotHeard
            | Fault::LeaderHearsNothing
            | Fault::Bridge
            | Fault::SlowNetwork
            | Fault::ResetAtByte
            | Fault::StalledReader
            | Fault::ClientsCut
            | Fault::ClientsStalled => {
                self.disturb_network(fault, leader, follower);
                // A misfortune seldom comes alone.
                if self.random.percent(25) {
                    self.wait(100, 1000);
                    self.end_and_start(&[anyone], Signal::Kill)?;
                }
                self.wait(500, 4500);
                self.members.network.heal();
                Ok(())
            }
        }
    }

    fn wait(&mut self, low_ms: u64, high_ms: u64) {
        sleep(Duration::from_millis(low_ms + self.random.below((high_ms - low_ms) as usize) as u64));
    }

    fn end_and_start(&mut self, victims: &[usize], signal: Signal) -> Result<()> {
        for &victim in victims {
            self.members.signal(victim, signal)?;
        }
        self.wait(10, 1500);
        for &victim in victims {
            self.members.start(victim)?;
        }
        Ok(())
    }

    fn pause(&mut self, victim: usize) -> Result<()> {
        self.members.signal(victim, Signal::Stop)?;
        self.wait(100, 4500);
        self.members.signal(victim, Signal::Continue)
    }

    /// Every fsync fails: the server has to end, because the state of its disk is unknown.
    fn failing_sync(&mut self, victim: usize) -> Result<()> {
        File::create(self.members.trigger(victim))?;
        let ended = self.members.ends_within(victim, SICK_MAX)?;
        fs::remove_file(self.members.trigger(victim))?;
        self.after_sickness(victim, ended)
    }

    fn full_disk(&mut self, victim: usize) -> Result<()> {
        let Some(disk) = self.members.disk(victim) else { return Ok(()) };
        disk.fill()?;
        let ended = self.members.ends_within(victim, SICK_MAX)?;
        if let Some(disk) = self.members.disk(victim) {
            disk.empty()?;
        }
        self.after_sickness(victim, ended)
    }

    fn after_sickness(&mut self, victim: usize, ended: bool) -> Result<()> {
        if !ended {
            *self.stubborn += 1;
            self.members.signal(victim, Signal::Kill)?;
        }
        self.members.start(victim)
    }

    fn disturb_network(&mut self, fault: Fault, leader: usize, follower: usize) {
        let count = self.members.len();
        let others: Vec<usize> = (0..count).filter(|&it| it != leader).collect();
        let gone = if self.random.percent(50) { Flow::Held } else { Flow::Lost };
        let clients = self.members.network.clients();
        match fault {
            Fault::IsolateLeader | Fault::IsolateFollower => {
                let victim = if fault == Fault::IsolateLeader { leader } else { follower };
                let all: Vec<usize> = (0..count).filter(|&it| it != victim).collect();
                self.separate(&[victim], &all, gone);
                // Sometimes its clients are cut off with it.
                if self.random.percent(40) {
                    self.separate(&[victim], &[clients], gone);
                }
            }
            Fault::Halves => {
                let mut members: Vec<usize> = (0..count).collect();
                members.rotate_left(self.random.below(count));
                let (small, large) = members.split_at(count / 2);
                self.separate(small, large, gone);
            }
            Fault::LeaderNotHeard => self.silence(&[leader], &others, gone),
            Fault::LeaderHearsNothing => self.silence(&others, &[leader], gone),
            Fault::Bridge => {
                let bridge = follower;
                let mut rest: Vec<usize> = (0..count).filter(|&it| it != bridge).collect();
                rest.rotate_left(self.random.below(count - 1));
                let (one, other) = rest.split_at(rest.len() / 2);
                self.separate(one, other, gone);
            }
            Fault::SlowNetwork => {
                let late = Flow::Late(Duration::from_millis(20 + self.random.below(300) as u64));
                let all: Vec<usize> = (0..count).collect();
                self.silence(&all, &all, late);
            }
            Fault::ResetAtByte => {
                for &other in &others {
                    let network = &self.members.network;
                    network.reset_every(leader, other, 100 + self.random.below(8000) as u64);
                    network.reset_every(other, leader, 100 + self.random.below(8000) as u64);
                }
            }
            Fault::StalledReader => self.silence(&[leader], &[follower], Flow::Held),
            Fault::ClientsCut => self.members.network.cut(clients, follower),
            Fault::ClientsStalled => self.separate(&[clients], &[leader], Flow::Held),
            Fault::KillLeader
            | Fault::KillFollower
            | Fault::KillAll
            | Fault::RestartLeader
            | Fault::PauseLeader
            | Fault::PauseFollower
            | Fault::ClientVanishes
            | Fault::FailingSync
            | Fault::FullDisk => {}
        }
    }

    /// Nothing passes between the two sides.
    fn separate(&self, one: &[usize], other: &[usize], flow: Flow) {
        self.silence(one, other, flow);
        self.silence(other, one, flow);
    }

    /// What the ones say does not reach the others as it should.
    fn silence(&self, from: &[usize], to: &[usize], flow: Flow) {
        for &from in from {
            for &to in to.iter().filter(|&&to| to != from) {
                self.members.network.set(from, to, flow);
            }
        }
    }
}
