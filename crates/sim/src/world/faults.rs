//! Faults of the plan: how they begin and end.

use std::path::PathBuf;

use zebu_storage::crash_disk::{Crash, CrashDisk};

use super::{RunPhase, World};
use crate::check::purged_files::valid_snapshots;
use crate::context::Breakpoint;
use crate::network::{CloseNotice, Host};
use crate::plan::{Fault, LEADER, OBSERVER_MASTER, RottenFile};
use crate::queue::{SimEvent, VirtualTime};
use crate::server::bit_rot;
use crate::server::start::directories;

impl World {
    /// The fault with the current leader as its server. The end of a fault must mean the same server.
    fn resolved(&mut self, index: usize) -> Fault {
        let found = self.servers.iter_mut().position(|it| it.process().is_some_and(|it| it.leads.is_some()));
        let leader = found.unwrap_or(0);
        let master =
            self.servers.iter_mut().position(|it| it.process().is_some_and(|it| it.serves_observers()));
        let master = master.unwrap_or(leader);
        let resolve = |server: &mut usize| match *server {
            LEADER => *server = leader,
            OBSERVER_MASTER => *server = master,
            _ => {}
        };
        let host = |host: &mut Host| resolve(&mut host.0);
        let fault = &mut self.plan[index].fault;
        match fault {
            Fault::Kill { server, .. }
            | Fault::PowerFailsInDiskWork { server, .. }
            | Fault::Pause { server, .. }
            | Fault::Suspend { server, .. }
            | Fault::Freeze { server, .. }
            | Fault::ClockJump { server, .. }
            | Fault::DiskError { server, .. }
            | Fault::ReadError { server, .. }
            | Fault::DiskFull { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::DiskLags { server, .. }
            | Fault::DiskHangs { server, .. }
            | Fault::SlowSnapshots { server, .. }
            | Fault::FailingSnapshots { server, .. }
            | Fault::RotBeforeTruncate { server, .. }
            | Fault::Drain { server }
            | Fault::BitRot { server, .. } => resolve(server),
            Fault::PowerLoss { servers, .. } | Fault::LittleRoom { servers, .. } => {
                servers.iter_mut().for_each(resolve);
            }
            Fault::Cut { paths, .. } => {
                for (from, to) in paths.iter_mut() {
                    host(from);
                    host(to);
                }
                paths.retain(|(from, to)| from != to);
            }
            Fault::Reset { one, other } | Fault::Slow { one, other, .. } => {
                host(one);
                host(other);
            }
            Fault::EndAtStep { .. }
            | Fault::ClientStalls { .. }
            | Fault::ClientSuspends { .. }
            | Fault::ClientVanishes { .. }
            | Fault::ClientMoves { .. }
            | Fault::ConfigAcl { .. } => {}
            Fault::Reconfig { change, .. } => change.resolve(LEADER, leader),
        }
        fault.clone()
    }

    /// Stops the servers that have reached a breakpoint.
    pub(super) fn end_servers_at_breakpoints(&mut self) {
        for (server, index) in std::mem::take(&mut self.core.hit) {
            if let Fault::EndAtStep { down, survives, .. } = self.plan[index].fault {
                self.core.trace_line(format_args!("TRAP of s{server}"));
                match survives {
                    None => self.kill(server, down),
                    Some(survives) => self.lose_power(server, down, survives),
                }
            }
        }
    }

    /// A fault begins.
    pub(super) fn inject(&mut self, index: usize) {
        if self.phase != RunPhase::Safety {
            return;
        }
        let fault = self.resolved(index);
        self.core.trace_line(format_args!("FAULT {fault:?}"));
        self.injected.push(fault.kind());
        self.core.mix(index as u64);
        let now = self.core.now;
        match fault {
            Fault::Kill { server, down } => self.kill(server, down),
            Fault::PowerLoss { servers, down, survives } => {
                for server in servers {
                    self.lose_power(server, down, survives.rotate_left(server as u32));
                }
            }
            Fault::PowerFailsInDiskWork { server, operations } => {
                if let Some(process) = self.servers[server].process() {
                    process.disk.power_off_after(operations);
                }
            }
            Fault::Pause { server, lasts } => {
                let machine = &mut self.servers[server];
                machine.paused_until = machine.paused_until.max(now + lasts);
                self.excuse_stopped(server, now + lasts);
            }
            Fault::Suspend { server, lasts } => {
                self.servers[server].suspend(now, now + lasts);
                self.excuse_stopped(server, now + lasts);
            }
            Fault::Freeze { server, lasts } => self.freeze(server, now + lasts),
            Fault::ClockJump { server, by_ms } => {
                self.servers[server].shift_wall_clock(by_ms);
            }
            Fault::Cut { paths, lasts, .. } => {
                for (from, to) in paths {
                    self.core.network.cut(from, to);
                    self.disturb(from, now + lasts);
                    self.disturb(to, now + lasts);
                }
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::Reset { one, other } => {
                self.disturb(one, now);
                self.disturb(other, now);
                for connection in self.core.network.between(one, other) {
                    self.core.network.reset(connection, now, &mut self.core.queue);
                }
            }
            Fault::Slow { one, other, extra, lasts } => {
                self.slow_down([(one, other), (other, one)], extra, now + lasts + extra);
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::DiskError { server, operations } => {
                if let Some(process) = self.servers[server].process() {
                    process.disk.fail_after(operations);
                }
            }
            Fault::ReadError { server, operations, down } => {
                self.servers[server].unreadable_after = Some(operations);
                if let Some(process) = self.servers[server].process() {
                    process.disk.fail_reads_after(operations);
                }
                if let Some(down) = down {
                    self.kill(server, down);
                }
            }
            other => self.inject_rest(index, other),
        }
    }

    /// Stops a machine with all its clocks.
    fn freeze(&mut self, server: usize, until: VirtualTime) {
        let now = self.core.now;
        let machine = &mut self.servers[server];
        machine.paused_until = machine.paused_until.max(until);
        machine.clocks.freeze(now, until);
        let clocks = machine.clocks;
        if let Some(process) = machine.process() {
            process.clocks = clocks;
        }
        self.excuse_stopped(server, until);
    }

    /// A stopped server may show old data, and its clients may lose their connections.
    fn excuse_stopped(&mut self, server: usize, until: VirtualTime) {
        self.core.checker.served_ages.excuse(server, until);
        self.core.checker.quiet.disturb_server(server, until);
    }

    fn slow_down(&mut self, paths: [(Host, Host); 2], extra: VirtualTime, excused_until: VirtualTime) {
        for (from, to) in paths {
            self.core.network.slow_down(from, to, extra);
            self.disturb(from, excused_until);
            if from.0 < self.servers.len() {
                self.core.checker.served_ages.excuse(from.0, excused_until);
            }
        }
    }

    fn inject_rest(&mut self, index: usize, fault: Fault) {
        let now = self.core.now;
        match fault {
            Fault::Drain { server } => {
                let time = self.core.parameters.drain_time();
                self.core.checker.quiet.disturb_server(server, now + time);
                self.with_process(server, |process, core| process.begin_drain(time, core));
            }
            Fault::DiskFull { server, lasts } => {
                self.servers[server].full_until = now + lasts;
                if let Some(process) = self.servers[server].process() {
                    process.disk.set_full(true);
                }
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::LittleRoom { servers, free, lasts } => {
                self.core.checker.room.limit(now + lasts);
                for server in servers {
                    self.limit_room(server, Some(free));
                }
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::DiskLags { server, extra, batches, lasts } => {
                self.servers[server].slow_down(extra);
                self.servers[server].limit_syncs(batches);
                self.core.checker.quiet.disturb_server(server, now + lasts + extra);
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::SlowDisk { server, extra, lasts } => {
                self.servers[server].slow_down(extra);
                self.core.checker.quiet.disturb_server(server, now + lasts + extra);
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::DiskHangs { server, lasts } => {
                let machine = &mut self.servers[server];
                machine.hung_until = machine.hung_until.max(now + lasts);
                self.core.checker.quiet.disturb_server(server, now + lasts);
            }
            Fault::SlowSnapshots { server, extra, lasts } => {
                if let Some(process) = self.servers[server].process() {
                    process.snapshot_pause = extra;
                }
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::FailingSnapshots { server, operations, cause, lasts } => {
                if let Some(process) = self.servers[server].process() {
                    process.disk.fail_snapshots_after(operations, cause);
                }
                self.core.push(now + lasts, SimEvent::FaultEnds { index });
            }
            Fault::RotBeforeTruncate { server, place } => {
                self.core.truncate_rot.insert(server, place);
            }
            Fault::BitRot { server, file, place, down } => self.rot(server, file, place, down),
            Fault::ClientStalls { client, lasts } => {
                let it = &mut self.clients[client];
                it.stalled_until = it.stalled_until.max(now + lasts);
                self.core.checker.quiet.disturb_client(client, now + lasts);
            }
            Fault::ClientSuspends { client, lasts } => {
                self.clients[client].suspend(now, now + lasts);
                self.core.checker.quiet.disturb_client(client, now + lasts);
            }
            Fault::EndAtStep { on, when, skip, .. } => {
                self.core.breakpoints.push(Breakpoint { on, when, skip, index })
            }
            Fault::ClientVanishes { client, closes } => self.replace_client(client, closes),
            Fault::ClientMoves { client } => self.move_client(client),
            Fault::Reconfig { client, change, version: asked } => {
                self.request_reconfig(client, change, asked)
            }
            Fault::ConfigAcl { permissions } => self.set_config_acl(permissions),
            _ => {}
        }
    }

    fn limit_room(&mut self, server: usize, free: Option<u64>) {
        self.servers[server].free = free;
        if let Some(process) = self.servers[server].process() {
            process.disk.limit_growth(free);
        }
    }

    fn disturb(&mut self, host: Host, until: u64) {
        if host.0 < self.servers.len() {
            self.core.checker.quiet.disturb_server(host.0, until);
        } else {
            self.core.checker.quiet.disturb_client(host.0 - self.servers.len(), until);
        }
    }

    /// A fault ends by itself.
    pub(super) fn end_fault(&mut self, index: usize) {
        let now = self.core.now;
        match self.plan[index].fault.clone() {
            // The second phase has removed the cuts among the healed servers, and keeps the others.
            Fault::Cut { paths, .. } if self.phase == RunPhase::Safety => {
                for (from, to) in paths {
                    self.core.network.heal(from, to, now, &mut self.core.queue);
                }
            }
            Fault::Slow { one, other, extra, .. } => {
                self.core.network.speed_up(one, other, extra);
                self.core.network.speed_up(other, one, extra);
            }
            Fault::DiskFull { server, .. } => {
                if self.servers[server].full_until <= now
                    && let Some(process) = self.servers[server].process()
                {
                    process.disk.set_full(false);
                }
            }
            Fault::LittleRoom { servers, .. } => {
                for server in servers {
                    self.limit_room(server, None);
                }
            }
            Fault::SlowDisk { server, extra, .. } => {
                self.servers[server].speed_up(extra);
            }
            Fault::SlowSnapshots { server, .. } => {
                if let Some(process) = self.servers[server].process() {
                    process.snapshot_pause = 0;
                }
            }
            Fault::FailingSnapshots { server, .. } => {
                if let Some(process) = self.servers[server].process() {
                    process.disk.write_snapshots_again();
                }
            }
            Fault::DiskLags { server, extra, .. } => {
                self.servers[server].speed_up(extra);
                self.servers[server].limit_syncs(usize::MAX);
            }
            _ => {}
        }
    }

    /// The process ends, and one bit changes before it restarts. All data had reached the disk before: damage
    /// in data that a power failure may have torn cannot be told from that.
    fn rot(&mut self, server: usize, file: RottenFile, place: u64, down: u64) {
        self.kill(server, down);
        let machine = &mut self.servers[server];
        machine.disk = machine.disk.after(Crash::KeepAll);
        let prefixes: &[&str] = match file {
            RottenFile::Log => &["log."],
            RottenFile::Snapshot | RottenFile::NewestSnapshot => &["snapshot."],
            RottenFile::Epoch => &["currentEpoch", "acceptedEpoch"],
        };
        let image = machine.disk.image();
        let meant = bit_rot::files(&image, prefixes);
        if meant.is_empty() {
            return;
        }
        let newest = match file {
            RottenFile::NewestSnapshot => {
                let newest = replaceable_snapshot(&machine.disk, self.core.checker.servers[server].installed);
                let Some(newest) = newest else { return };
                Some(newest)
            }
            RottenFile::Log | RottenFile::Snapshot | RottenFile::Epoch => None,
        };
        let chosen = meant.iter().find(|(path, _)| newest.as_ref() == Some(path));
        let (path, bytes) = chosen.copied().unwrap_or(meant[place as usize % meant.len()]);
        let mut bytes = bytes.clone();
        let at = (place >> 16) as usize % bytes.len();
        if file == RottenFile::Log && bit_rot::is_behind_the_note(&image, path, at) {
            self.core.trace_line(format_args!("s{server}: no bit rot where it looks like a power loss"));
            return;
        }
        // A digit that becomes another digit is a valid number: no reader of these files can detect it.
        let bit = if file == RottenFile::Epoch { 6 } else { place >> 8 & 7 };
        bytes[at] ^= 1 << bit;
        machine.disk.put(path, &bytes);
        if file != RottenFile::NewestSnapshot {
            let view = &mut self.core.checker.servers[server];
            view.rotten = true;
            view.forgotten = view.forgotten.max(view.durable);
        }
        self.core.trace_line(format_args!("s{server}: bit rot in {} at {at}", path.display()));
    }

    /// A client's process ends; another one replaces it.
    fn replace_client(&mut self, client: usize, closes: bool) {
        let now = self.core.now;
        let host = self.client_host(client);
        if closes {
            let it = &mut self.clients[client];
            let instant = it.instant(now);
            it.session.close(instant, usize::MAX);
            self.drive(client);
        }
        let session = self.clients[client].session.status().session.id;
        // Its session expires sooner or later, which is correct.
        self.core.checker.session_closing(session);
        self.core.network.host_down(host, CloseNotice::Close, now, &mut self.core.queue);
        for call in 0..self.core.checker.calls.len() {
            let it = &mut self.core.checker.calls[call];
            if it.client == client && it.end.is_none() {
                it.end = Some(crate::history::CallEnd::Failed);
            }
        }
        self.core.checker.disconnected(client);
        let activity = self.clients[client].activity;
        self.clients[client] = self.new_client(client);
        self.clients[client].activity = activity;
        self.drive(client);
    }
}

/// The newest valid snapshot, if an older valid one belongs to the same history: the log after that one has
/// everything of the newest one.
fn replaceable_snapshot(disk: &CrashDisk, installed: i64) -> Option<PathBuf> {
    let directories = directories();
    let valid = valid_snapshots(disk, &directories);
    let [newest, older, ..] = valid[..] else { return None };
    (older.0 >= installed).then(|| directories.snapshots().join(format!("snapshot.{:x}", newest.0)))
}
