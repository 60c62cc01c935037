//! An ensemble of three or more nodes for tests, with the Zab peer that ships. Disks are fast, and servers
//! that run and are not partitioned lose no message. All servers share one clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zebu_node::{
    AuthEnforcement, ConnectionId, ConnectionPhase, Effect, LocalSessionSupport, LogBatch, Node,
    NodeSettings, Now, ReconfigSupport, Replica, ServeContext, ServeEffect, SplitMix64,
};
use zebu_proto::client::ConnectRequest;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_tree::access::AclChecks;
use zebu_tree::{Policy, Tree};
use zebu_zab::membership::{ConfigChangeRules, MultiAddress};
use zebu_zab::{
    ConfigEffect, Configuration, DiskCommand, DiskTrust, DynamicConfig, EncodedTxn, HistoryLimits, LinkId,
    LogRead, PeerEffect, PeerEvent, PeerSettings, QuorumRule, RecoveredHistory, Role, ServingRole,
    packet_weight,
};

use crate::client::{Ask, Frame, Reply, hello, ping};
use crate::node_fixture::{NodeFixture, START, read_batch, settings, tree_options};

/// The disk of a server. Each write is durable at once.
#[derive(Clone, Debug)]
struct Disk {
    log: Vec<EncodedTxn>,
    accepted_epoch: i64,
    current_epoch: i64,
    trust: DiskTrust,
}

impl Disk {
    fn last(&self) -> Zxid {
        self.log.last().map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new(tree_options());
        for entry in &self.log {
            let entry = TxnEntry::decode(&entry.bytes).unwrap();
            tree.apply(&entry.header, &entry.txn, &mut |_| ());
        }
        tree
    }
}

/// Time after which a server without a leader becomes read-only.
pub(crate) const READ_ONLY_AFTER_MS: i64 = 2500;

pub(crate) struct Server {
    pub(crate) fixture: NodeFixture,
    disk: Disk,
    pub(crate) serving: Option<ServingRole>,
    /// Whether the server is read-only.
    pub(crate) reads_alone: bool,
    /// The other end of every link.
    links: BTreeMap<LinkId, (ServerId, LinkId)>,
    /// Snapshots received on links.
    received: BTreeMap<LinkId, Vec<EncodedTxn>>,
    /// Numbers of snapshots sent and installed.
    pub(crate) streamed: usize,
    pub(crate) installed: usize,
}

impl Server {
    fn start(
        id: ServerId,
        peer: PeerSettings,
        local_sessions: LocalSessionSupport,
        disk: Disk,
        now: Now,
    ) -> Server {
        let (reconfig, acl_checks) = match peer.dynamic_config {
            Some(_) => (
                ReconfigSupport::Ensemble(ConfigChangeRules {
                    voters_min: 2,
                    addresses: MultiAddress::Disabled,
                }),
                AclChecks::Skipped,
            ),
            None => (ReconfigSupport::Disabled, AclChecks::Enforced),
        };
        let settings = NodeSettings {
            server_id: id.0 as u8,
            seed: id.0 as u64,
            read_only_after_ms: Some(READ_ONLY_AFTER_MS),
            reconfig,
            local_sessions,
            ..settings()
        };
        let policy = Policy { acl_checks, ..Policy::default() };
        let replica = Replica::new(disk.tree(), policy, AuthEnforcement::Off, 3);
        let recovered = RecoveredHistory {
            last: disk.last(),
            contiguous_from: Zxid::ZERO,
            accepted_epoch: disk.accepted_epoch,
            current_epoch: disk.current_epoch,
            trust: disk.trust,
        };
        let node = Node::ensemble_member(settings.clone(), peer, recovered, &replica, now);
        let mut fixture = NodeFixture::around(node, replica, settings);
        fixture.now = now;
        Server {
            fixture,
            disk,
            serving: None,
            reads_alone: false,
            links: BTreeMap::new(),
            received: BTreeMap::new(),
            streamed: 0,
            installed: 0,
        }
    }

    fn append(&mut self, batch: &LogBatch) {
        for entry in read_batch(batch) {
            assert!(entry.header.zxid > self.disk.last(), "the log only grows");
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            self.disk.log.push(EncodedTxn { zxid: entry.header.zxid, bytes: bytes.into() });
        }
    }
}

