//! The phases of a run, and the conditions at their ends.

use zebu_proto::SessionId;

use super::{RunPhase, World};
use crate::check::g09_timeliness::late;
use crate::check::{g18_session_expiry, g27_room_on_disk};
use crate::client::ClientActivity;
use crate::history::CallEnd;
use crate::network::{CloseNotice, Host};
use crate::queue::{SimEvent, VirtualTime};
use crate::run_parameters::ROOM;
use crate::server::ServerLife;
use crate::server::process::Service;

impl World {
    pub(super) fn next_phase(&mut self) {
        match self.phase {
            RunPhase::Safety => self.heal(),
            RunPhase::Liveness => {
                let waiting = self.unanswered();
                if !waiting.is_empty() {
                    let text = format!("not answered in time: {}", waiting.join("; "));
                    self.core.checker.report(Err(late(text)));
                }
                self.converge();
            }
            RunPhase::Convergence => {
                let behind = self.behind();
                if !behind.is_empty() {
                    let text = format!("not caught up in time: {}", behind.join("; "));
                    self.core.checker.report(Err(late(text)));
                }
                let lacking = self.without_reserve();
                self.core.checker.report(g27_room_on_disk::check_reserves(&lacking));
                let left = self.forgotten_sessions();
                if !left.is_empty() {
                    self.core.checker.report(Err(g18_session_expiry::left(&left)));
                }
                self.phase = RunPhase::Over;
            }
            RunPhase::Over => {}
        }
    }

    /// Ends a phase as soon as its conditions hold.
    pub(super) fn look_for_end(&mut self) {
        // The check of all conditions is not free.
        if !self.core.counts.events.is_multiple_of(64) {
            return;
        }
        match self.phase {
            RunPhase::Liveness => {
                if self.unanswered().is_empty() {
                    self.converge();
                }
            }
            RunPhase::Convergence => {
                if self.behind().is_empty()
                    && self.forgotten_sessions().is_empty()
                    && self.without_reserve().is_empty()
                {
                    self.phase = RunPhase::Over;
                }
            }
            RunPhase::Safety | RunPhase::Over => {}
        }
    }

    /// Heals a majority and all clients; the other servers stay down.
    fn heal(&mut self) {
        self.phase = RunPhase::Liveness;
        self.core.checker.only_leader_ends = false;
        let now = self.core.now;
        self.core.checker.room.heal(now);
        self.core.breakpoints.clear();
        let shape = self.core.parameters.clone();
        let Some(healed) = self.draw_healed() else {
            self.core.trace_line(format_args!("TOO FEW SERVERS CAN BE HEALED"));
            self.core.counts.unhealed += 1;
            self.phase = RunPhase::Over;
            return;
        };
        self.healed = healed;
        self.core.trace_line(format_args!("HEAL {:?}", self.healed));
        let now = self.core.now;
        let mut hosts: Vec<Host> = self.healed.iter().map(|&server| Host(server)).collect();
        hosts.extend((0..shape.clients).map(|client| self.client_host(client)));
        self.core.network.heal_all(&hosts, now, &mut self.core.queue);
        self.core.truncate_rot.clear();
        for server in 0..self.servers.len() {
            let is_healed = self.healed.contains(&server);
            let machine = &mut self.servers[server];
            machine.speed_up(VirtualTime::MAX);
            machine.limit_syncs(usize::MAX);
            machine.hung_until = 0;
            machine.full_until = 0;
            machine.free = None;
            machine.unreadable_after = None;
            machine.resume(now);
            machine.down_until = now;
            if let Some(process) = machine.process() {
                process.disk.calm_down();
            }
            if !is_healed {
                machine.retired = true;
                machine.end_process();
                let notice = if server % 2 == 0 { CloseNotice::Close } else { CloseNotice::Silence };
                self.core.network.host_down(Host(server), notice, now, &mut self.core.queue);
            } else if !machine.is_up() {
                let incarnation = machine.incarnation;
                self.core.push(now + 1, SimEvent::Start { server, incarnation });
            }
        }
        for client in 0..self.clients.len() {
            self.clients[client].go_on(now);
            self.clients[client].activity = ClientActivity::Idle;
        }
        self.phase_ends = now + shape.healing_time();
        self.core.push(self.phase_ends, SimEvent::NextPhase);
        self.ask_again();
    }

