//! Servers of a run: start, events and end.

use super::World;
use crate::context::SimContext;
use crate::network::{CloseNotice, Host};
use crate::queue::{SimEvent, VirtualTime};
use crate::server::disk::PowerState;
use crate::server::process::{Death, Process};
use crate::server::{ServerLife, start};

impl World {
    /// Until when a server is paused, if it is paused now.
    pub(super) fn paused(&self, server: usize) -> Option<VirtualTime> {
        let until = self.servers[server].paused_until;
        (until > self.core.now).then_some(until)
    }

    /// Runs a step of a process, and ends the process if the step fails.
    pub(super) fn with_process(
        &mut self,
        server: usize,
        action: impl FnOnce(&mut Process, &mut SimContext) -> Result<(), Death>,
    ) {
        let ServerLife::Up(process) = &mut self.servers[server].life else { return };
        if let Err(death) = action(process, &mut self.core) {
            self.dies(server, &death);
        }
    }

    /// A process ends by itself; it is restarted after a while.
    fn dies(&mut self, server: usize, death: &Death) {
        self.core.trace_line(format_args!("s{server} dies: {death}"));
        if let Death::Stopped = death {
            return self.kill(server, self.core.parameters.tick());
        }
        let power = self.servers[server].process().map_or(PowerState::On, |process| process.disk.power());
        if let Death::Commit(reason) = death {
            let text = format!("server {server} cannot go on: {reason}");
            self.core.checker.report(Err(crate::history::Violation::new("zab_integrity", text)));
        }
        let down = self.core.parameters.tick() * 3;
        match power {
            PowerState::On => self.kill(server, down),
            PowerState::Off => {
                let survives = self.random.draw();
                self.lose_power(server, down, survives);
            }
        }
        // After a failed sync the system may have dropped dirty pages.
        if power == PowerState::On && self.random.permille(500) {
            let survives = self.random.draw();
            self.servers[server].lose_power(survives);
        }
    }

    /// The process ends; the machine stays.
    pub(super) fn kill(&mut self, server: usize, down: VirtualTime) {
        if !self.servers[server].is_up() {
            return;
        }
        self.core.trace_line(format_args!("s{server} is killed"));
        self.servers[server].end_process();
        let now = self.core.now;
        self.core.network.host_down(Host(server), CloseNotice::Close, now, &mut self.core.queue);
        self.restart_later(server, down);
    }

    pub(super) fn lose_power(&mut self, server: usize, down: VirtualTime, survives: u64) {
        self.core.trace_line(format_args!("s{server} loses its power"));
        self.servers[server].lose_power(survives);
        let now = self.core.now;
        self.core.network.host_down(Host(server), CloseNotice::Silence, now, &mut self.core.queue);
        self.restart_later(server, down);
    }

    fn restart_later(&mut self, server: usize, down: VirtualTime) {
        let now = self.core.now;
        let at = now + down.max(1);
        self.core.checker.quiet.disturb_server(server, at);
        let machine = &mut self.servers[server];
        machine.resume(now);
        machine.down_until = machine.down_until.max(at);
        let incarnation = machine.incarnation;
        self.core.push(machine.down_until, SimEvent::Start { server, incarnation });
    }

    /// Starts a server that is down.
    pub(super) fn start(&mut self, server: usize, incarnation: u32) {
        let now = self.core.now;
        let machine = &mut self.servers[server];
        if machine.is_up() || machine.retired || machine.incarnation != incarnation {
            return;
        }
        if now < machine.down_until {
            return self.core.push(machine.down_until, SimEvent::Start { server, incarnation });
        }
        machine.incarnation += 1;
        let (incarnation, clocks) = (machine.incarnation, machine.clocks);
        let disk = machine.next_disk(now);
        self.core.counts.starts += 1;
        self.core.trace_line(format_args!("s{server} starts"));
        match start::start(server, incarnation, disk, clocks, &mut self.core) {
            Ok(mut process) => {
                self.servers[server].hinder(&mut process);
                self.servers[server].life = ServerLife::Up(Box::new(process));
            }
            Err(death) => {
                self.core.trace_line(format_args!("s{server} does not start: {death}"));
                self.restart_later(server, self.core.parameters.tick() * 3);
            }
        }
    }

    /// Events of one process: those of an earlier incarnation are dropped.
    pub(super) fn server_event(&mut self, event: SimEvent) {
        let (server, incarnation) = match event {
            SimEvent::ServerWake { server, incarnation }
            | SimEvent::ServerTurn { server, incarnation }
            | SimEvent::DiskDone { server, incarnation, .. }
            | SimEvent::FilesWritten { server, incarnation }
            | SimEvent::RoomLook { server, incarnation }
            | SimEvent::FeedStep { server, incarnation }
            | SimEvent::StreamSlice { server, incarnation, .. }
            | SimEvent::SnapshotStep { server, incarnation, .. } => (server, incarnation),
            _ => return,
        };
        if self.servers[server].incarnation != incarnation || !self.servers[server].is_up() {
            return;
        }
        if let Some(at) = self.paused(server) {
            // What the disk has done keeps its order.
            let is_timer = matches!(event, SimEvent::ServerWake { .. });
            let at = if is_timer { self.core.taken_up(at, u64::MAX) } else { at };
            return self.core.push(at, event);
        }
        let hung = self.servers[server].hung_until;
        if matches!(event, SimEvent::DiskDone { .. }) && hung > self.core.now {
            return self.core.push(hung, event);
        }
        self.with_process(server, |process, core| match event {
            SimEvent::ServerWake { .. } => {
                if process.wake_at.is_some_and(|at| at <= core.now) {
                    process.wake(core)?;
                }
                Ok(())
            }
            SimEvent::ServerTurn { .. } => process.take_turn(core),
            SimEvent::DiskDone { work, .. } => process.disk_done(work, core),
            SimEvent::StreamSlice { connection, .. } => process.stream_slice(connection, core),
            SimEvent::RoomLook { .. } => process.room_look(core),
            SimEvent::FeedStep { .. } => {
                process.run_feeds(core);
                Ok(())
            }
            SimEvent::FilesWritten { .. } => {
                process.write_files(core);
                Ok(())
            }
            SimEvent::SnapshotStep { snapshot, .. } => {
                process.snapshot_step(snapshot, core);
                Ok(())
            }
            _ => Ok(()),
        });
    }
}