/// Whether old transactions can be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    Kept,
    Purged,
}

pub(crate) struct ThreeNodes {
    pub(crate) logs: Logs,
    pub(crate) servers: BTreeMap<ServerId, Server>,
    peers: BTreeMap<ServerId, PeerSettings>,
    down: BTreeMap<ServerId, Disk>,
    cut_off: BTreeSet<ServerId>,
    events: VecDeque<(ServerId, PeerEvent)>,
    /// Events of the disks that are not delivered yet.
    done: BTreeMap<ServerId, VecDeque<PeerEvent>>,
    /// Notifications, oldest first. Each takes a millisecond.
    mail: VecDeque<(i64, ServerId, PeerEvent)>,
    accepted: u64,
    local_sessions: LocalSessionSupport,
    pub(crate) now: Now,
}

impl ThreeNodes {
    /// Three voters.
    pub(crate) fn new() -> ThreeNodes {
        ThreeNodes::with(3, 0, HistoryLimits { entries: 1000, bytes: 1 << 20 })
    }

    /// Three voters with reconfig enabled and this config.
    pub(crate) fn changing(members: &Configuration) -> ThreeNodes {
        let dynamic = DynamicConfig { committed: members.clone(), last_seen: None };
        let history = HistoryLimits { entries: 1000, bytes: 1 << 20 };
        ThreeNodes::made((3, 0), history, Some(&dynamic), LocalSessionSupport::Off)
    }

    /// Three voters, all with local sessions.
    pub(crate) fn with_local_sessions(
        observers: i64,
        history: HistoryLimits,
        local_sessions: LocalSessionSupport,
    ) -> ThreeNodes {
        ThreeNodes::made((3, observers), history, None, local_sessions)
    }

    pub(crate) fn with(voters: i64, observers: i64, history: HistoryLimits) -> ThreeNodes {
        ThreeNodes::made((voters, observers), history, None, LocalSessionSupport::Off)
    }

    fn made(
        (voters, observers): (i64, i64),
        history: HistoryLimits,
        dynamic: Option<&DynamicConfig>,
        local_sessions: LocalSessionSupport,
    ) -> ThreeNodes {
        let voting: BTreeSet<ServerId> = (1..=voters).map(ServerId).collect();
        let observing: BTreeSet<ServerId> = (voters + 1..=voters + observers).map(ServerId).collect();
        let settings = |me: ServerId| PeerSettings {
            me,
            role: if voting.contains(&me) { Role::Participant } else { Role::Observer },
            quorum: QuorumRule::majority(voting.iter().copied()),
            observers: observing.clone(),
            config: "version=0".into(),
            config_version: 0,
            tick_ms: 2000,
            init_limit: 10,
            connect_limit: 10,
            sync_limit: 5,
            resend_ms_min: 200,
            resend_ms_max: 1600,
            finalize_ms: 200,
            retry_ms: 100,
            history,
            send_window: 1 << 20,
            proposal_bytes_max: 1 << 20,
            observer: zebu_zab::ObserverSettings::default(),
            last_counter: zebu_zab::LAST_COUNTER,
            dynamic_config: dynamic.cloned(),
            slow_disk_ms: None,
            announcement: Some(zebu_proto::quorum::PeerAnnouncement::CURRENT),
        };
        let empty = Disk { log: Vec::new(), accepted_epoch: 0, current_epoch: 0, trust: DiskTrust::Trusted };
        let all = || voting.iter().chain(&observing).copied();
        let mut ensemble = ThreeNodes {
            logs: Logs::Kept,
            servers: BTreeMap::new(),
            peers: all().map(|id| (id, settings(id))).collect(),
            down: all().map(|id| (id, empty.clone())).collect(),
            cut_off: BTreeSet::new(),
            events: VecDeque::new(),
            done: BTreeMap::new(),
            mail: VecDeque::new(),
            accepted: 0,
            local_sessions,
            now: START,
        };
        for id in all() {
            ensemble.start(id);
        }
        ensemble.run(3000);
        ensemble
    }

