//! The slot of a queued request: what its reply needs, and what it waits for.

use zebu_proto::OpCode;
use zebu_proto::client::ReadRequest;
use zebu_tree::Credentials;

use crate::limits::HEAVY_READ_WEIGHT;
use crate::prepared_reply::PreparedReply;
use crate::shape::ReplyShape;

#[derive(Debug)]
pub(crate) enum SlotWork {
    Write(ReplyShape),
    Read(ReadRequest<'static>, Credentials),
    /// A read that waits until the state is fresh enough. Reads with the same need share a fence.
    Fenced {
        read: ReadRequest<'static>,
        credentials: Credentials,
        is_shared: bool,
    },
    Reply(PreparedReply),
    /// A read that the edge runs, in slices. `None` while a slice runs.
    Listing(Option<(ReadRequest<'static>, Credentials)>),
}

impl SlotWork {
    /// How much of the limit of waiting reads it takes: nothing, unless the core runs it as a read.
    pub(super) fn read_weight(&self) -> u16 {
        match self {
            SlotWork::Read(read, _) | SlotWork::Fenced { read, .. } => match read {
                ReadRequest::MultiRead(_) | ReadRequest::Keeper(_) => HEAVY_READ_WEIGHT,
                // Wildcard: the work of all others is small, or the edge does it.
                _ => 1,
            },
            SlotWork::Write(..) | SlotWork::Reply(_) | SlotWork::Listing(_) => 0,
        }
    }

    /// Makes a fenced read a plain one. Returns whether it was fenced.
    pub(super) fn release(&mut self) -> bool {
        match std::mem::replace(self, SlotWork::Write(ReplyShape::Empty)) {
            SlotWork::Fenced { read, credentials, .. } => {
                *self = match read.is_listing() {
                    true => SlotWork::Listing(Some((read, credentials))),
                    false => SlotWork::Read(read, credentials),
                };
                true
            }
            other
            @ (SlotWork::Write(..) | SlotWork::Read(..) | SlotWork::Reply(_) | SlotWork::Listing(_)) => {
                *self = other;
                false
            }
        }
    }
}

/// The part of a request that its reply needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestMeta {
    pub(crate) xid: i32,
    pub(crate) op: Option<OpCode>,
    pub(crate) received_ms: i64,
    /// Length of the request in bytes.
    pub(crate) bytes: u32,
    /// Length of its path among the queued paths of the connection; zero without one.
    pub(crate) path_bytes: u16,
}

#[derive(Debug)]
pub(crate) struct RequestSlot {
    pub(crate) meta: RequestMeta,
    pub(crate) work: SlotWork,
}

/// A write that left its slot.
pub(crate) struct WriteSlot {
    pub(crate) meta: RequestMeta,
    pub(crate) shape: ReplyShape,
}
