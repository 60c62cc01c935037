//! The listing of a connection that waits for the order of children. At most one waits, because the
//! connection decodes no request behind it.

use zebu_proto::client::ReadRequest;
use zebu_tree::Credentials;

use super::ClientConnection;
use super::slot::{RequestMeta, RequestSlot, SlotWork};

impl ClientConnection {
    /// Whether the edge must call [`Replica::continue_listing`](crate::Replica::continue_listing).
    pub fn has_listing_to_run(&self) -> bool {
        self.slots.front().is_some_and(|slot| matches!(slot.work, SlotWork::Listing(_)))
    }

    /// Whether a listing waits for earlier requests, for a fence or for the order of children. It is always
    /// the last request of its connection.
    pub(super) fn awaits_listing(&self) -> bool {
        self.slots.back().is_some_and(|slot| match &slot.work {
            SlotWork::Listing(_) => true,
            SlotWork::Fenced { read, .. } => read.is_listing(),
            SlotWork::Write(..) | SlotWork::Read(..) | SlotWork::Reply(_) => false,
        })
    }

    /// Appends a listing that cannot be answered yet.
    pub(crate) fn push_listing(
        &mut self,
        meta: RequestMeta,
        request: ReadRequest<'_>,
        credentials: Credentials,
    ) {
        let work = SlotWork::Listing(Some((request.into_owned(), credentials)));
        self.push_slot(RequestSlot { meta, work });
    }

    /// Takes the listing in the first slot, which stays.
    pub(crate) fn take_listing(&mut self) -> Option<(RequestMeta, ReadRequest<'static>, Credentials)> {
        let slot = self.slots.front_mut()?;
        let SlotWork::Listing(listing) = &mut slot.work else { return None };
        let (request, credentials) = listing.take()?;
        Some((slot.meta, request, credentials))
    }

    /// Puts a listing back into the first slot.
    pub(crate) fn put_listing_back(&mut self, request: ReadRequest<'static>, credentials: Credentials) {
        if let Some(RequestSlot { work: SlotWork::Listing(listing), .. }) = self.slots.front_mut() {
            *listing = Some((request, credentials));
        }
    }

    /// Removes the listing in the first slot: it is answered.
    pub(crate) fn finish_listing(&mut self) {
        if self.has_listing_to_run() {
            self.pop_front();
        }
    }
}