    pub(crate) fn start(&mut self, id: ServerId) {
        let disk = self.down.remove(&id).unwrap();
        let server = Server::start(id, self.peers[&id].clone(), self.local_sessions, disk, self.now);
        self.servers.insert(id, server);
        self.work(id);
    }

    /// Marks the disk of a stopped server as untrusted.
    pub(crate) fn distrust(&mut self, id: ServerId) {
        self.down.get_mut(&id).unwrap().trust = DiskTrust::Untrusted;
    }

    /// Stops the process; its disk stays.
    pub(crate) fn crash(&mut self, id: ServerId) {
        let server = self.servers.remove(&id).unwrap();
        self.down.insert(id, server.disk);
        self.events.retain(|(to, _)| *to != id);
        self.done.remove(&id);
        for (peer, link) in server.links.into_values() {
            self.link_down(peer, link);
        }
    }

    /// Partitions a server from all others.
    pub(crate) fn cut_off(&mut self, id: ServerId) {
        self.cut_off.insert(id);
        let links = std::mem::take(&mut self.server(id).links);
        for (own, (peer, link)) in links {
            self.events.push_back((id, PeerEvent::LinkDown { link: own }));
            self.link_down(peer, link);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut_off.clear();
    }

    fn link_down(&mut self, server: ServerId, link: LinkId) {
        if let Some(server_of_link) = self.servers.get_mut(&server)
            && server_of_link.links.remove(&link).is_some()
        {
            self.events.push_back((server, PeerEvent::LinkDown { link }));
        }
    }

    pub(crate) fn server(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(&id).unwrap()
    }

    pub(crate) fn leader(&self) -> Option<ServerId> {
        let leads = |server: &Server| matches!(server.serving, Some(ServingRole::Leading { .. }));
        self.servers.iter().find(|(_, server)| leads(server)).map(|(id, _)| *id)
    }

    /// The serving learners, by id.
    pub(crate) fn learners(&self) -> Vec<ServerId> {
        let learns = |server: &Server| {
            matches!(server.serving, Some(ServingRole::Following { .. } | ServingRole::Observing { .. }))
        };
        self.servers.iter().filter(|(_, server)| learns(server)).map(|(id, _)| *id).collect()
    }

    /// Advances the clock and runs all deadlines.
    pub(crate) fn run(&mut self, ms: i64) {
        let end_ms = self.now.monotonic_ms + ms;
        loop {
            self.settle();
            let mail_ms = self.mail.front().map(|(due_ms, ..)| *due_ms);
            let due_ms =
                self.servers.values().map(|server| server.fixture.node.next_deadline()).chain(mail_ms).min();
            let next_ms = due_ms.unwrap_or(i64::MAX).clamp(self.now.monotonic_ms, end_ms);
            let step_ms = next_ms - self.now.monotonic_ms;
            self.now.monotonic_ms += step_ms;
            self.now.wall_ms += step_ms;
            for server in self.servers.values_mut() {
                server.fixture.now = self.now;
            }
            while let Some((due_ms, to, event)) = self.mail.pop_front() {
                if due_ms > self.now.monotonic_ms {
                    self.mail.push_front((due_ms, to, event));
                    break;
                }
                self.events.push_back((to, event));
            }
            let ids: Vec<ServerId> = self.servers.keys().copied().collect();
            let mut ticked = !self.events.is_empty();
            for id in ids {
                if self.server(id).fixture.node.next_deadline() <= self.now.monotonic_ms {
                    self.server(id).fixture.tick();
                    self.work(id);
                    ticked = true;
                }
            }
            if !ticked && self.now.monotonic_ms == end_ms {
                return;
            }
        }
    }

    /// Delivers all messages and disk events.
    pub(crate) fn settle(&mut self) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.work(id));
        for _ in 0..1_000_000 {
            for (&id, done) in &mut self.done {
                self.events.extend(done.drain(..).map(|event| (id, event)));
            }
            if !self.deliver() {
                return;
            }
        }
        panic!("the ensemble never comes to rest");
    }

    /// Delivers one message or disk event.
    pub(crate) fn deliver_some(&mut self, random: &mut SplitMix64) {
        for _ in 0..random.below(30) {
            let waiting: Vec<ServerId> =
                self.done.iter().filter(|(_, done)| !done.is_empty()).map(|(id, _)| *id).collect();
            let choice = random.below(3 * (waiting.len() as u64 + 1)) as usize;
            match waiting.get(choice) {
                None => {
                    self.deliver();
                }
                Some(&id) => {
                    let done = self.done.get_mut(&id).and_then(VecDeque::pop_front);
                    self.events.extend(done.map(|event| (id, event)));
                }
            }
        }
    }

    /// Delivers this number of messages. Disk events are delivered at once.
    pub(crate) fn deliver_number(&mut self, number: u64) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.work(id));
        for _ in 0..number {
            for (&id, done) in &mut self.done {
                self.events.extend(done.drain(..).map(|event| (id, event)));
            }
            self.deliver();
        }
    }

    /// Delivers the oldest event. Returns whether there was one.
    fn deliver(&mut self) -> bool {
        let Some((id, event)) = self.events.pop_front() else { return false };
        if let Some(server) = self.servers.get_mut(&id) {
            let NodeFixture { node, replica, connections, now, .. } = &mut server.fixture;
            node.handle_peer(event, &mut ServeContext { replica, connections, now: *now });
            self.work(id);
        }
        true
    }

    /// Commits at a server and executes its effects.
    fn work(&mut self, id: ServerId) {
        loop {
            let server = self.servers.get_mut(&id).unwrap();
            let NodeFixture { node, replica, connections, now, .. } = &mut server.fixture;
            let mut orders = Vec::new();
            if node.has_committed() {
                node.commit(replica, connections, *now).unwrap();
            }
            node.start_read_checks(&mut ServeContext { replica, connections, now: *now });
            node.take_effects(&mut orders);
            server.fixture.collect();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                self.execute(id, order);
            }
        }
    }

    fn execute(&mut self, id: ServerId, order: Effect) {
        match order {
            Effect::Peer(PeerEffect::Notify { to, notification }) => {
                if self.reaches(id, to) {
                    let due_ms = self.now.monotonic_ms + 1;
                    self.mail.push_back((due_ms, to, PeerEvent::Notification { from: id, notification }));
                }
            }
            Effect::Peer(PeerEffect::Dial { link, to, .. }) => self.dial(id, link, to),
            Effect::Peer(PeerEffect::Send { link, packet }) => {
                let weight = packet_weight(&packet);
                if let Some((to, other)) = self.server(id).links.get(&link).copied() {
                    self.events.push_back((to, PeerEvent::Packet { link: other, packet }));
                    self.events.push_back((id, PeerEvent::Sent { link, weight }));
                }
            }
            Effect::Peer(PeerEffect::Close { link, .. }) => {
                self.server(id).received.remove(&link);
                if let Some((to, other)) = self.server(id).links.remove(&link) {
                    self.link_down(to, other);
                }
            }
            Effect::Peer(PeerEffect::PauseReading { .. } | PeerEffect::ResumeReading { .. }) => {
                panic!("server {} holds more packets than the history limit", id.0)
            }
            Effect::Peer(PeerEffect::StreamSnapshot { link, zxid }) => self.stream(id, link, zxid),
            Effect::Peer(PeerEffect::ReadLog { link, after, up_to, .. }) => {
                let log = &self.server(id).disk.log;
                let start = log.iter().position(|entry| entry.zxid == after).map(|index| index + 1);
                let start = if after == Zxid::ZERO { Some(0) } else { start };
                let entries: Vec<EncodedTxn> = start
                    .map(|start| log[start..].iter().filter(|entry| entry.zxid <= up_to).take(3).cloned())
                    .into_iter()
                    .flatten()
                    .collect();
                let read = if entries.is_empty() || self.logs == Logs::Purged {
                    LogRead::Unavailable
                } else {
                    LogRead::Entries(entries)
                };
                self.events.push_back((id, PeerEvent::LogRead { link, read }));
            }
            Effect::Peer(PeerEffect::LoadReceived { link, entries }) => {
                let log = self.server(id).received.get_mut(&link).unwrap();
                let last = log.last().map_or(Zxid::ZERO, |entry| entry.zxid);
                log.extend(entries.into_iter().filter(|entry| entry.zxid > last));
            }
            Effect::Peer(PeerEffect::DiscardSnapshot { link }) => {
                self.server(id).received.remove(&link);
            }
            Effect::Append { io, batch } => {
                self.server(id).append(&batch);
                let io = io.unwrap();
                self.done.entry(id).or_default().push_back(PeerEvent::Persisted { io });
            }
            Effect::Disk(command) => self.write(id, command),
            Effect::Serve(ServeEffect::Serve(serving)) => {
                assert_eq!(self.server(id).serving.replace(serving), None);
            }
            Effect::Serve(ServeEffect::ServeReadOnly) => {
                let server = self.server(id);
                assert!(server.serving.is_none() && !std::mem::replace(&mut server.reads_alone, true));
            }
            Effect::Config(ConfigEffect::PersistProposed { .. })
            | Effect::Config(ConfigEffect::LearnAddresses { .. })
            | Effect::Config(ConfigEffect::Activate { .. })
            | Effect::Report(_) => {}
            Effect::Serve(ServeEffect::Stop) => {
                let server = self.server(id);
                let reads_alone = std::mem::take(&mut server.reads_alone);
                assert!(server.serving.take().is_some() != reads_alone);
            }
        }
    }

    fn reaches(&self, from: ServerId, to: ServerId) -> bool {
        self.servers.contains_key(&to) && !self.cut_off.contains(&from) && !self.cut_off.contains(&to)
    }

    fn dial(&mut self, id: ServerId, link: LinkId, to: ServerId) {
        if !self.reaches(id, to) {
            self.events.push_back((id, PeerEvent::DialFailed { link }));
            return;
        }
        self.accepted += 1;
        let other = LinkId::accepted(self.accepted);
        self.server(id).links.insert(link, (to, other));
        self.server(to).links.insert(other, (id, link));
        self.events.push_back((to, PeerEvent::Accepted { link: other }));
        self.events.push_back((id, PeerEvent::Dialed { link }));
    }

    fn stream(&mut self, id: ServerId, link: LinkId, zxid: Zxid) {
        let server = self.server(id);
        let last = server.fixture.replica.last_zxid();
        assert!(last >= zxid, "the state holds what it is said to hold");
        let state: Vec<EncodedTxn> =
            server.disk.log.iter().filter(|entry| entry.zxid <= last).cloned().collect();
        server.streamed += 1;
        if let Some((to, other)) = server.links.get(&link).copied() {
            self.server(to).received.insert(other, state);
            self.events.push_back((to, PeerEvent::SnapshotReceived { link: other }));
            self.events.push_back((id, PeerEvent::SnapshotSent { link }));
        }
    }

    fn write(&mut self, id: ServerId, command: DiskCommand) {
        let server = self.server(id);
        let io = match command {
            DiskCommand::Truncate { io, to } => {
                let found = to == Zxid::ZERO || server.disk.log.iter().any(|entry| entry.zxid == to);
                if !found {
                    self.done.entry(id).or_default().push_back(PeerEvent::TruncateRefused { io });
                    return;
                }
                server.disk.log.retain(|entry| entry.zxid <= to);
                if server.fixture.replica.last_zxid() > to {
                    server.fixture.replica.replace_tree(server.disk.tree());
                }
                io
            }
            DiskCommand::InstallSnapshot { io, link, tail, zxid } => {
                let mut log = server.received.remove(&link).unwrap();
                let last = log.last().map_or(Zxid::ZERO, |entry| entry.zxid);
                log.extend(tail.into_iter().filter(|entry| entry.zxid > last));
                log.retain(|entry| entry.zxid <= zxid);
                server.disk.log = log;
                assert_eq!(server.disk.last(), zxid);
                server.fixture.replica.replace_tree(server.disk.tree());
                server.installed += 1;
                io
            }
            DiskCommand::Quarantine { io } => {
                server.disk.log.clear();
                server.disk.trust = DiskTrust::Untrusted;
                server.fixture.replica.replace_tree(server.disk.tree());
                io
            }
            DiskCommand::MarkTrusted { io } => {
                server.disk.trust = DiskTrust::Trusted;
                io
            }
            DiskCommand::SaveAcceptedEpoch { io, epoch } => {
                server.disk.accepted_epoch = i64::from(epoch);
                io
            }
            DiskCommand::SaveCurrentEpoch { io, epoch } => {
                server.disk.current_epoch = i64::from(epoch);
                io
            }
        };
        self.done.entry(id).or_default().push_back(PeerEvent::Persisted { io });
    }
}

