//! The clock, the network and the faults of the simulator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zebu_proto::ServerId;
use zebu_proto::quorum::{Notification, Packet};
use zebu_zab::{
    Action, ConfigEffect, DiskCommand, EncodedTxn, HistoryLimits, LearnerPort, LinkId, ObserverSettings,
    PeerEffect, PeerEvent, PeerSettings, QuorumRule, Role, ServingRole, packet_weight,
};

use crate::changes;
use crate::node::{Durable, Server, Work, last_of};

#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) voters: i64,
    pub(crate) observers: i64,
    /// The number of servers, with dynamic reconfiguration; some are not in the first config.
    pub(crate) places: i64,
    /// The expected number of reconfigs.
    pub(crate) changes: u64,
    pub(crate) duration: i64,
    pub(crate) crashes: u64,
    pub(crate) partitions: u64,
    pub(crate) slow_disks: u64,
    pub(crate) observing: ObserverSettings,
    pub(crate) counting: Counting,
}

/// The quorum rules of the reconfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    Heads,
    /// Majorities, or groups with weights.
    Any,
}

impl Plan {
    pub(crate) fn quiet() -> Plan {
        Plan {
            voters: 3,
            observers: 0,
            places: 0,
            changes: 0,
            duration: 5_000,
            crashes: 0,
            partitions: 0,
            slow_disks: 0,
            observing: ObserverSettings::default(),
            counting: Counting::Heads,
        }
    }

    pub(crate) fn rough() -> Plan {
        Plan { duration: 20_000, crashes: 12, partitions: 12, slow_disks: 6, ..Plan::quiet() }
    }
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

enum Wire {
    Packet(Packet),
    Snapshot(Vec<EncodedTxn>),
}

/// One direction of a connection.
struct Channel {
    to: (ServerId, LinkId),
    queue: VecDeque<(i64, Wire)>,
}

enum Happening {
    Event(ServerId, u64, PeerEvent),
    Notification(ServerId, ServerId, Notification),
}

pub(crate) struct World {
    now: i64,
    random: Random,
    plan: Plan,
    servers: BTreeMap<ServerId, Server>,
    /// The number of starts of each server. Events for an earlier start are dropped.
    lives: BTreeMap<ServerId, u64>,
    channels: BTreeMap<(ServerId, LinkId), Channel>,
    soon: BTreeMap<(i64, u64), Happening>,
    sequence: u64,
    accepted: u64,
    cut: BTreeSet<(ServerId, ServerId)>,
    decided: Vec<EncodedTxn>,
    /// The quorum rule of the last committed config.
    quorum: QuorumRule,
    proposals: u64,
    established: BTreeMap<u32, ServerId>,
    trace: bool,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> World {
        let mut random = Random(seed.wrapping_mul(7919) + 1);
        let voters: Vec<ServerId> = (1..=plan.voters).map(ServerId).collect();
        let observers: BTreeSet<ServerId> =
            (plan.voters + 1..=plan.voters + plan.observers).map(ServerId).collect();
        let entries = [1, 3, 20, 1000][random.below(4) as usize];
        let settings = |me: ServerId| PeerSettings {
            me,
            role: if observers.contains(&me) { Role::Observer } else { Role::Participant },
            quorum: QuorumRule::majority(voters.iter().copied()),
            observers: observers.clone(),
            config: "version=0".into(),
            config_version: 0,
            tick_ms: 100,
            init_limit: 10,
            connect_limit: 10,
            sync_limit: 5,
            resend_ms_min: 20,
            resend_ms_max: 200,
            finalize_ms: 20,
            retry_ms: 30,
            history: HistoryLimits { entries, bytes: 1 << 20 },
            send_window: 2000,
            proposal_bytes_max: 1 << 20,
            observer: plan.observing,
            last_counter: zebu_zab::LAST_COUNTER,
            dynamic_config: None,
            slow_disk_ms: None,
            announcement: None,
        };
        let members = |id| {
            let listed = voters.iter().copied().chain((!voters.contains(&id)).then_some(id));
            (plan.places > 0).then(|| changes::first(listed))
        };
        let server = |id| {
            let disk = Durable { members: members(id), ..Durable::default() };
            Server { id, settings: settings(id), disk, running: None }
        };
        let waiting = (plan.voters + 1..=plan.places).map(ServerId);
        let servers: BTreeMap<ServerId, Server> =
            voters.iter().chain(&observers).copied().chain(waiting).map(|id| (id, server(id))).collect();
        let lives = servers.keys().map(|&id| (id, 0)).collect();
        let mut world = World {
            now: 0,
            random,
            plan,
            servers,
            lives,
            channels: BTreeMap::new(),
            soon: BTreeMap::new(),
            sequence: 0,
            accepted: 0,
            cut: BTreeSet::new(),
            decided: Vec::new(),
            quorum: QuorumRule::majority((1..=plan.voters).map(ServerId)),
            proposals: 0,
            established: BTreeMap::new(),
            trace: std::env::var_os("TRACE").is_some(),
        };
        let ids: Vec<_> = world.servers.keys().copied().collect();
        ids.into_iter().for_each(|id| world.start(id));
        world
    }

