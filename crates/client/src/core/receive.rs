//! What received bytes mean: replies are matched to what is in flight, events to watchers. Whatever is not
//! the protocol ends the connection; nothing here can panic on it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use zebu_proto::client::{EventType, ReplyHeader, WatcherEvent, WatcherType};
use zebu_proto::{ErrorCode, Jute, Reader, Xid};

use super::action::{Action, Note};
use super::frames::Next;
use super::phase::{Ending, LinkId, Phase, Use};
use super::queue::Purpose;
use super::request::{Answer, WatchIntent, WatchRegistration};
use super::session::{Removal, Session};
use super::watch_table::{EventKind, WatchEvent, WatchKind};

/// What an impossible length means. An alert of TLS begins with 21 3.
fn refusal(length: i32) -> String {
    match length.to_be_bytes() {
        [21, 3, ..] => "the server speaks TLS on this port".to_owned(),
        _ => format!("a frame of {length} bytes"),
    }
}

impl<T> Session<T> {
    /// Takes bytes of the stream.
    pub fn received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        if !self.current_link(link) || matches!(self.phase, Phase::Opening { .. }) {
            return;
        }
        self.input.extend(bytes);
        while self.current_link(link) {
            match self.input.next(self.settings.reply_limit) {
                Next::Frame(place) => {
                    let payload = Bytes::copy_from_slice(self.input.bytes(place));
                    match self.phase {
                        Phase::Handshake { .. } => self.answer_handshake(now, &payload),
                        Phase::Connected { .. } => {
                            self.last_received = Some(now);
                            self.reply(now, &payload);
                        }
                        Phase::Waiting { .. } | Phase::Opening { .. } | Phase::Ended(_) => return,
                    }
                }
                Next::Nothing => break,
                Next::Refused(length) => {
                    return self.broken(now, &refusal(length));
                }
            }
        }
        self.input.compact();
        self.leave_if_idle(now);
        self.hand_over_if_idle();
    }

    fn reply(&mut self, now: Instant, payload: &Bytes) {
        let mut reader = Reader::new(payload);
        let header = match ReplyHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.broken(now, &format!("reply header: {error}")),
        };
        if header.err == ErrorCode::SessionClosedRequireSaslAuth.wire() {
            return self.end(Ending::AuthFailed);
        }
        let body = payload.slice(reader.position()..);
        match Xid(header.xid) {
            Xid::NOTIFICATION => self.event(now, header.zxid, &body),
            Xid::PING => {
                if let Some(sent_at) = self.pings.pop_front() {
                    self.acknowledge(now, sent_at, None);
                }
            }
            Xid::AUTH => self.auth_reply(&header),
            _ => self.call_reply(now, &header, body),
        }
    }

    /// A message was answered, and perhaps one before it is proven by that. A server that takes no writes keeps no
    /// session alive: its answers prove nothing.
    fn acknowledge(&mut self, now: Instant, sent_at: Instant, proven: Option<Instant>) {
        if let Phase::Connected { search: None, .. } = &self.phase {
            self.lease.heard(now, sent_at, self.timeout);
            if let Some(proven) = proven {
                self.lease.prove(proven, self.timeout);
            }
        }
    }

    fn auth_reply(&mut self, header: &ReplyHeader) {
        if header.err != 0 {
            return self.end(Ending::AuthFailed);
        }
        let Some(index) = self.auth_in_flight.pop_front() else { return };
        let server = self.server().unwrap_or_else(|| "".into());
        if let Some(ticket) = self.credentials[index].ticket.take() {
            let answer = Answer { zxid: header.zxid, code: 0, body: Bytes::new(), server };
            self.actions.push_back(Action::Complete { ticket, outcome: Ok(answer) });
        }
    }

    fn call_reply(&mut self, now: Instant, header: &ReplyHeader, body: Bytes) {
        match self.in_flight.front() {
            Some(sent) if sent.xid == header.xid => {}
            Some(sent) => {
                let what = format!("a reply to request {} where {} is next", header.xid, sent.xid);
                return self.broken(now, &what);
            }
            None => {
                return self.broken(now, &format!("a reply to request {}, which was not sent", header.xid));
            }
        }
        let Some(sent) = self.in_flight.pop_front() else { return };
        self.in_flight_units = self.in_flight_units.saturating_sub(sent.units);
        self.acknowledge(now, sent.sent_at, sent.proves.filter(|_| header.err == 0));
        // Calls that were made before the end of the client are carried out as long as the server answers.
        if let Phase::Connected { use_: Use::Closing { deadline } | Use::HandingOver { deadline }, .. } =
            &mut self.phase
        {
            *deadline = now + self.timeout / 3;
        }
        // Some replies carry zero or -1.
        self.last_zxid = self.last_zxid.max(header.zxid);
        let server = self.server().unwrap_or_else(|| "".into());
        let answer = Answer { zxid: header.zxid, code: header.err, body, server };
        match sent.purpose {
            Purpose::Call { ticket, watch } => {
                if let Some(watch) = watch {
                    self.registered(now, &watch, header.err);
                }
                self.actions.push_back(Action::Complete { ticket, outcome: Ok(answer) });
            }
            Purpose::Rewatch { persistent } => self.rewatched(persistent, header.err),
            Purpose::Unwatch { watcher_type, path } => self.unwatched(now, watcher_type, path, header.err),
            Purpose::Renew => self.lease.renewal_answered(now, header.err, self.timeout),
            Purpose::Close => {
                for ticket in std::mem::take(&mut self.close_tickets) {
                    let outcome = Ok(answer.clone());
                    self.actions.push_back(Action::Complete { ticket, outcome });
                }
                self.end(Ending::Closed);
            }
        }
    }

    /// A call that leaves a watch behind was answered.
    fn registered(&mut self, now: Instant, watch: &WatchRegistration, code: i32) {
        self.watches.settle(watch.watcher, watch.intent, &watch.path);
        let abandoned = self.abandoned.remove(&watch.watcher);
        let missing = code == ErrorCode::NoNode.wire();
        let kind = match (watch.intent, code) {
            (WatchIntent::Data, 0) | (WatchIntent::Exists, 0) => WatchKind::Data,
            (WatchIntent::Exists, _) if missing => WatchKind::Exist,
            (WatchIntent::Children, 0) => WatchKind::Child,
            (WatchIntent::Persistent, 0) => WatchKind::Persistent,
            (WatchIntent::Recursive, 0) => WatchKind::Recursive,
            _ => return,
        };
        self.watches.add(watch.watcher, kind, &watch.path);
        if abandoned {
            self.unwatch(now, watch.watcher);
        }
    }

    fn rewatched(&mut self, persistent: Vec<(WatchKind, Box<str>)>, code: i32) {
        if code != 0 {
            self.actions.push_back(Action::Note(Note::WatchesRefused { code }));
        }
        for (kind, path) in persistent {
            let (watchers, told) = match code {
                0 => (self.watches.watchers(kind, &path), EventKind::Resynced),
                _ => (self.watches.take(kind, &path), EventKind::WatchLost),
            };
            let path: Arc<str> = path.into();
            for watcher in watchers {
                let event = WatchEvent { kind: told, path: path.clone(), zxid: None };
                self.actions.push_back(Action::Notify { watcher, event });
            }
        }
    }

    fn unwatched(&mut self, now: Instant, watcher_type: WatcherType, path: Box<str>, code: i32) {
        match ErrorCode::from_wire(code) {
            // Servers before 3.5 close the connection over this; they are not asked again.
            Some(ErrorCode::Unimplemented) => self.removal = Removal::Unknown,
            // Servers before 3.9 cannot name a persistent watch: all watches of the path, or none.
            Some(ErrorCode::MarshallingError) if watcher_type != WatcherType::Any => {
                if !self.watches.needs(WatcherType::Any, &path) {
                    self.remove_watch(now, WatcherType::Any, path);
                }
            }
            // NoWatcher: it fired while the removal was on its way.
            Some(_) | None => {}
        }
    }

    fn event(&mut self, now: Instant, zxid: i64, body: &[u8]) {
        let event = match WatcherEvent::decode(&mut Reader::new(body)) {
            Ok(event) => event,
            Err(error) => return self.broken(now, &format!("event: {error}")),
        };
        let (Some(kind), Some(path)) = (EventType::from_wire(event.kind), event.path) else {
            self.actions.push_back(Action::Note(Note::UnknownEvent { kind: event.kind }));
            return;
        };
        self.told_zxid = self.told_zxid.max(zxid);
        let watchers = self.watches.fire(kind, &path);
        let path: Arc<str> = path.into();
        for watcher in watchers {
            let zxid = (zxid > 0).then_some(zxid);
            let event = WatchEvent { kind: kind.into(), path: path.clone(), zxid };
            self.actions.push_back(Action::Notify { watcher, event });
        }
    }
}
