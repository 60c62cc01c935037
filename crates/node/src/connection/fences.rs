//! Reads of a connection that wait behind a fence. They keep their slots; the core releases them.

use zebu_proto::client::ReadRequest;

use super::ClientConnection;
use super::slot::{RequestMeta, RequestSlot, SlotWork};
use crate::freshness::FencedSlots;
use crate::prepared_reply::PreparedReply;

impl ClientConnection {
    /// Appends a read that waits. Returns its slot number.
    pub(crate) fn push_fenced_read(
        &mut self,
        meta: RequestMeta,
        request: ReadRequest<'_>,
        is_shared: bool,
    ) -> u64 {
        let (read, credentials) = (request.into_owned(), self.credentials.clone());
        self.push_slot(RequestSlot { meta, work: SlotWork::Fenced { read, credentials, is_shared } })
    }

    /// Whether a shared fence is on its way to the core, which has not begun it.
    pub(crate) fn is_fence_submitted(&self) -> bool {
        self.is_fence_submitted
    }

    pub(crate) fn mark_fence_submitted(&mut self) {
        self.is_fence_submitted = true;
    }

    /// Begins a shared fence. Returns the number of the first slot that it does not cover.
    pub(crate) fn begin_shared_fence(&mut self) -> u64 {
        self.is_fence_submitted = false;
        self.first_slot + self.slots.len() as u64
    }

    /// Lets reads pass. Returns their number.
    pub(crate) fn release_fence(&mut self, slots: FencedSlots) -> u64 {
        let mut released = 0;
        for (number, slot) in (self.first_slot..).zip(&mut self.slots) {
            let is_covered = match (slots, &slot.work) {
                (FencedSlots::Before(end), _) if number >= end => break,
                (FencedSlots::Before(_), SlotWork::Fenced { is_shared, .. }) => *is_shared,
                (FencedSlots::One(one), _) => number == one,
                (
                    FencedSlots::Before(_),
                    SlotWork::Write(..) | SlotWork::Read(..) | SlotWork::Reply(_) | SlotWork::Listing(_),
                ) => false,
            };
            let weight = slot.work.read_weight();
            if is_covered && slot.work.release() {
                released += 1;
                // The edge runs a listing.
                self.waiting_reads -= weight - slot.work.read_weight();
            }
        }
        released
    }

    /// Replaces a fenced read with its reply.
    pub(crate) fn fail_fence(&mut self, number: u64, reply: PreparedReply) {
        let is_fenced = |slot: &RequestSlot| matches!(slot.work, SlotWork::Fenced { .. });
        let index = number.checked_sub(self.first_slot).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)).filter(|slot| is_fenced(slot)) {
            self.waiting_reads -= slot.work.read_weight();
            slot.work = SlotWork::Reply(reply);
            slot.meta.op = None;
        }
    }
}