    /// Every client makes its last calls, again if they were lost.
    fn ask_again(&mut self) {
        for client in 0..self.clients.len() {
            self.last_calls(client);
        }
    }

    /// The calls that are not answered yet. A client whose last calls were lost makes them again.
    fn unanswered(&mut self) -> Vec<String> {
        let mut waiting = Vec::new();
        for client in 0..self.clients.len() {
            let mine = |call: &&crate::history::ClientCall| call.client == client;
            let last = self.core.checker.calls.iter().rfind(mine);
            match last.and_then(|call| call.end.clone()) {
                Some(CallEnd::Answered { .. }) if self.is_last_write_refused(client) => {
                    waiting.push(format!("client {client} reached only a read-only server"));
                    let it = &self.clients[client];
                    if it.outstanding == 0 && !it.was_read_only && self.core.now < self.phase_ends {
                        self.last_calls(client);
                    }
                }
                Some(CallEnd::Answered { .. }) => {}
                Some(CallEnd::Failed) => {
                    waiting.push(format!("client {client} has lost its last call"));
                    if self.clients[client].outstanding == 0 && self.core.now < self.phase_ends {
                        self.last_calls(client);
                    }
                }
                None => waiting.push(format!("client {client} waits for its last call")),
            }
        }
        waiting
    }

    /// Whether a read-only server has refused the last write of a client.
    fn is_last_write_refused(&self, client: usize) -> bool {
        if !self.core.parameters.accepts_read_only(client) {
            return false;
        }
        let mine = |call: &&crate::history::ClientCall| call.client == client && call.operation.is_write();
        let last = self.core.checker.calls.iter().rfind(mine);
        let refused = zebu_proto::ErrorCode::NotReadOnly.wire();
        last.is_some_and(|call| matches!(call.end, Some(CallEnd::Answered { code, .. }) if code == refused))
    }

    fn converge(&mut self) {
        self.core.trace_line(format_args!("CONVERGE"));
        self.phase = RunPhase::Convergence;
        self.phase_ends = self.core.now + self.core.parameters.healing_time();
        self.core.push(self.phase_ends, SimEvent::NextPhase);
    }

    /// Sessions that are open although no client holds them: of the ensemble, and of one server.
    fn forgotten_sessions(&self) -> Vec<SessionId> {
        let is_held = |session: &SessionId| {
            self.clients.iter().any(|client| client.session.status().session.id == *session)
        };
        let mut open: Vec<SessionId> = self.core.checker.committed.model.open_sessions().collect();
        for server in &self.healed {
            if let ServerLife::Up(process) = &self.servers[*server].life {
                let local = process.node().local_session_report();
                open.extend(local.into_iter().flat_map(|report| report.buckets).flat_map(|bucket| bucket.1));
            }
        }
        open.retain(|session| !is_held(session));
        open
    }

    /// Servers of the healed majority without a complete reserve on their disks.
    fn without_reserve(&mut self) -> Vec<usize> {
        let lacks = |server: &usize| {
            let keeper = self.servers[*server].process().and_then(|process| process.room.as_ref());
            keeper.is_some_and(|keeper| Some(keeper.reserve_length()) != ROOM.reserve)
        };
        self.healed.iter().copied().filter(lacks).collect()
    }

    /// Servers of the healed majority that do not serve, or lag behind.
    fn behind(&mut self) -> Vec<String> {
        let last = self.core.checker.committed.last();
        let list = self.core.checker.committed.configs.last().version;
        let expected = self.expected();
        let mut behind = self.feeds_behind(&expected, last);
        for server in expected {
            let Some(process) = self.servers[server].process() else {
                behind.push(format!("server {server} is down"));
                continue;
            };
            let applied = process.replica.last_zxid();
            if process.service != Service::Open {
                behind.push(format!("server {server} does not serve: {:?}", process.node().status()));
            } else if applied.0 != last {
                behind.push(format!("server {server} is at {applied}, not at {last:#x}"));
            } else if process.list_version().is_some_and(|version| version < list) {
                behind.push(format!("server {server} goes by another list than {list:#x}"));
            }
        }
        behind
    }
}
