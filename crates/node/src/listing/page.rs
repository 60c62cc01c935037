//! page: children by name, with stats and data on demand.

use zebu_proto::client::{ChildKind, PageReply, PageRequest};
use zebu_proto::{Buffer, ErrorCode, Jute, Permissions, Stat};
use zebu_tree::watch::WatchKind;
use zebu_tree::{ChildBound, NodeRef, access};

use super::{ListingProgress, PAGE_BASE_BYTES};
use crate::read::{ReadContext, STAT_BYTES};

/// Bytes of a name beside its text, and of a null.
const LENGTH_BYTES: usize = 4;

impl ReadContext<'_> {
    pub(super) fn page(
        &self,
        request: &PageRequest,
        out: &mut Vec<u8>,
    ) -> Result<ListingProgress, ErrorCode> {
        let parent = self.readable_node(&request.path)?;
        let settings = &self.replica.listing_settings;
        let max = usize::try_from(request.max).unwrap_or(usize::MAX);
        // Children of another kind are visited too.
        let visited_max = match request.kind {
            ChildKind::All => max.min(settings.nodes_max),
            ChildKind::Persistent | ChildKind::Ephemeral => settings.nodes_max,
        };
        let after = ChildBound::AfterName(&request.after);
        let Some(found) =
            self.replica.tree.children_after(&parent, after, visited_max.saturating_add(1), settings.sort)
        else {
            return Ok(ListingProgress::Unfinished);
        };
        self.work.add_visits(found.len());
        let mut reply = PageReply {
            stat: parent.stat(),
            children: Vec::new(),
            stats: Vec::new(),
            data: Vec::new(),
            more: found.len() > visited_max,
            next: None,
        };
        let mut bytes = PAGE_BASE_BYTES;
        for child in found.iter().take(visited_max) {
            let is_listed = child.is_of_kind(request.kind);
            let child_bytes = if is_listed { self.child_bytes(child, request) } else { 0 };
            let is_full = reply.children.len() == max || bytes + child_bytes > settings.page_bytes_max;
            if is_full && !reply.children.is_empty() {
                reply.more = true;
                break;
            }
            reply.next = Some(child.name().into());
            if is_listed {
                bytes += child_bytes;
                self.add_child(child, request, &mut reply);
            }
        }
        if !reply.more {
            reply.next = None;
            self.watch(&request.path, request.watch, WatchKind::Child)?;
        }
        reply.encode(out);
        Ok(ListingProgress::Complete)
    }

    fn add_child(&self, child: &NodeRef<'_>, request: &PageRequest, reply: &mut PageReply) {
        let may_read = self.may_read(child);
        reply.children.push(child.name().into());
        if request.stats {
            let hidden = Stat { czxid: -1, ..Stat::default() };
            reply.stats.push(if may_read { child.stat() } else { hidden });
        }
        if request.data {
            let data: Buffer = if may_read { child.data().map(Into::into) } else { None };
            reply.data.push(data);
        }
    }

    fn child_bytes(&self, child: &NodeRef<'_>, request: &PageRequest) -> usize {
        let stat = if request.stats { STAT_BYTES } else { 0 };
        let data = if request.data { LENGTH_BYTES + child.data_length() } else { 0 };
        LENGTH_BYTES + child.name().len() + stat + data
    }

    pub(crate) fn may_read(&self, node: &NodeRef<'_>) -> bool {
        access::allowed(node.acl(), Permissions::READ, self.credentials, &self.replica.policy)
    }
}
