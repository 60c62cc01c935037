//! scan: the nodes of a subtree that the client may read.

use zebu_proto::ErrorCode;
use zebu_proto::Jute;
use zebu_proto::client::{ScanRequest, ScannedNode};
use zebu_proto::jute::encode_count;
use zebu_tree::{NodeRef, ScanBounds, ScanPlace, ScanVisit};

use super::{ListingProgress, PAGE_BASE_BYTES};
use crate::read::ReadContext;

impl ReadContext<'_> {
    pub(super) fn scan(
        &self,
        request: &ScanRequest,
        out: &mut Vec<u8>,
    ) -> Result<ListingProgress, ErrorCode> {
        let root = self.readable_node(&request.root)?;
        let settings = &self.replica.listing_settings;
        let bounds = ScanBounds {
            depth: usize::try_from(request.depth).ok(),
            work_max: settings.nodes_max,
            sort: settings.sort,
        };
        let bytes_max = usize::try_from(request.bytes).unwrap_or(usize::MAX).min(settings.scan_bytes_max);
        let (mut nodes, mut count) = (Vec::new(), 0);
        let visit = |path: &str, node: &NodeRef<'_>| {
            self.work.add_visits(1);
            if !self.may_read(node) {
                return ScanVisit::Skip;
            }
            let before = nodes.len();
            let stat = request.stats.then(|| node.stat());
            let data = request.data.then(|| node.data().map(Into::into));
            ScannedNode { path: path.into(), stat, data }.encode(&mut nodes);
            if count > 0 && PAGE_BASE_BYTES + nodes.len() > bytes_max {
                nodes.truncate(before);
                return ScanVisit::Stop;
            }
            count += 1;
            ScanVisit::Descend
        };
        let place = self
            .replica
            .tree
            .scan_subtree(&root, &request.after, bounds, visit, |node| self.may_read(node))
            .ok_or(ErrorCode::BadArguments)?;
        let next = match place {
            ScanPlace::End => None,
            ScanPlace::At(place) => Some(place.into_boxed_str()),
            ScanPlace::Preparing => return Ok(ListingProgress::Unfinished),
        };
        encode_count(count, out);
        out.extend_from_slice(&nodes);
        next.is_some().encode(out);
        next.encode(out);
        Ok(ListingProgress::Complete)
    }
}
