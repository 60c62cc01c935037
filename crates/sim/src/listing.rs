//! Lists that ZooKeeper does not have: pages of children, scans of subtrees, and the lists and checks of
//! ClickHouse Keeper.

use zebu_proto::client::{
    KeeperRead, NextPage, PageReply, PageRequest, PaginatedReply, PaginatedRequest, ScanReply, ScanRequest,
};
use zebu_proto::{Jute, OpCode, Reader};

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListingRead {
    /// Children by name.
    Page(PageRequest),
    /// Children by creation.
    ByCreation(PaginatedRequest),
    /// The nodes of a subtree.
    Scan(ScanRequest),
    Keeper(KeeperRead),
}

impl ListingRead {
    pub(crate) fn op_code(&self) -> OpCode {
        match self {
            ListingRead::Page(_) => OpCode::Page,
            ListingRead::ByCreation(_) => OpCode::GetChildrenPaginated,
            ListingRead::Scan(_) => OpCode::Scan,
            ListingRead::Keeper(request) => request.op(),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ListingRead::Page(request) => request.encode(out),
            ListingRead::ByCreation(request) => request.encode(out),
            ListingRead::Scan(request) => request.encode(out),
            ListingRead::Keeper(request) => request.encode(out),
        }
    }

    /// Whether a walk begins with it.
    pub(crate) fn is_first(&self) -> bool {
        match self {
            ListingRead::Page(request) => request.after.is_empty(),
            ListingRead::ByCreation(request) => request.from == NextPage::FIRST,
            ListingRead::Scan(request) => request.after.is_empty(),
            ListingRead::Keeper(_) => false,
        }
    }

    /// The request for the page that follows a reply. `None` after the last page.
    pub(crate) fn next(&self, body: &[u8]) -> Option<ListingRead> {
        let mut reader = Reader::new(body);
        match self {
            ListingRead::Page(request) => {
                let after = PageReply::decode(&mut reader).ok()?.next?;
                Some(ListingRead::Page(PageRequest { after, ..request.clone() }))
            }
            ListingRead::ByCreation(request) => {
                let from = PaginatedReply::decode(&mut reader).ok()?.next;
                let next = PaginatedRequest { from, ..request.clone() };
                (from != NextPage::NONE).then_some(ListingRead::ByCreation(next))
            }
            ListingRead::Scan(request) => {
                let after = ScanReply::decode(&mut reader, request.stats, request.data).ok()?.next?;
                Some(ListingRead::Scan(ScanRequest { after, ..request.clone() }))
            }
            ListingRead::Keeper(_) => None,
        }
    }

    /// The names or paths on a page.
    pub(crate) fn items(&self, body: &[u8]) -> Vec<Box<str>> {
        let mut reader = Reader::new(body);
        match self {
            ListingRead::Page(_) => PageReply::decode(&mut reader).map(|it| it.children).unwrap_or_default(),
            ListingRead::ByCreation(_) => {
                PaginatedReply::decode(&mut reader).map(|it| it.children).unwrap_or_default()
            }
            ListingRead::Scan(request) => ScanReply::decode(&mut reader, request.stats, request.data)
                .map(|it| it.nodes.into_iter().map(|node| node.path).collect())
                .unwrap_or_default(),
            ListingRead::Keeper(_) => Vec::new(),
        }
    }
}
