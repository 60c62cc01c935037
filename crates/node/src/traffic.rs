//! Observes requests: samples for the hottest paths and clients, slow requests and large replies.
//!
//! A connection collects them, and the edge takes them when it takes the replies, outside of the replica's
//! lock. Nothing here decides anything about a request.

use zebu_metrics::{RequestSample, cut_text};
use zebu_proto::OpCode;
use zebu_proto::client::read::Watch;
use zebu_proto::client::{KeeperRead, MultiOp, MultiReadOp, ReadRequest, WriteRequest};
use zebu_tree::access;

use crate::connection::{ClientConnection, RequestMeta};
use crate::replica::Replica;

/// Samples of a connection between two reports. Later ones are lost.
const SAMPLES_MAX: usize = 64;

/// Slow requests and large replies of a connection between two reports. Later ones are only counted.
const NOTABLE_MAX: usize = 8;

/// Operations of one multi that become samples.
const SAMPLED_OPS_MAX: usize = 16;

/// Bytes of a path that are kept.
pub(crate) const PATH_BYTES_MAX: usize = 1024;

/// Which requests are observed. The default observes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficSettings {
    /// One of this many requests becomes a sample, on average; zero takes no samples.
    pub sample_every: u32,
    /// A request that takes this many milliseconds is slow.
    pub slow_request_ms: i64,
    /// A reply of this many bytes is large.
    pub large_reply_bytes: usize,
    /// Paths that one connection may watch.
    pub watched_paths_max: usize,
}

impl Default for TrafficSettings {
    fn default() -> TrafficSettings {
        TrafficSettings {
            sample_every: 0,
            slow_request_ms: i64::MAX,
            large_reply_bytes: usize::MAX,
            watched_paths_max: usize::MAX,
        }
    }
}

/// A request that took long, or that has a large reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotableRequest {
    /// The operation.
    pub op: Option<OpCode>,
    /// The path, cut at a limit; the first path of a multi.
    pub path: Option<Box<str>>,
    /// Milliseconds from the receipt to the reply.
    pub duration_ms: i64,
    /// Bytes of the reply.
    pub reply_bytes: usize,
    /// Whether the duration reaches its threshold.
    pub is_slow: bool,
    /// Whether the reply reaches its threshold.
    pub is_large: bool,
}

/// The observations of a connection since the last report.
#[derive(Debug, Default)]
pub struct TrafficReport {
    /// The name of the authenticated user of the samples.
    pub user: Option<Box<str>>,
    /// Sampled requests.
    pub samples: Vec<RequestSample>,
    /// Slow requests and large replies.
    pub notable: Vec<NotableRequest>,
    /// Further slow requests.
    pub more_slow: u64,
    /// Further large replies.
    pub more_large: u64,
}

impl TrafficReport {
    fn add_notable(&mut self, request: NotableRequest) {
        if self.notable.len() < NOTABLE_MAX {
            self.notable.push(request);
        } else {
            self.more_slow += u64::from(request.is_slow);
            self.more_large += u64::from(request.is_large);
        }
    }
}

/// A reply that was just appended to an outbox.
#[derive(Clone, Copy)]
pub(crate) struct SentReply {
    pub(crate) meta: RequestMeta,
    pub(crate) now_ms: i64,
    /// Bytes of the outbox before it.
    pub(crate) outbox_before: usize,
    /// Bytes of a reply that was too long and became an error.
    pub(crate) refused_bytes: usize,
}

impl SentReply {
    /// Bytes of the reply, sent or not.
    fn bytes(&self, connection: &ClientConnection) -> usize {
        (connection.outbox_len() - self.outbox_before).max(self.refused_bytes)
    }
}

impl Replica {
    /// Observes requests. Without this call none is observed.
    pub fn with_traffic(mut self, settings: TrafficSettings) -> Replica {
        self.traffic = settings;
        self
    }

    /// Keeps the path of a write, if its reply may need it for the log. Returns the length that is kept.
    #[inline]
    pub(crate) fn queue_path(&self, connection: &mut ClientConnection, request: &WriteRequest) -> u16 {
        if self.traffic.slow_request_ms == i64::MAX && self.traffic.large_reply_bytes == usize::MAX {
            return 0;
        }
        first_path(request).map_or(0, |path| connection.queue_path(path))
    }