    pub(crate) fn decided(&self) -> usize {
        self.decided.len()
    }

    /// The number of observers that are connected to a follower.
    pub(crate) fn served_by_followers(&self) -> usize {
        let learns = |server: &&Server| {
            let status = server.running.as_ref().map(|running| running.peer.status());
            status.is_some_and(|status| status.master != status.leader)
        };
        let observers = self.servers.values().filter(|server| server.settings.role == Role::Observer);
        observers.filter(learns).count()
    }

    /// The number of reconfigs that were committed.
    pub(crate) fn changes(&self) -> usize {
        self.decided.iter().filter(|entry| changes::read(entry).is_some()).count()
    }

    /// Runs with faults and load.
    pub(crate) fn disturb(&mut self) {
        let end = self.now + self.plan.duration;
        let chance = |count: u64, plan: &Plan| (count * 1_000_000) / plan.duration as u64;
        while self.now < end {
            self.step();
            let fate = self.random.below(1_000_000);
            let (crash, cut, slow) = (
                chance(self.plan.crashes, &self.plan),
                chance(self.plan.partitions, &self.plan),
                chance(self.plan.slow_disks, &self.plan),
            );
            if fate < crash {
                let id = self.any();
                if self.servers[&id].running.is_some() { self.crash(id) } else { self.start(id) }
            } else if fate < crash + cut {
                let (one, other) = (self.any(), self.any());
                if !self.cut.remove(&(one, other)) {
                    self.cut.insert((one, other));
                }
                if self.random.below(3) == 0 {
                    self.cut.clear();
                }
            } else if fate < crash + cut + slow {
                let id = self.any();
                let hang = 10 + self.random.below(1500) as i64;
                if let Some(running) = &mut self.servers.get_mut(&id).unwrap().running {
                    running.done_at = running.done_at.saturating_add(hang);
                }
            }
            if self.random.below(4) == 0 {
                self.propose();
            }
            if self.random.below(1_000_000) < chance(self.plan.changes, &self.plan) {
                self.change_members();
            }
        }
    }

    /// Requests a reconfig, if a leader can take it.
    fn change_members(&mut self) {
        let leads = |server: &&mut Server| {
            server.running.as_ref().is_some_and(|running| running.peer.next_zxid().is_some())
        };
        let Some(server) = self.servers.values_mut().find(leads) else { return };
        let id = server.id;
        let Some(running) = &mut server.running else { return };
        let Some(entry) = changes::wish(&running.peer, &self.plan, &mut self.random) else { return };
        let mut out = Vec::new();
        running.peer.propose(entry, self.now, &mut out);
        self.perform(id, out);
    }

    /// Ends all faults: the servers must agree and commit again.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        let ids: Vec<_> = self.servers.keys().copied().collect();
        for id in &ids {
            if self.servers[id].running.is_none() {
                self.start(*id);
            }
        }
        for _ in 0..15_000 {
            self.step();
        }
        let before = self.decided.len();
        for _ in 0..3_000 {
            self.step();
            if self.random.below(20) == 0 {
                self.propose();
            }
        }
        for _ in 0..3_000 {
            self.step();
        }
        assert!(self.decided.len() > before, "a healthy ensemble decides");
        for server in self.servers.values() {
            let running = server.running.as_ref().unwrap();
            assert!(running.serving.is_some(), "{:?} serves: {:?}", server.id, running.peer.status());
            assert_eq!(running.state.len(), self.decided.len(), "{:?} has everything", server.id);
        }
    }

    fn any(&mut self) -> ServerId {
        let index = self.random.below(self.servers.len() as u64) as usize;
        *self.servers.keys().nth(index).unwrap()
    }

