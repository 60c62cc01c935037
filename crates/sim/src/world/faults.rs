//! Faults of the plan as they come and go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zebu_storage::format::durable::{self, DurableNote};
use zebu_storage::format::names::parse_log;
use zebu_storage::model::{Crash, ModelDisk};

use super::{Phase, World};
use crate::check::purged_files::valid_snapshots;
use crate::core::Trap;
use crate::network::{Farewell, Host};
use crate::plan::{Fault, LEADER, Rotten};
use crate::queue::Event;
use crate::server::start::directories;

impl World {
    /// The fault with the leader of the moment in its place. The end of a fault must mean the same server.
    fn resolved(&mut self, index: usize) -> Fault {
        let found = self.servers.iter_mut().position(|it| it.process().is_some_and(|it| it.leads.is_some()));
        let leader = found.unwrap_or(0);
        let host = |host: &mut Host| {
            if host.0 == LEADER {
                host.0 = leader;
            }
        };
        let fault = &mut self.plan[index].fault;
        match fault {
            Fault::Kill { server, .. }
            | Fault::PowerFailsInDiskWork { server, .. }
            | Fault::Pause { server, .. }
            | Fault::Suspend { server, .. }
            | Fault::ClockJump { server, .. }
            | Fault::DiskError { server, .. }
            | Fault::ReadError { server, .. }
            | Fault::DiskFull { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::DiskLags { server, .. }
            | Fault::DiskHangs { server, .. }
            | Fault::BitRot { server, .. } => {
                if *server == LEADER {
                    *server = leader;
                }
            }
            Fault::PowerLoss { servers, .. } => {
                servers.iter_mut().filter(|it| **it == LEADER).for_each(|it| *it = leader);
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
            Fault::Trap { .. }
            | Fault::ClientStalls { .. }
            | Fault::ClientSuspends { .. }
            | Fault::ClientVanishes { .. }
            | Fault::ClientMoves { .. }
            | Fault::ConfigAcl { .. } => {}
            Fault::Reconfig { wish, .. } => wish.resolve(LEADER, leader),
        }
        fault.clone()
    }

    /// A server has made a step at which it was to end.
    pub(super) fn spring_traps(&mut self) {
        for (server, index) in std::mem::take(&mut self.core.sprung) {
            if let Fault::Trap { down, survives, .. } = self.plan[index].fault {
                self.core.tell(format_args!("TRAP of s{server}"));
                match survives {
                    None => self.kill(server, down),
                    Some(survives) => self.lose_power(server, down, survives),
                }
            }
        }
    }

    /// A fault begins.
    pub(super) fn inject(&mut self, index: usize) {
        if self.phase != Phase::Safety {
            return;
        }
        let fault = self.resolved(index);
        self.core.tell(format_args!("FAULT {fault:?}"));
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
                self.core.judge.ages.hinder(server, now + lasts);
                self.core.judge.quiet.disturb_server(server, now + lasts);
            }
            Fault::Suspend { server, lasts } => {
                self.servers[server].suspend(now, now + lasts);
                self.core.judge.ages.hinder(server, now + lasts);
                self.core.judge.quiet.disturb_server(server, now + lasts);
            }
            Fault::ClockJump { server, by_ms } => {
                self.servers[server].shift_wall_clock(by_ms);
            }
            Fault::Cut { paths, lasts, .. } => {
                for (from, to) in paths {
                    self.core.network.cut(from, to);
                    self.disturb(from, now + lasts);
                    self.disturb(to, now + lasts);
                }
                self.core.push(now + lasts, Event::FaultEnds { index });
            }
            Fault::Reset { one, other } => {
                self.disturb(one, now);
                self.disturb(other, now);
                for connection in self.core.network.between(one, other) {
                    self.core.network.reset(connection, now, &mut self.core.queue);
                }
            }
            Fault::Slow { one, other, extra, lasts } => {
                for (from, to) in [(one, other), (other, one)] {
                    self.core.network.slow_down(from, to, extra);
                    self.disturb(from, now + lasts + extra);
                    if from.0 < self.servers.len() {
                        self.core.judge.ages.hinder(from.0, now + lasts + extra);
                    }
                }
                self.core.push(now + lasts, Event::FaultEnds { index });
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

    fn inject_rest(&mut self, index: usize, fault: Fault) {
        let now = self.core.now;
        match fault {
            Fault::DiskFull { server, lasts } => {
                self.servers[server].full_until = now + lasts;
                if let Some(process) = self.servers[server].process() {
                    process.disk.set_full(true);
                }
                self.core.push(now + lasts, Event::FaultEnds { index });
            }
            Fault::DiskLags { server, extra, batches, lasts } => {
                self.servers[server].slow_down(extra);
                self.servers[server].limit_syncs(batches);
                self.core.judge.quiet.disturb_server(server, now + lasts + extra);
                self.core.push(now + lasts, Event::FaultEnds { index });
            }
            Fault::SlowDisk { server, extra, lasts } => {
                self.servers[server].slow_down(extra);
                self.core.judge.quiet.disturb_server(server, now + lasts + extra);
                self.core.push(now + lasts, Event::FaultEnds { index });
            }
            Fault::DiskHangs { server, lasts } => {
                let machine = &mut self.servers[server];
                machine.hung_until = machine.hung_until.max(now + lasts);
                self.core.judge.quiet.disturb_server(server, now + lasts);
            }
            Fault::BitRot { server, file, place, down } => self.rot(server, file, place, down),
            Fault::ClientStalls { client, lasts } => {
                let it = &mut self.clients[client];
                it.stalled_until = it.stalled_until.max(now + lasts);
                self.core.judge.quiet.disturb_client(client, now + lasts);
            }
            Fault::ClientSuspends { client, lasts } => {
                self.clients[client].suspend(now, now + lasts);
                self.core.judge.quiet.disturb_client(client, now + lasts);
            }
            Fault::Trap { on, when, skip, .. } => self.core.traps.push(Trap { on, when, skip, index }),
            Fault::ClientVanishes { client, farewell } => self.replace_client(client, farewell),
            Fault::ClientMoves { client } => self.move_client(client),
            Fault::Reconfig { client, wish, asked } => self.ask_for_members(client, wish, asked),
            Fault::ConfigAcl { permissions } => self.share_config(permissions),
            _ => {}
        }
    }

    fn disturb(&mut self, host: Host, until: u64) {
        if host.0 < self.servers.len() {
            self.core.judge.quiet.disturb_server(host.0, until);
        } else {
            self.core.judge.quiet.disturb_client(host.0 - self.servers.len(), until);
        }
    }

    /// A fault ends by itself.
    pub(super) fn end_fault(&mut self, index: usize) {
        let now = self.core.now;
        match self.plan[index].fault.clone() {
            // The second phase has healed what it wants healed, and keeps the rest.
            Fault::Cut { paths, .. } if self.phase == Phase::Safety => {
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
            Fault::SlowDisk { server, extra, .. } => {
                self.servers[server].speed_up(extra);
            }
            Fault::DiskLags { server, extra, .. } => {
                self.servers[server].speed_up(extra);
                self.servers[server].limit_syncs(usize::MAX);
            }
            _ => {}
        }
    }

    /// The process ends, and one bit changes before it comes back. Everything had reached the disk before: a bit
    /// that changes in what a power failure may have cut short anyway cannot be told from that.
    fn rot(&mut self, server: usize, file: Rotten, place: u64, down: u64) {
        self.kill(server, down);
        let machine = &mut self.servers[server];
        machine.disk = machine.disk.after(Crash::KeepAll);
        let prefixes: &[&str] = match file {
            Rotten::Log => &["log."],
            Rotten::Snapshot | Rotten::NewestSnapshot => &["snapshot."],
            Rotten::Epoch => &["currentEpoch", "acceptedEpoch"],
        };
        let image = machine.disk.image();
        let is_meant = |path: &std::path::Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let meant: Vec<_> =
            image.iter().filter(|(path, bytes)| is_meant(path) && !bytes.is_empty()).collect();
        if meant.is_empty() {
            return;
        }
        let newest = match file {
            Rotten::NewestSnapshot => {
                let newest = replaceable_snapshot(&machine.disk, self.core.judge.servers[server].installed);
                let Some(newest) = newest else { return };
                Some(newest)
            }
            Rotten::Log | Rotten::Snapshot | Rotten::Epoch => None,
        };
        let chosen = meant.iter().find(|(path, _)| newest.as_ref() == Some(path));
        let (path, bytes) = chosen.copied().unwrap_or(meant[place as usize % meant.len()]);
        let mut bytes = bytes.clone();
        let at = (place >> 16) as usize % bytes.len();
        if file == Rotten::Log && is_behind_the_note(&image, path, at) {
            self.core
                .tell(format_args!("s{server}: no bit rot where nobody could tell it from a power loss"));
            return;
        }
        // A digit that becomes another digit is a number like any other: no reader of these files can tell.
        let bit = if file == Rotten::Epoch { 6 } else { place >> 8 & 7 };
        bytes[at] ^= 1 << bit;
        machine.disk.put(path, &bytes);
        if file != Rotten::NewestSnapshot {
            let view = &mut self.core.judge.servers[server];
            view.rotten = true;
            view.forgotten = view.forgotten.max(view.durable);
        }
        self.core.tell(format_args!("s{server}: bit rot in {} at {at}", path.display()));
    }

    /// A client's process ends; another one takes its place.
    fn replace_client(&mut self, client: usize, farewell: bool) {
        let now = self.core.now;
        let host = self.client_host(client);
        if farewell {
            let it = &mut self.clients[client];
            let instant = it.instant(now);
            it.session.close(instant, usize::MAX);
            self.drive(client);
        }
        let session = self.clients[client].session.status().session.id;
        // Its session ends sooner or later, and rightly so.
        self.core.judge.session_closing(session);
        self.core.network.host_down(host, Farewell::Close, now, &mut self.core.queue);
        for call in 0..self.core.judge.calls.len() {
            let it = &mut self.core.judge.calls[call];
            if it.client == client && it.end.is_none() {
                it.end = Some(crate::history::End::Failed);
            }
        }
        self.core.judge.disconnected(client);
        let zeal = self.clients[client].zeal;
        self.clients[client] = self.new_client();
        self.clients[client].zeal = zeal;
        self.drive(client);
    }
}

/// The newest valid snapshot, if an older valid one belongs to the same history: behind it is all that the newest
/// one holds.
fn replaceable_snapshot(disk: &ModelDisk, installed: i64) -> Option<PathBuf> {
    let directories = directories();
    let valid = valid_snapshots(disk, &directories);
    let [newest, older, ..] = valid[..] else { return None };
    (older.0 >= installed).then(|| directories.snapshots().join(format!("snapshot.{:x}", newest.0)))
}

/// Whether a place in a log is where it may have been cut short by a power failure, as far as the note beside it tells:
/// a change there looks like an end that was never written. That two such failures meet is documented, not covered.
fn is_behind_the_note(image: &BTreeMap<PathBuf, Vec<u8>>, path: &Path, at: usize) -> bool {
    let first = |path: &Path| Some(parse_log(path.file_name()?.to_str()?)?.zxid);
    let Some(log) = first(path) else { return false };
    if image.keys().filter_map(|path| first(path)).any(|other| other > log) {
        return false;
    }
    let note = image.get(&path.with_file_name(durable::NAME));
    let noted = match note.and_then(|bytes| DurableNote::decode_file(bytes)) {
        Some(note) if note.log == log => note.offset as usize,
        Some(_) | None => 0,
    };
    let written = image[path].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (noted..written).contains(&at)
}