    /// Observes a read that was answered.
    #[inline]
    pub(crate) fn observe_read(
        &self,
        connection: &mut ClientConnection,
        request: &ReadRequest<'_>,
        sent: SentReply,
    ) {
        let bytes = sent.bytes(connection);
        let is_notable = self.is_notable(sent.now_ms - sent.meta.received_ms, bytes);
        let is_sampled = connection.is_sample_due(self.traffic.sample_every);
        if is_notable || is_sampled {
            self.record_read(connection, request, sent, is_sampled);
        }
    }

    /// Observes a write or a sync that was answered. Without a path it is the one that was queued.
    #[inline]
    pub(crate) fn observe_reply(
        &self,
        connection: &mut ClientConnection,
        path: Option<&str>,
        sent: SentReply,
    ) {
        let bytes = connection.outbox_len() - sent.outbox_before;
        if self.is_notable(sent.now_ms - sent.meta.received_ms, bytes) {
            self.record_reply(connection, path, sent, bytes);
        }
    }

    #[cold]
    fn record_reply(
        &self,
        connection: &mut ClientConnection,
        path: Option<&str>,
        sent: SentReply,
        bytes: usize,
    ) {
        let path = path.or_else(|| connection.path_of_answered(sent.meta.path_bytes));
        let request = self.notable(sent, bytes, path);
        connection.traffic_report().add_notable(request);
    }

    /// Observes a write that was received.
    #[inline]
    pub(crate) fn observe_write(&self, connection: &mut ClientConnection, request: &WriteRequest) {
        if connection.is_sample_due(self.traffic.sample_every) {
            self.record_write(connection, request);
        }
    }

    #[inline]
    fn is_notable(&self, duration_ms: i64, reply_bytes: usize) -> bool {
        duration_ms >= self.traffic.slow_request_ms || reply_bytes >= self.traffic.large_reply_bytes
    }

    fn notable(&self, sent: SentReply, reply_bytes: usize, path: Option<&str>) -> NotableRequest {
        let duration_ms = sent.now_ms - sent.meta.received_ms;
        NotableRequest {
            op: sent.meta.op,
            path: path.map(bounded),
            duration_ms,
            reply_bytes,
            is_slow: duration_ms >= self.traffic.slow_request_ms,
            is_large: reply_bytes >= self.traffic.large_reply_bytes,
        }
    }

    #[cold]
    fn record_read(
        &self,
        connection: &mut ClientConnection,
        request: &ReadRequest<'_>,
        sent: SentReply,
        is_sampled: bool,
    ) {
        let bytes = sent.bytes(connection);
        if self.is_notable(sent.now_ms - sent.meta.received_ms, bytes) {
            let request = self.notable(sent, bytes, path_of(request));
            connection.traffic_report().add_notable(request);
        }
        if !is_sampled || matches!(request, ReadRequest::Ping) {
            return;
        }
        if let ReadRequest::MultiRead(ops) = request {
            let paths = ops.iter().map(MultiReadOp::path);
            let share = bytes as u64 / (ops.len() as u64).max(1);
            let sample = RequestSample { is_read: true, bytes_out: share, ..RequestSample::default() };
            self.record_samples(connection, paths, &sample);
            return;
        }
        let sets_watch = match request {
            ReadRequest::Exists(_, watch)
            | ReadRequest::GetData(_, watch)
            | ReadRequest::GetChildren(_, watch)
            | ReadRequest::GetChildren2(_, watch) => *watch == Watch::Set,
            ReadRequest::GetChildrenPaginated(request) => request.watch == Watch::Set,
            ReadRequest::Page(request) => request.watch == Watch::Set,
            ReadRequest::AddWatch(..) => true,
            ReadRequest::Keeper(request) => {
                matches!(&**request, KeeperRead::List(list) if list.watch == Watch::Set)
            }
            // Wildcard: no other read sets a watch. setWatches restores those of an earlier connection.
            _ => false,
        };
        let is_read = !matches!(request, ReadRequest::AddWatch(..));
        let sample =
            RequestSample { is_read, sets_watch, bytes_out: bytes as u64, ..RequestSample::default() };
        self.record_samples(connection, path_of(request).into_iter(), &sample);
    }

