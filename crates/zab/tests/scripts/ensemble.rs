//! The ensemble of a script: queues between servers, the clock, and the commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use zebu_proto::quorum::{Notification, Packet};
use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{
    Action, Configuration, DiskTrust, DynamicConfig, EncodedTxn, HistoryLimits, LearnerPort, LinkId,
    ObserverSettings, Peer, PeerEffect, PeerEvent, PeerSettings, QuorumRule, Role, packet_weight,
};

use crate::server::{DiskState, LinkEnd, ScriptServer};
use crate::text::{self, parse_server, parse_zxid, servers, value};

/// A message between two servers.
#[derive(Debug)]
enum Message {
    Vote(Notification),
    /// A packet for a link of the recipient.
    Packet(LinkId, Packet),
    Snapshot(LinkId),
    /// The sender has closed the link.
    End(LinkId),
}

impl Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Vote(_) => "VOTE",
            Message::Packet(_, packet) => text::packet(packet).0,
            Message::Snapshot(_) => "SNAPSHOT",
            Message::End(_) => "END",
        }
    }

    fn show(&self) -> String {
        match self {
            Message::Vote(vote) => format!("VOTE {}", text::vote(vote)),
            Message::Packet(_, packet) => {
                let (name, values) = text::packet(packet);
                format!("{name} {values}").trim_end().to_owned()
            }
            Message::Snapshot(_) | Message::End(_) => self.kind().to_owned(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ensemble {
    now_ms: i64,
    voters: Vec<ServerId>,
    observers: Vec<ServerId>,
    is_dynamic: bool,
    history_entries: usize,
    servers: BTreeMap<ServerId, ScriptServer>,
    /// Votes and link messages have queues of their own, as they have ports.
    votes: BTreeMap<(ServerId, ServerId), VecDeque<Message>>,
    packets: BTreeMap<(ServerId, ServerId), VecDeque<Message>>,
    accepted_links: u64,
    trace: String,
    is_silent: bool,
}

/// A config text as the servers write it.
fn config_text(voters: &[ServerId], observers: &[ServerId], version: Zxid) -> String {
    let line = |server: &ServerId, role: &str| format!("server.{0}=h{0}:1:2:{role};0.0.0.0:3\n", server.0);
    let mut lines: Vec<String> = voters.iter().map(|server| line(server, "participant")).collect();
    lines.extend(observers.iter().map(|server| line(server, "observer")));
    lines.sort();
    format!("{}version={:x}", lines.concat(), version.0)
}

fn plain_txn(zxid: Zxid) -> EncodedTxn {
    EncodedTxn { zxid, bytes: zxid.0.to_be_bytes()[..].into() }
}

fn reconfig_txn(text: &str, zxid: Zxid) -> EncodedTxn {
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1 };
    let data = Some(text.as_bytes().to_vec().into());
    let txn = Txn::Reconfig(SetDataTxn { path: "/zookeeper/config".into(), data, version: -1 });
    let mut bytes = Vec::new();
    TxnEntry { header, txn, digest: None }.encode(&mut bytes);
    EncodedTxn { zxid, bytes: bytes.into() }
}

impl Ensemble {
    /// Runs one command.
    pub(crate) fn run(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (command, arguments) = (words[0], &words[1..]);
        match command {
            "ensemble" => self.define(arguments),
            "start" => self.start(parse_server(arguments[0]), arguments),
            "crash" => self.crash(parse_server(arguments[0])),
            "deliver" | "drop" => self.deliver(command == "drop", arguments),
            "persist" => self.persist(parse_server(arguments[0])),
            "tick" => self.tick(arguments[0].parse().unwrap()),
            "propose" => self.propose(parse_server(arguments[0]), plain_txn),
            "reconfig" => {
                let (voters, observers) = (servers(arguments, "voters"), servers(arguments, "observers"));
                let txn = |zxid| reconfig_txn(&config_text(&voters, &observers, zxid), zxid);
                self.propose(parse_server(arguments[0]), txn);
            }
            "disconnect" => self.disconnect(parse_server(arguments[0]), parse_server(arguments[1])),
            "settle" => self.settle(arguments[0].parse().unwrap()),
            "status" => self.show_status(),
            "queues" => self.show_queues(),
            _ => panic!("unknown command: {line}"),
        }
    }

    pub(crate) fn take_trace(&mut self) -> String {
        std::mem::take(&mut self.trace)
    }

    fn show(&mut self, line: impl AsRef<str>) {
        if !self.is_silent {
            writeln!(self.trace, "{}", line.as_ref()).unwrap();
        }
    }

    fn define(&mut self, arguments: &[&str]) {
        self.voters = servers(arguments, "voters");
        self.observers = servers(arguments, "observers");
        self.is_dynamic = arguments.contains(&"dynamic");
        self.history_entries = value(arguments, "history").map_or(1000, |count| count.parse().unwrap());
    }

    fn settings(&self, me: ServerId) -> PeerSettings {
        let config = config_text(&self.voters, &self.observers, Zxid::new(1, 0));
        let dynamic = || DynamicConfig { committed: Configuration::parse(&config).unwrap(), last_seen: None };
        PeerSettings {
            me,
            role: if self.observers.contains(&me) { Role::Observer } else { Role::Participant },
            quorum: QuorumRule::majority(self.voters.iter().copied()),
            observers: self.observers.iter().copied().collect::<BTreeSet<_>>(),
            config: "version=0".into(),
            config_version: 0,
            tick_ms: 100,
            init_limit: 10,
            connect_limit: 10,
            sync_limit: 5,
            resend_ms_min: 50,
            resend_ms_max: 400,
            finalize_ms: 20,
            retry_ms: 30,
            history: HistoryLimits { entries: self.history_entries, bytes: 1 << 20 },
            send_window: 1 << 20,
            proposal_bytes_max: 1 << 20,
            observer: ObserverSettings::default(),
            last_counter: zebu_zab::LAST_COUNTER,
            dynamic_config: self.is_dynamic.then(dynamic),
            slow_disk_ms: None,
            announcement: None,
        }
    }

    fn start(&mut self, id: ServerId, arguments: &[&str]) {
        let settings = self.settings(id);
        let server = self.servers.entry(id).or_insert_with(|| {
            let last = value(arguments, "last").map_or(Zxid::ZERO, parse_zxid);
            let base = value(arguments, "from").map_or(last, parse_zxid);
            let epoch = value(arguments, "epoch").map_or(0, |epoch| epoch.parse().unwrap());
            let log = (base.counter() + 1..=last.counter()).map(|at| plain_txn(Zxid::new(last.epoch(), at)));
            let (log, trust) = (log.collect(), DiskTrust::Trusted);
            ScriptServer::new(DiskState { base, log, accepted_epoch: epoch, current_epoch: epoch, trust })
        });
        let mut out = Vec::new();
        server.peer = Some(Peer::new(settings, server.disk.recovered(), self.now_ms, &mut out));
        self.take(id, out);
    }

    fn crash(&mut self, id: ServerId) {
        let server = self.servers.get_mut(&id).unwrap();
        server.peer = None;
        server.unfinished.clear();
        let ends: Vec<LinkEnd> = std::mem::take(&mut server.links).into_values().collect();
        self.votes.retain(|(from, to), _| *from != id && *to != id);
        self.packets.retain(|(from, to), _| *from != id && *to != id);
        for end in ends {
            self.queue_packet(id, end.server, Message::End(end.link));
        }
    }

    fn queue_packet(&mut self, from: ServerId, to: ServerId, message: Message) {
        self.packets.entry((from, to)).or_default().push_back(message);
    }

    fn handle(&mut self, id: ServerId, event: PeerEvent) {
        let Some(peer) = self.servers.get_mut(&id).and_then(|server| server.peer.as_mut()) else { return };
        let mut out = Vec::new();
        peer.handle(event, self.now_ms, &mut out);
        self.take(id, out);
    }

    /// Executes the actions of a server, then the events that follow from them at once.
    fn take(&mut self, id: ServerId, actions: Vec<Action>) {
        let mut events = Vec::new();
        for action in actions {
            if let Some(text) = text::action(&action) {
                self.show(format!("  {}: {text}", id.0));
            }
            self.servers.get_mut(&id).unwrap().submit(&action);
            if let Action::Peer(effect) = action {
                self.execute(id, effect, &mut events);
            }
        }
        self.show_election_state(id);
        for (server, event) in events {
            self.handle(server, event);
        }
    }

    /// Shows the state in the election if it has changed.
    fn show_election_state(&mut self, id: ServerId) {
        let server = self.servers.get_mut(&id).unwrap();
        let state = server.peer.as_ref().map(|peer| peer.status().state);
        if let Some(state) = state.filter(|state| Some(*state) != server.shown_state) {
            server.shown_state = Some(state);
            self.show(format!("  {}: is {}", id.0, text::election_state(state)));
        }
    }

    fn execute(&mut self, id: ServerId, effect: PeerEffect, events: &mut Vec<(ServerId, PeerEvent)>) {
        match effect {
            PeerEffect::Notify { to, notification } => {
                self.votes.entry((id, to)).or_default().push_back(Message::Vote(notification));
            }
            PeerEffect::Dial { link, to, port } => self.dial(id, link, (to, port), events),
            PeerEffect::Send { link, packet } => {
                let Some(&end) = self.servers[&id].links.get(&link) else { return };
                let weight = packet_weight(&packet);
                let message = Message::Packet(end.link, packet);
                self.show(format!("  {}: sends {} to {}", id.0, message.show(), end.server.0));
                self.queue_packet(id, end.server, message);
                events.push((id, PeerEvent::Sent { link, weight }));
            }
            PeerEffect::Close { link, reason } => {
                let Some(end) = self.servers.get_mut(&id).unwrap().links.remove(&link) else { return };
                self.show(format!("  {}: closes the link to {}: {reason}", id.0, end.server.0));
                self.queue_packet(id, end.server, Message::End(end.link));
            }
            PeerEffect::StreamSnapshot { link, .. } => {
                let Some(&end) = self.servers[&id].links.get(&link) else { return };
                self.show(format!("  {}: streams a snapshot to {}", id.0, end.server.0));
                self.queue_packet(id, end.server, Message::Snapshot(end.link));
                events.push((id, PeerEvent::SnapshotSent { link }));
            }
            PeerEffect::ReadLog { link, after, up_to, .. } => {
                let read = self.servers[&id].disk.read(after, up_to);
                events.push((id, PeerEvent::LogRead { link, read }));
            }
            PeerEffect::PauseReading { .. }
            | PeerEffect::ResumeReading { .. }
            | PeerEffect::LoadReceived { .. }
            | PeerEffect::DiscardSnapshot { .. } => {}
        }
    }

    fn dial(
        &mut self,
        id: ServerId,
        link: LinkId,
        (to, port): (ServerId, LearnerPort),
        events: &mut Vec<(ServerId, PeerEvent)>,
    ) {
        if self.servers.get(&to).is_none_or(|server| server.peer.is_none()) {
            events.push((id, PeerEvent::DialFailed { link }));
            return;
        }
        self.accepted_links += 1;
        let accepted = LinkId::accepted(self.accepted_links);
        self.servers.get_mut(&id).unwrap().links.insert(link, LinkEnd { server: to, link: accepted });
        self.servers.get_mut(&to).unwrap().links.insert(accepted, LinkEnd { server: id, link });
        events.push((
            to,
            match port {
                LearnerPort::Quorum => PeerEvent::Accepted { link: accepted },
                LearnerPort::ObserverMaster => PeerEvent::ObserverAccepted { link: accepted },
            },
        ));
        events.push((id, PeerEvent::Dialed { link }));
    }

    /// `1->2 [KIND]`: the next message of that kind's queue, or all messages that are queued now.
    fn deliver(&mut self, is_lost: bool, arguments: &[&str]) {
        let (from, to) = arguments[0].split_once("->").unwrap();
        let path = (parse_server(from), parse_server(to));
        let Some(&kind) = arguments.get(1) else {
            for is_vote in [true, false] {
                for _ in 0..self.queue(path, is_vote).len() {
                    self.deliver_next(path, is_vote, is_lost);
                }
            }
            return;
        };
        let is_vote = kind == "VOTE";
        match self.queue(path, is_vote).front().map(Message::kind) {
            Some(next) if next == kind => self.deliver_next(path, is_vote, is_lost),
            next => panic!("{arguments:?}: the next message is {}", next.unwrap_or("missing")),
        }
    }

    fn queue(&mut self, path: (ServerId, ServerId), is_vote: bool) -> &mut VecDeque<Message> {
        if is_vote { &mut self.votes } else { &mut self.packets }.entry(path).or_default()
    }

    fn deliver_next(&mut self, path: (ServerId, ServerId), is_vote: bool, is_lost: bool) {
        let Some(message) = self.queue(path, is_vote).pop_front() else { return };
        let ((from, to), what) = (path, message.show());
        self.show(format!("{}->{} {what}{}", from.0, to.0, if is_lost { " is lost" } else { "" }));
        if is_lost {
            return;
        }
        let link = match message {
            Message::Vote(notification) => {
                return self.handle(to, PeerEvent::Notification { from, notification });
            }
            Message::Packet(link, _) | Message::Snapshot(link) | Message::End(link) => link,
        };
        let Some(server) = self.servers.get_mut(&to) else { return };
        if !server.links.contains_key(&link) {
            return self.show(format!("  {}: has closed the link", to.0));
        }
        let event = match message {
            Message::Vote(_) => return,
            Message::Packet(link, packet) => PeerEvent::Packet { link, packet },
            Message::Snapshot(link) => PeerEvent::SnapshotReceived { link },
            Message::End(link) => {
                server.links.remove(&link);
                PeerEvent::LinkDown { link }
            }
        };
        let is_ping = matches!(&event, PeerEvent::Packet { packet: Packet::Ping { .. }, .. });
        let zxid = match &event {
            PeerEvent::Packet { packet: Packet::Ping { zxid }, .. } => *zxid,
            _ => Zxid::ZERO,
        };
        self.handle(to, event);
        let peer = self.servers.get_mut(&to).and_then(|server| server.peer.as_mut());
        if let (true, Some(peer)) = (is_ping, peer) {
            // The node of a serving learner answers pings.
            let mut out = Vec::new();
            peer.send_to_leader(Packet::PingReply { zxid, touched: Vec::new(), room: None }, &mut out);
            self.take(to, out);
        }
    }

    fn persist(&mut self, id: ServerId) {
        if let Some(event) = self.servers.get_mut(&id).and_then(ScriptServer::finish_writes) {
            self.handle(id, event);
        }
    }

    /// The next deadline of all servers, and whose it is.
    fn next_deadline(&self) -> Option<(i64, ServerId)> {
        let deadline = |(id, server): (&ServerId, &ScriptServer)| {
            let at_ms = server.peer.as_ref()?.next_deadline();
            (at_ms < i64::MAX).then_some((at_ms.max(self.now_ms), *id))
        };
        self.servers.iter().filter_map(deadline).min()
    }

    fn time_out(&mut self, (at_ms, id): (i64, ServerId)) {
        self.now_ms = at_ms;
        let Some(peer) = self.servers.get_mut(&id).and_then(|server| server.peer.as_mut()) else { return };
        let mut out = Vec::new();
        peer.timeout(at_ms, &mut out);
        self.take(id, out);
    }

    fn tick(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        while let Some(due) = self.next_deadline().filter(|(at_ms, _)| *at_ms <= end_ms) {
            self.time_out(due);
        }
        self.now_ms = end_ms;
    }

    fn propose(&mut self, id: ServerId, txn: impl FnOnce(Zxid) -> EncodedTxn) {
        let Some(peer) = self.servers.get_mut(&id).and_then(|server| server.peer.as_mut()) else { return };
        let Some(zxid) = peer.next_zxid() else { panic!("server {} does not lead", id.0) };
        let mut out = Vec::new();
        peer.propose(txn(zxid), self.now_ms, &mut out);
        self.take(id, out);
    }

    /// Ends the links between two servers and drops the messages on them. Votes still pass.
    fn disconnect(&mut self, one: ServerId, other: ServerId) {
        self.packets.remove(&(one, other));
        self.packets.remove(&(other, one));
        for (id, peer) in [(one, other), (other, one)] {
            let Some(server) = self.servers.get_mut(&id) else { continue };
            let links: Vec<LinkId> =
                server.links.iter().filter(|(_, end)| end.server == peer).map(|(link, _)| *link).collect();
            for link in links {
                self.servers.get_mut(&id).unwrap().links.remove(&link);
                self.handle(id, PeerEvent::LinkDown { link });
            }
        }
    }

    /// Delivers and persists everything at once for some time.
    fn settle(&mut self, ms: i64) {
        self.is_silent = true;
        let end_ms = self.now_ms + ms;
        loop {
            let paths = |queues: &BTreeMap<(ServerId, ServerId), VecDeque<Message>>| {
                queues.iter().find(|(_, queue)| !queue.is_empty()).map(|(path, _)| *path)
            };
            let writer = self.servers.iter().find(|(_, server)| !server.unfinished.is_empty());
            if let Some(id) = writer.map(|(id, _)| *id) {
                self.persist(id);
            } else if let Some(path) = paths(&self.votes) {
                self.deliver_next(path, true, false);
            } else if let Some(path) = paths(&self.packets) {
                self.deliver_next(path, false, false);
            } else if let Some(due) = self.next_deadline().filter(|(at_ms, _)| *at_ms <= end_ms) {
                self.time_out(due);
            } else {
                break;
            }
        }
        self.now_ms = end_ms;
        self.is_silent = false;
        self.show_status();
    }

    fn show_status(&mut self) {
        let mut lines = Vec::new();
        for (id, server) in &self.servers {
            let Some(peer) = &server.peer else {
                lines.push(format!("{}: down", id.0));
                continue;
            };
            let status = peer.status();
            let role = peer.serving().map_or("not serving".to_owned(), text::role);
            lines.push(format!(
                "{}: {role}; acceptedEpoch {} currentEpoch {} logged {} durable {} committed {}",
                id.0,
                status.accepted_epoch,
                status.current_epoch,
                text::zxid(status.logged),
                text::zxid(status.durable),
                text::zxid(status.committed),
            ));
        }
        lines.into_iter().for_each(|line| self.show(line));
    }

    fn show_queues(&mut self) {
        let queues = self.votes.iter().chain(&self.packets);
        let messages = queues.flat_map(|((from, to), queue)| {
            queue.iter().map(move |message| format!("{}->{} {}", from.0, to.0, message.show()))
        });
        let lines: Vec<String> = messages.collect();
        lines.into_iter().for_each(|line| self.show(line));
    }
}
