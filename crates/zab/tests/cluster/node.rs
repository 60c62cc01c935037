//! One server of the simulator: a peer, its disk and its state, which is the list of all transactions.

use std::collections::{BTreeMap, VecDeque};

use zebu_proto::{ServerId, Zxid};
use zebu_zab::{
    Action, Configuration, DiskTrust, EncodedTxn, IoId, LinkId, LogRead, Peer, PeerEvent, PeerSettings,
    RecoveredHistory,
};

use crate::changes;

/// The data that survives a crash.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    pub(crate) base: Vec<EncodedTxn>,
    pub(crate) log: Vec<EncodedTxn>,
    pub(crate) accepted: i64,
    pub(crate) current: i64,
    pub(crate) untrusted: bool,
    /// The config file, with dynamic reconfiguration.
    pub(crate) members: Option<Configuration>,
}

#[derive(Debug)]
pub(crate) enum Work {
    Append(EncodedTxn),
    Truncate(Zxid),
    Install(Vec<EncodedTxn>),
    SetAside,
    MarkTrusted,
    Accepted(u32),
    Current(u32),
}

pub(crate) struct Running {
    pub(crate) peer: Peer,
    pub(crate) state: Vec<EncodedTxn>,
    pub(crate) work: VecDeque<(IoId, Work)>,
    pub(crate) done_at: i64,
    pub(crate) received: BTreeMap<LinkId, Vec<EncodedTxn>>,
    pub(crate) serving: Option<zebu_zab::ServingRole>,
    /// An activated config that is not in the file yet.
    pub(crate) unwritten: Option<Configuration>,
}

pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) settings: PeerSettings,
    pub(crate) disk: Durable,
    pub(crate) running: Option<Running>,
}

pub(crate) fn last_of(entries: &[EncodedTxn]) -> Zxid {
    entries.last().map_or(Zxid::ZERO, |entry| entry.zxid)
}

impl Server {
    pub(crate) fn start(&mut self, now: i64, out: &mut Vec<Action>) {
        let state: Vec<EncodedTxn> = self.disk.base.iter().chain(&self.disk.log).cloned().collect();
        let recovered = RecoveredHistory {
            last: last_of(&state),
            contiguous_from: last_of(&self.disk.base),
            accepted_epoch: self.disk.accepted,
            current_epoch: self.disk.current,
            trust: if self.disk.untrusted { DiskTrust::Untrusted } else { DiskTrust::Trusted },
        };
        let dynamic = self.disk.members.as_ref().map(|file| changes::known(file, &state));
        let settings = PeerSettings { dynamic_config: dynamic, ..self.settings.clone() };
        let peer = Peer::new(settings, recovered, now, out);
        let (work, received) = (VecDeque::new(), BTreeMap::new());
        let (done_at, serving, unwritten) = (i64::MAX, None, None);
        self.running = Some(Running { peer, state, work, done_at, received, serving, unwritten });
    }

    /// Whether the disk has a transaction.
    pub(crate) fn holds(&self, entry: &EncodedTxn) -> bool {
        [&self.disk.base, &self.disk.log].into_iter().any(|entries| {
            let found = entries.binary_search_by_key(&entry.zxid, |entry| entry.zxid);
            found.is_ok_and(|index| entries[index] == *entry)
        })
    }

    /// Some of the transactions after `after`.
    pub(crate) fn read_log(&self, after: Zxid, up_to: Zxid, count: usize) -> LogRead {
        let start = if last_of(&self.disk.base) == after {
            0
        } else {
            match self.disk.log.iter().position(|entry| entry.zxid == after) {
                Some(index) => index + 1,
                None => return LogRead::Unavailable,
            }
        };
        let entries = self.disk.log[start..].iter().filter(|entry| entry.zxid <= up_to);
        let entries: Vec<EncodedTxn> = entries.take(count).cloned().collect();
        if entries.is_empty() { LogRead::Unavailable } else { LogRead::Entries(entries) }
    }

    /// The disk finishes its oldest append or command.
    pub(crate) fn finish_work(&mut self) -> Option<PeerEvent> {
        let running = self.running.as_mut()?;
        if let Some(members) = running.unwritten.take() {
            self.disk.members = Some(members);
        }
        let (io, work) = running.work.pop_front()?;
        match work {
            Work::Append(entry) => self.disk.log.push(entry),
            Work::Truncate(to) => {
                let known =
                    last_of(&self.disk.base) == to || self.disk.log.iter().any(|entry| entry.zxid == to);
                if !known {
                    return Some(PeerEvent::TruncateRefused { io });
                }
                self.disk.log.retain(|entry| entry.zxid <= to);
                running.state.retain(|entry| entry.zxid <= to);
            }
            Work::Install(state) => {
                self.disk.base = state.clone();
                self.disk.log.clear();
                running.state = state;
            }
            Work::SetAside => {
                self.disk.base.clear();
                self.disk.log.clear();
                self.disk.untrusted = true;
                running.state.clear();
            }
            Work::MarkTrusted => self.disk.untrusted = false,
            Work::Accepted(epoch) => self.disk.accepted = i64::from(epoch),
            Work::Current(epoch) => self.disk.current = i64::from(epoch),
        }
        Some(PeerEvent::Persisted { io })
    }
}
