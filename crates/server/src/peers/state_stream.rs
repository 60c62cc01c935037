//! A whole state on its way between members, a slice at a time: no request waits for it, and only the slice is
//! in memory twice.

use std::io;

use zebu_node::Restore;
use zebu_proto::Zxid;
use zebu_storage::RecoveryTarget;
use zebu_storage::format::snapshot::{
    ContentLimits, Fed, StreamDecoder, append_node, begin_stream, end_stream,
};
use zebu_tree::{Tree, TreeOptions, WalkProgress, Walker};

use crate::settings;
use crate::shared::Shared;

/// Nodes that are copied under one hold of the lock.
const SLICE_NODES: usize = 500;

/// Whether there is more to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

/// Sends the state as it is while the walk lasts: what is decided meanwhile follows as transactions, and may be
/// applied again.
pub(super) struct Sender {
    walker: Walker,
    head: Vec<u8>,
    generation: u64,
}

impl Sender {
    pub(super) fn begin(shared: &Shared) -> Sender {
        let replica = shared.read();
        let tree = replica.tree();
        let mut head = Vec::new();
        let sessions: Vec<_> = tree.sessions().iter().map(|(&id, &timeout_ms)| (id, timeout_ms)).collect();
        let acls: Vec<_> = tree.acl_table().map(|(id, acl)| (id, &acl[..])).collect();
        begin_stream(sessions.into_iter(), acls.into_iter(), &mut head);
        Sender { walker: tree.walker(), head, generation: shared.generation() }
    }

    pub(super) fn next_slice(&mut self, shared: &Shared, out: &mut Vec<u8>) -> io::Result<Progress> {
        out.append(&mut self.head);
        let replica = shared.read();
        if shared.generation() != self.generation {
            return Err(io::Error::other("the state was replaced while it was sent"));
        }
        let progress = self.walker.next_slice(replica.tree(), SLICE_NODES, &mut |path, data, acl, stat| {
            append_node(path, data, acl, stat, out);
        });
        match progress {
            WalkProgress::More => Ok(Progress::More),
            WalkProgress::Void => Err(io::Error::other(
                "a session ended without a list of its ephemeral nodes; the learner comes again",
            )),
            WalkProgress::Done => {
                end_stream(out);
                Ok(Progress::Done)
            }
        }
    }
}

/// Takes a state.
pub(super) struct Receiver {
    decoder: StreamDecoder,
    restore: Restore,
    options: TreeOptions,
    zxid: Zxid,
}

impl Receiver {
    pub(super) fn new(shared: &Shared, zxid: Zxid) -> Receiver {
        let options = settings::tree_options(&shared.config, shared.hash_seed);
        let restore = Restore::new(options);
        Receiver { decoder: StreamDecoder::new(ContentLimits::default()), restore, options, zxid }
    }

    /// Takes bytes; returns how many were of the state, and the state when it is whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<(usize, Option<Tree>)> {
        let fed = self.decoder.feed(bytes, &mut self.restore);
        match fed.map_err(|flaw| io::Error::new(io::ErrorKind::InvalidData, flaw))? {
            Fed::More => Ok((bytes.len(), None)),
            Fed::End { left } => {
                let empty = Restore::new(self.options);
                let mut restore = std::mem::replace(&mut self.restore, empty);
                restore.snapshot_loaded(self.zxid);
                Ok((bytes.len() - left, Some(restore.finish())))
            }
        }
    }
}