    fn propose(&mut self) {
        let leading = self
            .servers
            .values_mut()
            .find(|server| server.running.as_ref().is_some_and(|running| running.peer.next_zxid().is_some()));
        let Some(server) = leading else { return };
        let (id, running) = (server.id, server.running.as_mut().unwrap());
        let zxid = running.peer.next_zxid().unwrap();
        self.proposals += 1;
        let entry = EncodedTxn { zxid, bytes: self.proposals.to_be_bytes()[..].into() };
        let mut out = Vec::new();
        running.peer.propose(entry, self.now, &mut out);
        self.perform(id, out);
    }

    fn start(&mut self, id: ServerId) {
        *self.lives.get_mut(&id).unwrap() += 1;
        let mut out = Vec::new();
        self.servers.get_mut(&id).unwrap().start(self.now, &mut out);
        self.perform(id, out);
    }

    fn crash(&mut self, id: ServerId) {
        if self.trace {
            println!("{} {id:?} crashes", self.now);
        }
        let server = self.servers.get_mut(&id).unwrap();
        // A part of the pending disk writes may survive.
        for _ in 0..self.random.below(3) {
            server.finish_work();
        }
        server.running = None;
        let links: Vec<LinkId> =
            self.channels.keys().filter(|(owner, _)| *owner == id).map(|(_, link)| *link).collect();
        links.into_iter().for_each(|link| self.disconnect(id, link));
    }

    /// Removes a connection; the other side gets an event.
    fn disconnect(&mut self, id: ServerId, link: LinkId) {
        let Some(channel) = self.channels.remove(&(id, link)) else { return };
        let (other, other_link) = channel.to;
        if self.channels.remove(&(other, other_link)).is_some() {
            self.soon(other, PeerEvent::LinkDown { link: other_link });
        }
    }

    fn soon(&mut self, to: ServerId, event: PeerEvent) {
        self.sequence += 1;
        let life = self.lives[&to];
        self.soon.insert((self.now + 1, self.sequence), Happening::Event(to, life, event));
    }

