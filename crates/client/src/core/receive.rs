//! Received frames: replies are matched to requests in flight, events to watchers. A protocol violation ends
//! the connection and never panics.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use zebu_proto::client::{EventType, ReplyHeader, WatcherEvent, WatcherType};
use zebu_proto::{ErrorCode, Jute, Reader, Xid};

use super::action::{LogEvent, SessionAction};
use super::frames::NextFrame;
use super::phase::{ConnectionUse, LinkId, SessionEnding, SessionPhase};
use super::queue::RequestPurpose;
use super::request::{ServerReply, WatchIntent, WatchRegistration};
use super::session::SessionMachine;
use super::watch_table::{EventKind, WatchEvent, WatchKind};

/// The error text for an invalid frame length. A TLS alert begins with 21 3.
fn refusal(length: i32) -> String {
    match length.to_be_bytes() {
        [21, 3, ..] => "the server speaks TLS on this port".to_owned(),
        _ => format!("a frame of {length} bytes"),
    }
}

impl<T> SessionMachine<T> {
    /// Handles received bytes.
    pub fn received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        if !self.current_link(link) || matches!(self.phase, SessionPhase::Opening { .. }) {
            return;
        }
        self.input.extend(bytes);
        while self.current_link(link) {
            match self.input.next(self.settings.reply_limit) {
                NextFrame::Frame(place) => {
                    let payload = Bytes::copy_from_slice(self.input.bytes(place));
                    match self.phase {
                        SessionPhase::Handshake { .. } => self.handshake_reply(now, &payload),
                        SessionPhase::Authenticating { .. } => {
                            self.last_received = Some(now);
                            self.authentication_reply(now, &payload);
                        }
                        SessionPhase::Connected { .. } => {
                            self.last_received = Some(now);
                            self.reply(now, &payload);
                        }
                        SessionPhase::Waiting { .. }
                        | SessionPhase::Opening { .. }
                        | SessionPhase::Ended(_) => return,
                    }
                }
                NextFrame::Incomplete => break,
                NextFrame::Refused(length) => {
                    return self.protocol_error(now, &refusal(length));
                }
            }
        }
        self.input.compact();
        self.move_if_idle(now);
        self.hand_over_if_idle();
    }

    fn reply(&mut self, now: Instant, payload: &Bytes) {
        let mut reader = Reader::new(payload);
        let header = match ReplyHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.protocol_error(now, &format!("reply header: {error}")),
        };
        if header.err == ErrorCode::SessionClosedRequireSaslAuth.wire() {
            return self.end(SessionEnding::AuthFailed);
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
            Xid::PUSH => {
                self.pushed(now, &body);
                self.feed_pushed(now, header.zxid, &body);
            }
            _ => self.call_reply(now, &header, body),
        }
    }

    /// Records a reply for the lease. A read-only server keeps no session alive: its replies prove nothing.
    fn acknowledge(&mut self, now: Instant, sent_at: Instant, confirmed: Option<Instant>) {
        if let SessionPhase::Connected { search: None, .. } = &self.phase {
            self.lease.record_reply(now, sent_at, self.timeout);
            if let Some(confirmed) = confirmed {
                self.lease.confirm(confirmed, self.timeout);
            }
        }
    }

    fn auth_reply(&mut self, header: &ReplyHeader) {
        if header.err != 0 {
            return self.end(SessionEnding::AuthFailed);
        }
        let Some(index) = self.auth_in_flight.pop_front() else { return };
        let server = self.server().unwrap_or_else(|| "".into());
        if let Some(token) = self.credentials[index].token.take() {
            let reply = ServerReply { zxid: header.zxid, code: 0, body: Bytes::new(), server };
            self.actions.push_back(SessionAction::Complete { token, outcome: Ok(reply) });
        }
    }

    fn call_reply(&mut self, now: Instant, header: &ReplyHeader, body: Bytes) {
        match self.in_flight.front() {
            Some(sent) if sent.xid == header.xid => {}
            Some(sent) => {
                let what = format!("a reply to request {} where {} is next", header.xid, sent.xid);
                return self.protocol_error(now, &what);
            }
            None => {
                return self
                    .protocol_error(now, &format!("a reply to request {}, which was not sent", header.xid));
            }
        }
        let Some(sent) = self.in_flight.pop_front() else { return };
        self.in_flight_units = self.in_flight_units.saturating_sub(sent.units);
        self.acknowledge(now, sent.sent_at, sent.proves.filter(|_| header.err == 0));
        // Earlier calls are carried out before the client ends, as long as the server replies.
        if let SessionPhase::Connected {
            usage: ConnectionUse::Closing { deadline } | ConnectionUse::HandingOver { deadline },
            ..
        } = &mut self.phase
        {
            *deadline = now + self.timeout / 3;
        }
        // Some replies carry zero or -1.
        self.last_zxid = self.last_zxid.max(header.zxid);
        let server = self.server().unwrap_or_else(|| "".into());
        let reply = ServerReply { zxid: header.zxid, code: header.err, body, server };
        match sent.purpose {
            RequestPurpose::Call { token, watch } => {
                if let Some(watch) = watch {
                    self.registered(now, &watch, header.err);
                }
                self.actions.push_back(SessionAction::Complete { token, outcome: Ok(reply) });
            }
            RequestPurpose::OpenFeed { token, feed } => {
                self.feed_opened(feed, reply.code, &reply.body);
                self.actions.push_back(SessionAction::Complete { token, outcome: Ok(reply) });
            }
            RequestPurpose::GrantFeed => {}
            RequestPurpose::Rewatch { persistent } => self.rewatched(persistent, header.err),
            RequestPurpose::Unwatch { watcher_type, path } => {
                self.unwatched(now, watcher_type, path, header.err)
            }
            RequestPurpose::Discover => self.discovered(now, &reply),
            RequestPurpose::Hello => self.hello_answered(header.err),
            RequestPurpose::Renew => self.lease.renewal_answered(now, header.err, self.timeout),
            RequestPurpose::Close => {
                for token in std::mem::take(&mut self.close_tokens) {
                    let outcome = Ok(reply.clone());
                    self.actions.push_back(SessionAction::Complete { token, outcome });
                }
                self.end(SessionEnding::Closed);
            }
        }
    }

    /// Handles the reply to a call that registers a watch.
    fn registered(&mut self, now: Instant, watch: &WatchRegistration, code: i32) {
        self.watches.end_registration(watch.watcher, watch.intent, &watch.path);
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
            self.actions.push_back(SessionAction::Log(LogEvent::WatchesRefused { code }));
        }
        for (kind, path) in persistent {
            let (watchers, kind_sent) = match code {
                0 => (self.watches.watchers(kind, &path), EventKind::Resynced),
                _ => (self.watches.remove_all(kind, &path), EventKind::WatchLost),
            };
            let path: Arc<str> = path.into();
            for watcher in watchers {
                let event = WatchEvent { kind: kind_sent, path: path.clone(), zxid: None };
                self.actions.push_back(SessionAction::Notify { watcher, event });
            }
        }
    }

    fn unwatched(&mut self, now: Instant, watcher_type: WatcherType, path: Box<str>, code: i32) {
        match ErrorCode::from_wire(code) {
            // Servers before 3.5 close the connection; the request is not sent again.
            Some(ErrorCode::Unimplemented) => self.supports_remove_watches = false,
            // Servers before 3.9 cannot name a persistent watch: they remove all watches of the path, or
            // none.
            Some(ErrorCode::MarshallingError) if watcher_type != WatcherType::Any => {
                if !self.watches.needs(WatcherType::Any, &path) {
                    self.remove_watch(now, WatcherType::Any, path);
                }
            }
            // NoWatcher: the watch fired while the removal was in flight.
            Some(_) | None => {}
        }
    }

    fn event(&mut self, now: Instant, zxid: i64, body: &[u8]) {
        let event = match WatcherEvent::decode(&mut Reader::new(body)) {
            Ok(event) => event,
            Err(error) => return self.protocol_error(now, &format!("event: {error}")),
        };
        let (Some(kind), Some(path)) = (EventType::from_wire(event.kind), event.path) else {
            self.actions.push_back(SessionAction::Log(LogEvent::UnknownEvent { kind: event.kind }));
            return;
        };
        self.event_zxid = self.event_zxid.max(zxid);
        let watchers = self.watches.fire(kind, &path);
        let path: Arc<str> = path.into();
        for watcher in watchers {
            let zxid = (zxid > 0).then_some(zxid);
            let event = WatchEvent { kind: kind.into(), path: path.clone(), zxid };
            self.actions.push_back(SessionAction::Notify { watcher, event });
        }
    }
}
