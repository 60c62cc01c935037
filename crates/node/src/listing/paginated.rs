//! getChildrenPaginated: names of children in the order of their creation, as LinkedIn's fork answers it.

use zebu_proto::client::{NextPage, PaginatedReply, PaginatedRequest};
use zebu_proto::{ErrorCode, Jute};
use zebu_tree::watch::WatchKind;
use zebu_tree::{ChildBound, NodeRef};

use super::{ListingProgress, PAGE_BASE_BYTES};
use crate::read::ReadContext;

/// Children of one transaction that a page skips at most: a transaction that creates more is too long.
const OFFSET_MAX: usize = 1 << 17;

/// Bytes of a name beside its text.
const LENGTH_BYTES: usize = 4;

impl ReadContext<'_> {
    pub(super) fn paginated(
        &self,
        request: &PaginatedRequest,
        out: &mut Vec<u8>,
    ) -> Result<ListingProgress, ErrorCode> {
        let parent = self.readable_node(&request.path)?;
        let (children, next) = match self.all_at_once(&parent, request) {
            Some(children) => (children, NextPage::NONE),
            None => match self.oldest_first(&parent, request) {
                Some(page) => page,
                None => return Ok(ListingProgress::Unfinished),
            },
        };
        if next == NextPage::NONE {
            self.watch(&request.path, request.watch, WatchKind::Child)?;
        }
        PaginatedReply { children, stat: parent.stat(), next }.encode(out);
        Ok(ListingProgress::Complete)
    }

    /// All children in any order, if the client asks for that and they fit.
    fn all_at_once(&self, parent: &NodeRef<'_>, request: &PaginatedRequest) -> Option<Vec<Box<str>>> {
        let settings = &self.replica.listing_settings;
        let asks_for_all = request.max == i32::MAX && request.from.min_czxid <= 0;
        if !asks_for_all || parent.num_children() > settings.nodes_max {
            return None;
        }
        self.work.add_visits(parent.num_children());
        let bytes: usize = parent.children().map(|name| LENGTH_BYTES + name.len()).sum();
        let fits = PAGE_BASE_BYTES + bytes <= settings.page_bytes_max;
        fits.then(|| parent.children().map(Box::from).collect())
    }

    /// The page, and where the next one begins. `None` if the order is not ready.
    fn oldest_first(
        &self,
        parent: &NodeRef<'_>,
        request: &PaginatedRequest,
    ) -> Option<(Vec<Box<str>>, NextPage)> {
        let settings = &self.replica.listing_settings;
        let max = usize::try_from(request.max).unwrap_or(usize::MAX).min(settings.nodes_max);
        let NextPage { min_czxid, offset } = request.from;
        let offset = usize::try_from(offset).unwrap_or(0).min(OFFSET_MAX);
        let wanted = max.saturating_add(offset).saturating_add(1);
        let from = ChildBound::FromCreation(min_czxid);
        let found = self.replica.tree.children_after(parent, from, wanted, settings.sort)?;
        self.work.add_visits(found.len());
        let of_first = found.iter().take_while(|child| child.czxid() <= min_czxid).count();
        let first = offset.min(of_first);
        let mut bytes = PAGE_BASE_BYTES;
        let mut end = first;
        while let Some(child) = found.get(end).filter(|_| end - first < max) {
            bytes += LENGTH_BYTES + child.name().len();
            if bytes > settings.page_bytes_max && end > first {
                break;
            }
            end += 1;
        }
        let names = found[first..end].iter().map(|child| child.name().into()).collect();
        let Some(next) = found.get(end) else { return Some((names, NextPage::NONE)) };
        let czxid = next.czxid();
        let before = found[..end].iter().rev().take_while(|child| child.czxid() == czxid).count();
        let next = NextPage { min_czxid: czxid, offset: i32::try_from(before).unwrap_or(i32::MAX) };
        Some((names, next))
    }
}