    fn is_cut(&self, from: ServerId, to: ServerId) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Advances the time by one millisecond.
    fn step(&mut self) {
        self.now += 1;
        while let Some(entry) = self.soon.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Happening::Event(to, life, event) if self.lives[&to] == life => self.handle(to, event),
                Happening::Event(..) => {}
                Happening::Notification(from, to, notification) => {
                    if !self.is_cut(from, to) {
                        self.handle(to, PeerEvent::Notification { from, notification });
                    }
                }
            }
        }
        self.deliver_packets();
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in ids {
            self.run_disk(id);
            let Some(running) = &mut self.servers.get_mut(&id).unwrap().running else { continue };
            if running.peer.next_deadline() <= self.now {
                let mut out = Vec::new();
                running.peer.timeout(self.now, &mut out);
                self.perform(id, out);
            }
        }
    }

    fn deliver_packets(&mut self) {
        let keys: Vec<_> = self.channels.keys().copied().collect();
        for key in keys {
            while let Some(channel) = self.channels.get_mut(&key) {
                let (to, link) = channel.to;
                let due = channel.queue.front().is_some_and(|(at, _)| *at <= self.now);
                if !due || self.cut.contains(&(key.0, to)) {
                    break;
                }
                let Some((_, wire)) = channel.queue.pop_front() else { break };
                match wire {
                    Wire::Packet(packet) => self.handle(to, PeerEvent::Packet { link, packet }),
                    Wire::Snapshot(state) => {
                        if let Some(running) = &mut self.servers.get_mut(&to).unwrap().running {
                            running.received.insert(link, state);
                        }
                        self.handle(to, PeerEvent::SnapshotReceived { link });
                    }
                }
            }
        }
    }

    fn run_disk(&mut self, id: ServerId) {
        let server = self.servers.get_mut(&id).unwrap();
        let Some(running) = &server.running else { return };
        if running.done_at > self.now {
            return;
        }
        // One sync covers all pending writes.
        let count = running.work.len();
        for _ in 0..count {
            if let Some(event) = self.servers.get_mut(&id).unwrap().finish_work() {
                self.handle(id, event);
            }
        }
        let delay = 1 + self.random.below(10) as i64;
        if let Some(running) = &mut self.servers.get_mut(&id).unwrap().running {
            running.done_at = if running.work.is_empty() { i64::MAX } else { self.now + delay };
        }
    }

    fn handle(&mut self, id: ServerId, event: PeerEvent) {
        let Some(running) = &mut self.servers.get_mut(&id).unwrap().running else { return };
        if self.trace {
            println!("{} {id:?} <- {event:?}", self.now);
        }
        let mut out = Vec::new();
        running.peer.handle(event, self.now, &mut out);
        self.perform(id, out);
    }

    fn perform(&mut self, id: ServerId, actions: Vec<Action>) {
        for action in actions {
            if self.trace {
                println!("{} {id:?} -> {action:?}", self.now);
            }
            self.act(id, action);
        }
    }

    fn act(&mut self, id: ServerId, action: Action) {
        match action {
            Action::Peer(PeerEffect::Notify { to, notification }) => {
                self.sequence += 1;
                let at = self.now + 1 + self.random.below(10) as i64;
                self.soon.insert((at, self.sequence), Happening::Notification(id, to, notification));
            }
            Action::Peer(PeerEffect::Dial { link, to, port }) => self.dial(id, link, to, port),
            Action::Peer(PeerEffect::Send { link, packet }) => {
                self.soon(id, PeerEvent::Sent { link, weight: packet_weight(&packet) });
                self.transmit(id, link, Wire::Packet(packet));
            }
            Action::Peer(PeerEffect::Close { link, .. }) => self.disconnect(id, link),
            Action::Peer(PeerEffect::PauseReading { .. } | PeerEffect::ResumeReading { .. }) => {
                panic!("{id:?} holds more packets than the history limit")
            }
            Action::Peer(PeerEffect::StreamSnapshot { link, zxid }) => {
                let state = self.servers[&id].running.as_ref().unwrap().state.clone();
                assert_eq!(last_of(&state), zxid);
                self.transmit(id, link, Wire::Snapshot(state));
                self.soon(id, PeerEvent::SnapshotSent { link });
            }
            Action::Peer(PeerEffect::ReadLog { link, after, up_to, .. }) => {
                let count = 1 + self.random.below(5) as usize;
                let read = self.servers[&id].read_log(after, up_to, count);
                self.soon(id, PeerEvent::LogRead { link, read });
            }
            Action::Append { io, entry } => self.work(id, io, Work::Append(entry)),
            Action::Disk(DiskCommand::Truncate { io, to }) => self.work(id, io, Work::Truncate(to)),
            Action::Disk(DiskCommand::InstallSnapshot { io, link, tail, zxid }) => {
                let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
                let mut state = running.received.remove(&link).expect("it was received");
                state.extend(tail);
                assert_eq!(last_of(&state), zxid);
                self.work(id, io, Work::Install(state));
            }
            Action::Peer(PeerEffect::LoadReceived { link, entries }) => {
                let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
                running.received.get_mut(&link).expect("it was received").extend(entries);
            }
            Action::Peer(PeerEffect::DiscardSnapshot { link }) => {
                self.servers.get_mut(&id).unwrap().running.as_mut().unwrap().received.remove(&link);
            }
            Action::Disk(DiskCommand::Quarantine { io }) => self.work(id, io, Work::SetAside),
            Action::Disk(DiskCommand::MarkTrusted { io }) => self.work(id, io, Work::MarkTrusted),
            Action::Disk(DiskCommand::SaveAcceptedEpoch { io, epoch }) => {
                self.work(id, io, Work::Accepted(epoch))
            }
            Action::Disk(DiskCommand::SaveCurrentEpoch { io, epoch }) => {
                self.work(id, io, Work::Current(epoch))
            }
            Action::Deliver(entry) => self.deliver(id, entry),
            Action::Load(entry) => {
                let server = self.servers.get_mut(&id).unwrap();
                let in_memory = server.settings.observer.log == zebu_zab::ObserverLog::InMemory;
                assert!(in_memory || server.holds(&entry), "{id:?} loads what its log has");
                let running = server.running.as_mut().unwrap();
                assert_eq!(running.serving, None, "{id:?} does not serve before its history is accepted");
                assert!(entry.zxid > last_of(&running.state), "{id:?} loads in order");
                running.state.push(entry);
            }
            Action::Serve(serving) => self.serve(id, serving),
            Action::StopServing => {
                self.servers.get_mut(&id).unwrap().running.as_mut().unwrap().serving = None;
            }
            Action::FromLearner { .. }
            | Action::LearnerLost { .. }
            | Action::Config(ConfigEffect::PersistProposed { .. })
            | Action::Config(ConfigEffect::LearnAddresses { .. })
            | Action::Report(_) => {}
            Action::Config(ConfigEffect::Activate { configuration }) => {
                let logs = self.servers.values().flat_map(|server| server.disk.log.iter().cloned());
                changes::check(&configuration, &self.decided, logs);
                let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
                running.unwritten = Some(*configuration);
            }
            Action::FromLeader { packet, .. } => {
                if let Packet::Ping { zxid } = packet {
                    let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
                    let mut out = Vec::new();
                    running
                        .peer
                        .send_to_leader(Packet::PingReply { zxid, touched: vec![], room: None }, &mut out);
                    self.perform(id, out);
                }
            }
        }
    }

    fn work(&mut self, id: ServerId, io: zebu_zab::IoId, work: Work) {
        let delay = 1 + self.random.below(10) as i64;
        let now = self.now;
        let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
        if running.work.is_empty() && running.done_at == i64::MAX {
            running.done_at = now + delay;
        }
        running.work.push_back((io, work));
    }

    fn dial(&mut self, id: ServerId, link: LinkId, to: ServerId, port: LearnerPort) {
        let reachable = self.servers[&to].running.is_some() && !self.is_cut(id, to) && !self.is_cut(to, id);
        if !reachable {
            return self.soon(id, PeerEvent::DialFailed { link });
        }
        self.accepted += 1;
        let there = LinkId::accepted(self.accepted);
        self.channels.insert((id, link), Channel { to: (to, there), queue: VecDeque::new() });
        self.channels.insert((to, there), Channel { to: (id, link), queue: VecDeque::new() });
        self.soon(
            to,
            match port {
                LearnerPort::Quorum => PeerEvent::Accepted { link: there },
                LearnerPort::ObserverMaster => PeerEvent::ObserverAccepted { link: there },
            },
        );
        self.soon(id, PeerEvent::Dialed { link });
    }

    fn transmit(&mut self, id: ServerId, link: LinkId, wire: Wire) {
        let at = self.now + 2 + self.random.below(5) as i64;
        if let Some(channel) = self.channels.get_mut(&(id, link)) {
            let at = channel.queue.back().map_or(at, |(last, _)| at.max(*last));
            channel.queue.push_back((at, wire));
        }
    }

    /// Checks agreement: all servers deliver one sequence.
    fn deliver(&mut self, id: ServerId, entry: EncodedTxn) {
        let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
        assert!(entry.zxid > last_of(&running.state), "{id:?} delivers in order");
        running.state.push(entry.clone());
        let index = running.state.len() - 1;
        match self.decided.get(index) {
            Some(decided) => assert_eq!(*decided, entry, "{id:?} delivers what the others did"),
            // Transactions that a restart found in its log are committed with the next one.
            None => {
                let new = running.state[self.decided.len()..].to_vec();
                self.decide(&new);
            }
        }
    }

    /// Checks that a quorum has each committed transaction on disk. A config also needs a quorum of the
    /// previous config.
    fn decide(&mut self, new: &[EncodedTxn]) {
        for entry in new {
            let holders: BTreeSet<ServerId> =
                self.servers.values().filter(|server| server.holds(entry)).map(|server| server.id).collect();
            assert!(
                self.quorum.is_quorum(&holders),
                "{} is decided, and only {holders:?} have it",
                entry.zxid
            );
            if let Some(list) = changes::read(entry) {
                self.quorum = list.quorum();
                assert!(self.quorum.is_quorum(&holders), "{list} is decided, and only {holders:?} have it");
            }
            self.decided.push(entry.clone());
        }
    }

    fn serve(&mut self, id: ServerId, serving: ServingRole) {
        let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
        running.serving = Some(serving);
        let length = running.state.len();
        let common = length.min(self.decided.len());
        assert_eq!(running.state[..common], self.decided[..common], "{id:?} serves the common history");
        if length > self.decided.len() {
            // Transactions that a restart found in its log were committed with the epoch.
            let new = running.state[self.decided.len()..].to_vec();
            self.decide(&new);
        }
        if let ServingRole::Leading { epoch } = serving {
            assert_eq!(length, self.decided.len(), "a leader knows everything that was decided");
            assert_eq!(self.established.insert(epoch, id), None, "one leader in epoch {epoch}");
        }
    }
}