/// Actions of clients.
impl ThreeNodes {
    /// Opens a connection and sends this connect request.
    pub(crate) fn knock(&mut self, id: ServerId, request: ConnectRequest) -> ConnectionId {
        let fixture = &mut self.server(id).fixture;
        let connection = fixture.open();
        fixture.connect(connection, request);
        self.settle();
        connection
    }

    /// A client with a new session.
    pub(crate) fn client(&mut self, id: ServerId, timeout_ms: i32) -> ConnectionId {
        let connection = self.knock(id, hello(timeout_ms));
        let greeting = self.server(id).fixture.greeting(connection).unwrap();
        assert_ne!(greeting.session_id, 0);
        connection
    }

    /// Resumes a session at a server. Returns the connection if it was accepted.
    pub(crate) fn resume(
        &mut self,
        id: ServerId,
        session: SessionId,
        timeout_ms: i32,
    ) -> Option<ConnectionId> {
        let password = zebu_proto::password::session_password(session);
        let request =
            ConnectRequest { session_id: session.0, password: Some(password.into()), ..hello(timeout_ms) };
        let connection = self.knock(id, request);
        if self.server(id).fixture.phase(connection) == ConnectionPhase::Handshake {
            // One leadership check covers several clients.
            self.run(50);
        }
        let greeting = self.server(id).fixture.greeting(connection)?;
        (greeting.session_id == session.0).then_some(connection)
    }

