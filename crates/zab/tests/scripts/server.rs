//! One server of a script: its peer, its disk and its links.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::quorum::ServerState;
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, DiskCommand, DiskTrust, EncodedTxn, IoId, LinkId, LogRead, Peer, PeerEvent, RecoveredHistory,
};

/// The data on the disk of a server.
#[derive(Clone, Debug)]
pub(crate) struct DiskState {
    /// The last transaction of the snapshot before the log.
    pub(crate) base: Zxid,
    pub(crate) log: Vec<EncodedTxn>,
    pub(crate) accepted_epoch: i64,
    pub(crate) current_epoch: i64,
    pub(crate) trust: DiskTrust,
}

impl DiskState {
    pub(crate) fn recovered(&self) -> RecoveredHistory {
        RecoveredHistory {
            last: self.log.last().map_or(self.base, |entry| entry.zxid),
            contiguous_from: self.base,
            accepted_epoch: self.accepted_epoch,
            current_epoch: self.current_epoch,
            trust: self.trust,
        }
    }

    pub(crate) fn read(&self, after: Zxid, up_to: Zxid) -> LogRead {
        let start = match self.log.iter().position(|entry| entry.zxid == after) {
            Some(index) => index + 1,
            None if after == self.base => 0,
            None => return LogRead::Unavailable,
        };
        let entries: Vec<EncodedTxn> =
            self.log[start..].iter().filter(|entry| entry.zxid <= up_to).cloned().collect();
        if entries.is_empty() { LogRead::Unavailable } else { LogRead::Entries(entries) }
    }

    fn execute(&mut self, write: DiskWrite) {
        match write {
            DiskWrite::Append(entry) => self.log.push(entry),
            DiskWrite::Command(DiskCommand::Truncate { to, .. }) => self.log.retain(|it| it.zxid <= to),
            DiskWrite::Command(DiskCommand::InstallSnapshot { zxid, .. }) => {
                self.base = zxid;
                self.log.clear();
            }
            DiskWrite::Command(DiskCommand::Quarantine { .. }) => {
                self.base = Zxid::ZERO;
                self.log.clear();
                self.trust = DiskTrust::Untrusted;
            }
            DiskWrite::Command(DiskCommand::MarkTrusted { .. }) => self.trust = DiskTrust::Trusted,
            DiskWrite::Command(DiskCommand::SaveAcceptedEpoch { epoch, .. }) => {
                self.accepted_epoch = i64::from(epoch)
            }
            DiskWrite::Command(DiskCommand::SaveCurrentEpoch { epoch, .. }) => {
                self.current_epoch = i64::from(epoch)
            }
        }
    }
}

/// A write that the disk has not finished.
#[derive(Debug)]
pub(crate) enum DiskWrite {
    Append(EncodedTxn),
    Command(DiskCommand),
}

/// The other end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEnd {
    pub(crate) server: ServerId,
    pub(crate) link: LinkId,
}

#[derive(Debug)]
pub(crate) struct ScriptServer {
    pub(crate) disk: DiskState,
    /// `None` while the server is down.
    pub(crate) peer: Option<Peer>,
    pub(crate) unfinished: VecDeque<(IoId, DiskWrite)>,
    pub(crate) links: BTreeMap<LinkId, LinkEnd>,
    /// The state in the election that the trace has shown.
    pub(crate) shown_state: Option<ServerState>,
}

impl ScriptServer {
    pub(crate) fn new(disk: DiskState) -> ScriptServer {
        let (unfinished, links) = (VecDeque::new(), BTreeMap::new());
        ScriptServer { disk, peer: None, unfinished, links, shown_state: None }
    }

    /// Queues the write that an action requests, if it is one.
    pub(crate) fn submit(&mut self, action: &Action) {
        match action {
            Action::Append { io, entry } => {
                self.unfinished.push_back((*io, DiskWrite::Append(entry.clone())));
            }
            Action::Disk(command) => {
                let io = match command {
                    DiskCommand::Truncate { io, .. }
                    | DiskCommand::InstallSnapshot { io, .. }
                    | DiskCommand::Quarantine { io }
                    | DiskCommand::MarkTrusted { io }
                    | DiskCommand::SaveAcceptedEpoch { io, .. }
                    | DiskCommand::SaveCurrentEpoch { io, .. } => *io,
                };
                self.unfinished.push_back((io, DiskWrite::Command(command.clone())));
            }
            _ => {}
        }
    }

    /// The disk finishes all writes.
    pub(crate) fn finish_writes(&mut self) -> Option<PeerEvent> {
        let io = self.unfinished.back()?.0;
        for (_, write) in std::mem::take(&mut self.unfinished) {
            self.disk.execute(write);
        }
        Some(PeerEvent::Persisted { io })
    }
}
