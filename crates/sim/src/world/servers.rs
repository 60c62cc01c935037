//! Servers of a run: how they start, what reaches them, how they end.

use super::World;
use crate::core::Core;
use crate::network::{Farewell, Host};
use crate::queue::{Event, Time};
use crate::server::disk::Power;
use crate::server::process::{Death, Process};
use crate::server::{Life, start};

impl World {
    /// Until when a server does nothing, if it does nothing now.
    pub(super) fn paused(&self, server: usize) -> Option<Time> {
        let until = self.servers[server].paused_until;
        (until > self.core.now).then_some(until)
    }

    /// Lets a process do something, and ends it if it cannot go on.
    pub(super) fn with_process(
        &mut self,
        server: usize,
        action: impl FnOnce(&mut Process, &mut Core) -> Result<(), Death>,
    ) {
        let Life::Up(process) = &mut self.servers[server].life else { return };
        if let Err(death) = action(process, &mut self.core) {
            self.dies(server, &death);
        }
    }

    /// A process ends by itself; it is started again after a while.
    fn dies(&mut self, server: usize, death: &Death) {
        self.core.tell(format_args!("s{server} dies: {death}"));
        let power = self.servers[server].process().map_or(Power::On, |process| process.disk.power());
        if let Death::Commit(reason) = death {
            let text = format!("server {server} cannot go on: {reason}");
            self.core.judge.note(Err(crate::history::Violation::new("zab_integrity", text)));
        }
        let down = self.core.shape.tick() * 3;
        match power {
            Power::On => self.kill(server, down),
            Power::Off => {
                let survives = self.random.draw();
                self.lose_power(server, down, survives);
            }
        }
        // After an error of a sync the system may have dropped what it could not write.
        if power == Power::On && self.random.permille(500) {
            let survives = self.random.draw();
            self.servers[server].lose_power(survives);
        }
    }

    /// The process ends; the machine stays.
    pub(super) fn kill(&mut self, server: usize, down: Time) {
        if !self.servers[server].is_up() {
            return;
        }
        self.core.tell(format_args!("s{server} is killed"));
        self.servers[server].end_process();
        let now = self.core.now;
        self.core.network.host_down(Host(server), Farewell::Close, now, &mut self.core.queue);
        self.restart_later(server, down);
    }

    pub(super) fn lose_power(&mut self, server: usize, down: Time, survives: u64) {
        self.core.tell(format_args!("s{server} loses its power"));
        self.servers[server].lose_power(survives);
        let now = self.core.now;
        self.core.network.host_down(Host(server), Farewell::Silence, now, &mut self.core.queue);
        self.restart_later(server, down);
    }

    fn restart_later(&mut self, server: usize, down: Time) {
        let now = self.core.now;
        let at = now + down.max(1);
        self.core.judge.quiet.disturb_server(server, at);
        let machine = &mut self.servers[server];
        machine.resume(now);
        machine.down_until = machine.down_until.max(at);
        let incarnation = machine.incarnation;
        self.core.push(machine.down_until, Event::Start { server, incarnation });
    }

    /// Starts a server that is down.
    pub(super) fn start(&mut self, server: usize, incarnation: u32) {
        let now = self.core.now;
        let machine = &mut self.servers[server];
        if machine.is_up() || machine.retired || machine.incarnation != incarnation {
            return;
        }
        if now < machine.down_until {
            return self.core.push(machine.down_until, Event::Start { server, incarnation });
        }
        machine.incarnation += 1;
        let (incarnation, clocks) = (machine.incarnation, machine.clocks);
        let disk = machine.moody_disk(now);
        self.core.counts.starts += 1;
        self.core.tell(format_args!("s{server} starts"));
        match start::start(server, incarnation, disk, clocks, &mut self.core) {
            Ok(mut process) => {
                self.servers[server].hinder(&mut process);
                self.servers[server].life = Life::Up(Box::new(process));
            }
            Err(death) => {
                self.core.tell(format_args!("s{server} does not start: {death}"));
                self.restart_later(server, self.core.shape.tick() * 3);
            }
        }
    }

    /// Events of one process: those of an earlier life are lost.
    pub(super) fn server_event(&mut self, event: Event) {
        let (server, incarnation) = match event {
            Event::ServerWake { server, incarnation }
            | Event::ServerTurn { server, incarnation }
            | Event::DiskDone { server, incarnation, .. }
            | Event::FilesWritten { server, incarnation }
            | Event::SnapshotStep { server, incarnation, .. } => (server, incarnation),
            _ => return,
        };
        if self.servers[server].incarnation != incarnation || !self.servers[server].is_up() {
            return;
        }
        if let Some(at) = self.paused(server) {
            return self.core.push(at, event);
        }
        let hung = self.servers[server].hung_until;
        if matches!(event, Event::DiskDone { .. }) && hung > self.core.now {
            return self.core.push(hung, event);
        }
        self.with_process(server, |process, core| match event {
            Event::ServerWake { .. } => {
                if process.wake_at.is_some_and(|at| at <= core.now) {
                    process.wake(core)?;
                }
                Ok(())
            }
            Event::ServerTurn { .. } => process.take_turn(core),
            Event::DiskDone { work, .. } => process.disk_done(work, core),
            Event::FilesWritten { .. } => {
                process.write_files(core);
                Ok(())
            }
            Event::SnapshotStep { snapshot, .. } => {
                process.snapshot_step(snapshot, core);
                Ok(())
            }
            _ => Ok(()),
        });
    }
}