    pub(crate) fn session(&mut self, id: ServerId, connection: ConnectionId) -> SessionId {
        self.server(id).fixture.session(connection)
    }

    pub(crate) fn send(&mut self, id: ServerId, connection: ConnectionId, ask: Ask) -> i32 {
        self.server(id).fixture.send(connection, ask)
    }

    /// Sends a request and returns its reply.
    pub(crate) fn call(&mut self, id: ServerId, connection: ConnectionId, ask: Ask) -> Reply {
        let xid = self.send(id, connection, ask);
        self.settle();
        let mut frame = self.server(id).fixture.received(connection).pop();
        if frame.is_none() {
            // A quorum check may wait for the next millisecond.
            self.run(1);
            frame = self.server(id).fixture.received(connection).pop();
        }
        let reply = frame.map(Frame::reply).expect("an answer");
        assert_eq!(reply.xid, xid);
        reply
    }

    pub(crate) fn ping(&mut self, id: ServerId, connection: ConnectionId) {
        self.server(id).fixture.send_as(connection, -2, &ping());
        self.settle();
        assert_eq!(self.server(id).fixture.xids(connection), [-2]);
    }

    /// The log of a server.
    pub(crate) fn history(&self, id: ServerId) -> Vec<TxnEntry> {
        self.servers[&id].disk.log.iter().map(|entry| TxnEntry::decode(&entry.bytes).unwrap()).collect()
    }

    pub(crate) fn is_down(&self, id: ServerId) -> bool {
        self.down.contains_key(&id)
    }

    /// Checks that all running servers serve and have the same state, and that no request is pending.
    pub(crate) fn assert_equal(&mut self) {
        self.settle();
        let leader = self.leader().expect("a leader");
        let digest = self.server(leader).fixture.replica.tree().digest();
        let last = self.server(leader).fixture.replica.last_zxid();
        let sessions = self.server(leader).fixture.replica.tree().sessions().clone();
        for (id, server) in &mut self.servers {
            assert!(server.serving.is_some(), "{id:?}");
            let replica = &server.fixture.replica;
            assert_eq!((replica.last_zxid(), replica.tree().digest()), (last, digest), "{id:?}");
            assert_eq!(replica.tree().sessions(), &sessions);
            assert_eq!(server.disk.last(), last, "{id:?}");
            let node = &server.fixture.node;
            assert_eq!((node.in_flight(), node.digest_mismatches()), (0, 0), "{id:?}");
            assert_eq!(server.fixture.submitted, server.fixture.answered, "{id:?}");
        }
    }
}
