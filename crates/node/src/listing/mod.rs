//! Lists that may be longer than a packet: pages of children by name and by creation, and scans of subtrees.
//!
//! The order of many children is prepared in slices of bounded work. A listing that has to wait for it keeps
//! its slot, and its connection decodes no further request. The edge calls [`Replica::continue_listing`]
//! until it is answered, and releases the replica in between.

mod page;
mod paginated;
mod scan;

use zebu_proto::ErrorCode;
use zebu_proto::client::ReadRequest;
use zebu_tree::{Credentials, SortLimits};

use crate::connection::{ClientConnection, RequestMeta};
use crate::read::ReadContext;
use crate::read_work::ReadWork;
use crate::replica::Replica;
use crate::traffic::SentReply;

/// Limits of listings and of other replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingSettings {
    /// Work under one hold of the replica.
    pub sort: SortLimits,
    /// Children of one page, and nodes that a scan visits under one hold of the replica.
    pub nodes_max: usize,
    /// Bytes of one page. One child may exceed them.
    pub page_bytes_max: usize,
    /// Bytes of one page of a scan (`scan.maxBytes`). One node may exceed them.
    pub scan_bytes_max: usize,
    /// A read with a longer reply fails (`reply.maxbuffer`).
    pub reply_bytes_max: usize,
}

/// The longest packet that clients of ZooKeeper accept by default.
pub const CLIENT_PACKET_MAX: usize = 0xf_ffff;

/// Bytes of a page beside its children: the header of the reply, a stat and the place of the next page.
const PAGE_BASE_BYTES: usize = 128;

impl Default for ListingSettings {
    fn default() -> ListingSettings {
        ListingSettings {
            sort: SortLimits { at_once: 1024, per_slice: 256 },
            nodes_max: 10_000,
            page_bytes_max: CLIENT_PACKET_MAX,
            scan_bytes_max: 512 << 10,
            reply_bytes_max: usize::MAX,
        }
    }
}

/// How far a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingProgress {
    /// The body is complete.
    Complete,
    /// Another call must continue.
    Unfinished,
}

/// A listing that is answered now.
struct ListingCall<'a> {
    meta: RequestMeta,
    request: &'a ReadRequest<'a>,
    credentials: &'a Credentials,
}

impl Replica {
    /// Sets the limits of listings and replies.
    #[must_use]
    pub fn with_listings(mut self, settings: ListingSettings) -> Replica {
        self.listing_settings = settings;
        self
    }

    /// The limits of listings and replies.
    pub fn listing_settings(&self) -> &ListingSettings {
        &self.listing_settings
    }

    /// Answers a listing that no other request of its connection precedes, or begins to wait for it.
    pub(crate) fn begin_listing(
        &self,
        connection: &mut ClientConnection,
        meta: RequestMeta,
        request: ReadRequest<'_>,
        credentials: Credentials,
    ) {
        let call = ListingCall { meta, request: &request, credentials: &credentials };
        if self.try_listing(connection, &call, meta.received_ms) == ListingProgress::Unfinished {
            connection.push_listing(meta, request, credentials);
        }
    }

    /// Does a slice of the work for the first request of a connection, if it is a listing. Returns whether
    /// the caller must call again.
    pub fn continue_listing(&self, connection: &mut ClientConnection, now_ms: i64) -> bool {
        let Some((meta, request, credentials)) = connection.take_listing() else { return false };
        let call = ListingCall { meta, request: &request, credentials: &credentials };
        match self.try_listing(connection, &call, now_ms) {
            ListingProgress::Unfinished => {
                self.metrics.listing_slices.increment();
                connection.put_listing_back(request, credentials);
                true
            }
            ListingProgress::Complete => {
                connection.finish_listing();
                self.run_ready_requests(connection, now_ms);
                connection.has_listing_to_run()
            }
        }
    }

    fn try_listing(
        &self,
        connection: &mut ClientConnection,
        call: &ListingCall<'_>,
        now_ms: i64,
    ) -> ListingProgress {
        let mut body = Vec::new();
        let context = ReadContext {
            replica: self,
            credentials: call.credentials,
            connection: connection.id,
            is_clickhouse: connection.is_clickhouse,
            work: ReadWork::default(),
        };
        let encoded = context.encode_listing(call.request, &mut body);
        connection.add_read_work(context.work.total(body.len()));
        if encoded == Ok(ListingProgress::Unfinished) {
            return ListingProgress::Unfinished;
        }
        self.metrics.listing_pages.increment();
        let sent =
            SentReply { meta: call.meta, now_ms, outbox_before: connection.outbox_len(), refused_bytes: 0 };
        connection.push_reply(call.meta, self.last_zxid().0, now_ms, |out| {
            encoded?;
            out.extend_from_slice(&body);
            Ok(())
        });
        self.observe_read(connection, call.request, sent);
        ListingProgress::Complete
    }
}

impl ReadContext<'_> {
    fn encode_listing(
        &self,
        request: &ReadRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<ListingProgress, ErrorCode> {
        match request {
            ReadRequest::GetChildrenPaginated(request) => self.paginated(request, out),
            ReadRequest::Page(request) => self.page(request, out),
            ReadRequest::Scan(request) => self.scan(request, out),
            // Wildcard: the caller passes listings only.
            _ => Err(ErrorCode::Unimplemented),
        }
    }
}
