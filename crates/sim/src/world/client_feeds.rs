//! Feeds of clients: they are opened, opened again after a lost connection, and compared with the history.

use std::rc::Rc;

use zebu_client::core::{FeedId, FeedSignal, ServerReply, SessionRequest};
use zebu_proto::client::feed::{FEATURE_FEED, FROM_NOW};
use zebu_proto::client::{ClientHello, FeedOpened, FeedPush};
use zebu_proto::{Jute, Reader};

use super::World;
use crate::check::g29_feeds;
use crate::client::FeedStage;
use crate::coverage::CoveredPath;
use crate::operation::Operation;

impl World {
    /// Opens the feed of a client, if it wants one now.
    pub(super) fn open_feed(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if !it.wants_feed(&self.core.parameters.workload) {
            return;
        }
        self.call(client, Operation::Hello(ClientHello { features: FEATURE_FEED }));
        let Some(feed) = &mut self.clients[client].feed else { return };
        feed.id = FeedId(feed.id.0 + 1);
        feed.stage = FeedStage::Opening;
        let (id, operation) = (feed.id, Operation::Feed(feed.open.clone()));
        let mut body = Vec::new();
        operation.encode(&mut body);
        let op = operation.op_code();
        let call = self.core.checker.called(client, Rc::new(operation));
        let it = &mut self.clients[client];
        let disconnects_seen = it.session.disconnects();
        it.outstanding += 1;
        it.waiting.push_back(call);
        let instant = it.instant(self.core.now);
        let request =
            SessionRequest { op, body: body.into(), watch: None, disconnects_seen, connection: None };
        it.session.open_feed(instant, request, id, call);
    }

    /// The call that opens the feed of a client has ended.
    pub(super) fn feed_opened(&mut self, client: usize, answer: Option<&ServerReply>) {
        let Some(feed) = self.clients[client].feed.as_mut().filter(|it| it.stage == FeedStage::Opening)
        else {
            return;
        };
        let opened = answer.filter(|answer| answer.code == 0);
        let opened = opened.and_then(|answer| FeedOpened::decode(&mut Reader::new(&answer.body)).ok());
        match opened {
            Some(opened) => {
                feed.stage = FeedStage::Open;
                if feed.open.after == FROM_NOW {
                    feed.open.after = opened.last;
                }
                self.core.count(CoveredPath::FeedOpened);
            }
            None => feed.stage = FeedStage::Closed,
        }
    }

    /// A feed gets a push, or loses its connection.
    pub(super) fn feed_signal(&mut self, client: usize, id: FeedId, signal: FeedSignal) {
        let Some(feed) = self.clients[client].feed.as_mut().filter(|it| it.id == id) else { return };
        let (push, bytes) = match signal {
            FeedSignal::Push { push, bytes } => (push, bytes),
            FeedSignal::Lost => {
                feed.stage = FeedStage::Closed;
                return;
            }
        };
        match push {
            FeedPush::Batch(batch) => {
                let verdict = g29_feeds::check_batch(&self.core.checker, client, &feed.open, &batch);
                feed.open.after = batch.to;
                self.core.checker.report(verdict);
                let fed = &mut self.core.checker.fed[client];
                *fed = (*fed).max(batch.to);
                self.core.mix(batch.to as u64 ^ batch.records.len() as u64);
                self.core.trace_line(format_args!(
                    "c{client} is fed from {:#x} to {:#x}: {} records",
                    batch.from,
                    batch.to,
                    batch.records.len()
                ));
                for _ in &batch.records {
                    self.core.count(CoveredPath::FeedRecord);
                }
                let it = &mut self.clients[client];
                let instant = it.instant(self.core.now);
                it.session.grant_feed(instant, id, i32::try_from(bytes).unwrap_or(i32::MAX));
            }
            FeedPush::End(end) => {
                self.core
                    .trace_line(format_args!("c{client} loses its feed at {:#x}: {end:?}", feed.open.after));
                feed.stage = FeedStage::Closed;
                // What it misses is read again.
                feed.open.after = FROM_NOW;
                self.core.count(CoveredPath::FeedPurged);
            }
        }
    }

    /// Open feeds that are behind their servers, although these are healed.
    pub(super) fn feeds_behind(&self, servers: &[usize], last: i64) -> Vec<String> {
        let mut behind = Vec::new();
        for (client, it) in self.clients.iter().enumerate() {
            let Some(feed) = it.feed.as_ref().filter(|feed| feed.stage == FeedStage::Open) else { continue };
            let is_at_healed = it.link.is_some_and(|link| servers.contains(&link.server));
            if is_at_healed && feed.open.after < last {
                behind.push(format!(
                    "the feed of client {client} is at {:#x}, not at {last:#x}",
                    feed.open.after
                ));
            }
        }
        behind
    }
}
