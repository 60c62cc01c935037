//! The phases of a run, and what has to be true at their ends.

use zebu_proto::SessionId;

use super::{Phase, World};
use crate::check::g09_timeliness::late;
use crate::check::g18_session_expiry;
use crate::client::Zeal;
use crate::history::End;
use crate::network::{Farewell, Host};
use crate::queue::{Event, Time};
use crate::server::process::Service;

impl World {
    pub(super) fn next_phase(&mut self) {
        match self.phase {
            Phase::Safety => self.heal(),
            Phase::Liveness => {
                let waiting = self.unanswered();
                if !waiting.is_empty() {
                    let text = format!("not answered in time: {}", waiting.join("; "));
                    self.core.judge.note(Err(late(text)));
                }
                self.converge();
            }
            Phase::Convergence => {
                let behind = self.behind();
                if !behind.is_empty() {
                    let text = format!("not caught up in time: {}", behind.join("; "));
                    self.core.judge.note(Err(late(text)));
                }
                let left = self.forgotten_sessions();
                if !left.is_empty() {
                    self.core.judge.note(Err(g18_session_expiry::left(&left)));
                }
                self.phase = Phase::Over;
            }
            Phase::Over => {}
        }
    }

    /// Ends a phase as soon as everything is as it should be.
    pub(super) fn look_for_end(&mut self) {
        // Looking at everything is not free.
        if !self.core.counts.events.is_multiple_of(64) {
            return;
        }
        match self.phase {
            Phase::Liveness => {
                if self.unanswered().is_empty() {
                    self.converge();
                }
            }
            Phase::Convergence => {
                if self.behind().is_empty() && self.forgotten_sessions().is_empty() {
                    self.phase = Phase::Over;
                }
            }
            Phase::Safety | Phase::Over => {}
        }
    }

    /// Leaves a majority alone, with all clients; the other servers stay away.
    fn heal(&mut self) {
        self.phase = Phase::Liveness;
        self.core.traps.clear();
        let shape = self.core.shape.clone();
        let Some(healed) = self.draw_healed() else {
            self.core.tell(format_args!("NOBODY CAN BE HEALED"));
            self.core.counts.unhealed += 1;
            self.phase = Phase::Over;
            return;
        };
        self.healed = healed;
        self.core.tell(format_args!("HEAL {:?}", self.healed));
        let now = self.core.now;
        let mut hosts: Vec<Host> = self.healed.iter().map(|&server| Host(server)).collect();
        hosts.extend((0..shape.clients).map(|client| self.client_host(client)));
        self.core.network.heal_all(&hosts, now, &mut self.core.queue);
        for server in 0..self.servers.len() {
            let is_healed = self.healed.contains(&server);
            let machine = &mut self.servers[server];
            machine.speed_up(Time::MAX);
            machine.limit_syncs(usize::MAX);
            machine.hung_until = 0;
            machine.full_until = 0;
            machine.unreadable_after = None;
            machine.resume(now);
            machine.down_until = now;
            if let Some(process) = machine.process() {
                process.disk.calm_down();
            }
            if !is_healed {
                machine.retired = true;
                machine.end_process();
                let farewell = if server % 2 == 0 { Farewell::Close } else { Farewell::Silence };
                self.core.network.host_down(Host(server), farewell, now, &mut self.core.queue);
            } else if !machine.is_up() {
                let incarnation = machine.incarnation;
                self.core.push(now + 1, Event::Start { server, incarnation });
            }
        }
        for client in 0..self.clients.len() {
            self.clients[client].go_on(now);
            self.clients[client].zeal = Zeal::Idle;
        }
        self.phase_ends = now + shape.patience();
        self.core.push(self.phase_ends, Event::NextPhase);
        self.ask_again();
    }

    /// Every client makes its last calls, again if they got lost.
    fn ask_again(&mut self) {
        for client in 0..self.clients.len() {
            self.last_calls(client);
        }
    }

    /// What is not answered yet. A client whose last calls were lost makes them again.
    fn unanswered(&mut self) -> Vec<String> {
        let mut waiting = Vec::new();
        for client in 0..self.clients.len() {
            let mine = |call: &&crate::history::Call| call.client == client;
            let last = self.core.judge.calls.iter().rfind(mine);
            match last.and_then(|call| call.end.clone()) {
                Some(End::Answered { .. }) => {}
                Some(End::Failed) => {
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

    fn converge(&mut self) {
        self.core.tell(format_args!("CONVERGE"));
        self.phase = Phase::Convergence;
        self.phase_ends = self.core.now + self.core.shape.patience();
        self.core.push(self.phase_ends, Event::NextPhase);
    }

    /// Sessions that are open although no client holds them.
    fn forgotten_sessions(&self) -> Vec<SessionId> {
        let is_held = |session: &SessionId| {
            self.clients.iter().any(|client| client.session.status().session.id == *session)
        };
        self.core.judge.ledger.model.open_sessions().filter(|session| !is_held(session)).collect()
    }

    /// Servers of the healed majority that do not serve, or do not hold everything.
    fn behind(&mut self) -> Vec<String> {
        let last = self.core.judge.ledger.last();
        let list = self.core.judge.ledger.chronicle.last().version;
        let mut behind = Vec::new();
        for server in self.expected() {
            let Some(process) = self.servers[server].process() else {
                behind.push(format!("server {server} is down"));
                continue;
            };
            let applied = process.replica.last_zxid();
            if process.service == Service::Closed {
                behind.push(format!("server {server} does not serve: {:?}", process.node.status()));
            } else if applied.0 != last {
                behind.push(format!("server {server} is at {applied}, not at {last:#x}"));
            } else if process.list_version().is_some_and(|version| version < list) {
                behind.push(format!("server {server} goes by another list than {list:#x}"));
            }
        }
        behind
    }
}