    #[cold]
    fn record_write(&self, connection: &mut ClientConnection, request: &WriteRequest) {
        let sample = RequestSample { is_write: true, ..RequestSample::default() };
        if let WriteRequest::Multi(ops) = request {
            self.record_samples(connection, ops.iter().filter_map(path_of_op), &sample);
        } else {
            self.record_samples(connection, first_path(request).into_iter(), &sample);
        }
    }

    /// Records one sample per path, or one sample without a path.
    fn record_samples<'a>(
        &self,
        connection: &mut ClientConnection,
        paths: impl Iterator<Item = &'a str>,
        sample: &RequestSample,
    ) {
        let user = self.user_of(connection);
        let report = connection.traffic_report();
        report.user = user;
        let mut is_continued = false;
        for path in paths.take(SAMPLED_OPS_MAX) {
            if report.samples.len() < SAMPLES_MAX {
                report.samples.push(RequestSample {
                    path: Some(bounded(path)),
                    is_continued,
                    ..sample.clone()
                });
            }
            is_continued = true;
        }
        if !is_continued && report.samples.len() < SAMPLES_MAX {
            report.samples.push(sample.clone());
        }
    }

    /// The newest identity of a client beside its address, without secrets.
    fn user_of(&self, connection: &ClientConnection) -> Option<Box<str>> {
        let ids = connection.credentials.iter().rev();
        let mut names = ids
            .filter(|id| id.scheme.as_deref() != Some("ip"))
            .map(|id| access::user_name(id, &self.policy))
            .filter(|name| !name.is_empty());
        names.next().map(bounded)
    }
}

fn path_of<'a>(request: &'a ReadRequest<'_>) -> Option<&'a str> {
    match request {
        ReadRequest::Exists(path, _)
        | ReadRequest::GetData(path, _)
        | ReadRequest::GetChildren(path, _)
        | ReadRequest::GetChildren2(path, _)
        | ReadRequest::GetAcl(path)
        | ReadRequest::GetAllChildrenNumber(path) => Some(path),
        ReadRequest::GetEphemerals(path)
        | ReadRequest::Sync(path)
        | ReadRequest::CheckWatches(path, _)
        | ReadRequest::RemoveWatches(path, _)
        | ReadRequest::AddWatch(path, _) => path.as_deref(),
        ReadRequest::MultiRead(ops) => ops.first().map(MultiReadOp::path),
        ReadRequest::Keeper(request) => request.path(),
        ReadRequest::GetChildrenPaginated(request) => Some(&request.path),
        ReadRequest::Page(request) => Some(&request.path),
        ReadRequest::Scan(request) => Some(&request.root),
        ReadRequest::Ping | ReadRequest::WhoAmI | ReadRequest::SetWatches(_) => None,
    }
}

fn first_path(request: &WriteRequest) -> Option<&str> {
    match request {
        WriteRequest::Create(create) => create.path.as_deref(),
        WriteRequest::Delete(delete) => delete.path.as_deref(),
        WriteRequest::SetData(set) => set.path.as_deref(),
        WriteRequest::SetAcl(set) => set.path.as_deref(),
        WriteRequest::Multi(ops) => ops.iter().find_map(path_of_op),
        WriteRequest::DeleteContainer { path } => Some(path),
        WriteRequest::DeleteTree(request) => Some(&request.root),
        WriteRequest::Keeper(write) => write.path().as_deref(),
        WriteRequest::Reconfig(_)
        | WriteRequest::Refused(_)
        | WriteRequest::CreateSession { .. }
        | WriteRequest::CloseSession => None,
    }
}

fn path_of_op(op: &MultiOp) -> Option<&str> {
    op.path().as_deref()
}

fn bounded(text: &str) -> Box<str> {
    cut_text(text, PATH_BYTES_MAX).into()
}
