//! Checks a record: everything in it is compared with the history, in the order in which it happened. A
//! transaction is appended to the committed history when a client first shows it, so that no earlier frame
//! can show it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use zebu_client::core::ServerReply;
use zebu_proto::txn::{Txn, TxnHeader};
use zebu_proto::{SessionId, Zxid};

use super::record::{ClientRecord, RecordKind};
use crate::check::g10_sync::SyncScope;
use crate::check::{Checker, CheckerLimits, Frame, ServerMode, g09_timeliness, g18_session_expiry};
use crate::committed_history::ReconfigRights;
use crate::history::{CheckResult, Violation};
use crate::members::EnsembleConfig;
use crate::operation::Operation;
use crate::queue::MS;
use crate::run_parameters::ServerKinds;
use crate::server::start::tree_options;

const WIRE: &str = "wire";
const G17: &str = "g17_session_liveness";
const G22: &str = "g22_replica_equality";

/// A transaction of the one history.
#[derive(Clone, Debug)]
pub struct HistoryTxn {
    /// Its zxid.
    pub zxid: i64,
    /// Header, body and digest.
    pub bytes: Arc<[u8]>,
}

/// Counters of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckSummary {
    /// Transactions of the history.
    pub transactions: usize,
    /// Calls that clients have made.
    pub calls: usize,
    /// Calls that were answered.
    pub answered: u64,
    /// Events of watches.
    pub events: u64,
    /// Sessions that were opened.
    pub sessions: usize,
    /// Sessions that a server has expired although their client was active.
    pub expired: usize,
    /// Digests that were compared.
    pub digests: usize,
}

/// A guarantee that was violated.
#[derive(Clone, Debug)]
pub struct BrokenPromise {
    /// The violation itself.
    pub violation: Violation,
    /// The number of the record that showed it; beyond the last one if the end of the run did.
    pub at: usize,
}

struct RecordReplay<'a> {
    checker: Checker,
    history: &'a [HistoryTxn],
    /// How many transactions are in the committed history.
    entered: usize,
    /// Calls by client and number.
    calls: BTreeMap<(usize, usize), usize>,
    /// When each session last had a transaction of its own, by the leader's clock.
    last_spoke: BTreeMap<SessionId, i64>,
    tick_ms: u64,
    summary: CheckSummary,
    is_sync_checked: &'a dyn Fn(&ServerReply) -> bool,
}

/// Compares a record with a history. `digests` are the digests that the servers report for their trees.
/// `is_sync_checked` says whether the reply to a sync is from a server that asks the leader first.
///
/// # Errors
/// The first guarantee that was violated.
pub fn check_record(
    records: &[ClientRecord],
    history: &[HistoryTxn],
    digests: &[(usize, i64, i64)],
    tick_ms: u64,
    is_sync_checked: impl Fn(&ServerReply) -> bool,
) -> Result<CheckSummary, BrokenPromise> {
    let clients = records.iter().map(|record| record.client + 1).max().unwrap_or(0);
    // Servers of ZooKeeper are checked as well.
    let limits = CheckerLimits {
        tick: tick_ms * MS,
        sync_limit: 0,
        transaction_bytes_max: usize::MAX,
        syncs: SyncScope::OneEpoch,
        kinds: ServerKinds::DEFAULT,
    };
    let mut replay = RecordReplay {
        checker: Checker::new(
            EnsembleConfig::default(),
            ReconfigRights::default(),
            0,
            clients,
            limits,
            tree_options(),
        ),
        history,
        entered: 0,
        calls: BTreeMap::new(),
        last_spoke: BTreeMap::new(),
        tick_ms,
        summary: CheckSummary { transactions: history.len(), ..CheckSummary::default() },
        is_sync_checked: &is_sync_checked,
    };
    for (at, record) in records.iter().enumerate() {
        replay.hear(record.clone()).map_err(|violation| BrokenPromise { violation, at })?;
    }
    let verdict = replay.enter_up_to(i64::MAX).and_then(|()| replay.finish(digests));
    verdict.map_err(|violation| BrokenPromise { violation, at: records.len() })?;
    let RecordReplay { checker, mut summary, .. } = replay;
    summary.calls = checker.calls.len();
    summary.answered = checker.answered;
    summary.events = checker.events;
    Ok(summary)
}

impl RecordReplay<'_> {
    fn hear(&mut self, ClientRecord { client, what }: ClientRecord) -> CheckResult {
        match what {
            RecordKind::Called { number, operation } => {
                let call = self.checker.called(client, Rc::new(operation));
                self.calls.insert((client, number), call);
            }
            RecordKind::Sent { number, session, xid } => {
                let call = self.call(client, number);
                self.checker.sent(call, session, xid);
            }
            RecordKind::Answered { number, answer } => {
                self.enter_up_to(answer.zxid)?;
                let call = self.call(client, number);
                let is_sync = matches!(*self.checker.calls[call].operation, Operation::Sync(_));
                if is_sync && !(self.is_sync_checked)(&answer) {
                    self.checker.calls[call].acked_before = 0;
                }
                let is_write = self.checker.calls[call].operation.is_write();
                let zxid = if is_write { answer.zxid } else { self.shown(answer.zxid) };
                self.checker.answered(call, &ServerReply { zxid, ..answer });
            }
            RecordKind::Failed { number } => {
                let call = self.call(client, number);
                self.checker.failed(call);
            }
            RecordKind::Began { session, timeout_ms } => {
                self.checker.session_began((client, 0), session, timeout_ms, ServerMode::ReadWrite)
            }
            RecordKind::Closing { session } => self.checker.session_closing(session),
            RecordKind::Rewatching { xid, set } => self.checker.resending_watches(client, xid, set),
            RecordKind::Frame { session, frame } => {
                self.enter_up_to(frame.zxid)?;
                let zxid = self.shown(frame.zxid);
                self.checker.frame(client, session, &Frame { zxid, kind: frame.kind });
            }
            RecordKind::Garbage { bytes } => {
                return Err(Violation::new(WIRE, format!("client {client} received {bytes:?}")));
            }
            RecordKind::Disconnected => self.checker.disconnected(client),
            RecordKind::Expired => self.summary.expired += 1,
        }
        self.verdict()
    }

    fn verdict(&mut self) -> CheckResult {
        self.checker.violation.take().map_or(Ok(()), Err)
    }

    fn call(&self, client: usize, number: usize) -> usize {
        self.calls.get(&(client, number)).copied().expect("a call is recorded before anything happens to it")
    }

    /// The state that a zxid stands for. A leader may name the beginning of its epoch before it has a
    /// transaction: that is the end of the earlier epoch.
    fn shown(&self, zxid: i64) -> i64 {
        if zxid > 0 && Zxid(zxid).counter() == 0 { self.checker.committed.before(zxid) } else { zxid }
    }

    fn enter_up_to(&mut self, zxid: i64) -> CheckResult {
        while let Some(next) = self.history.get(self.entered).filter(|next| next.zxid <= zxid) {
            self.entered += 1;
            self.checker.replayed(next.zxid, &next.bytes)?;
            self.check_last()?;
        }
        Ok(())
    }

    /// Checks the last transaction by its own bytes.
    fn check_last(&mut self) -> CheckResult {
        let Some(last) = self.checker.committed.entries().last() else { return Ok(()) };
        let header = last.entry.header;
        if let Some(digest) = last.entry.digest
            && digest.tree_digest != last.digest
        {
            let text =
                format!("{} carries digest {:#x}, not {:#x}", header.zxid, digest.tree_digest, last.digest);
            return Err(Violation::new(G22, text));
        }
        self.summary.digests += usize::from(last.entry.digest.is_some());
        match &last.entry.txn {
            Txn::CreateSession { .. } => {
                self.summary.sessions += 1;
                self.last_spoke.insert(header.session, header.time_ms);
            }
            Txn::CloseSession(_) if header.cxid == 0 => self.check_expiry(header)?,
            _ if last.call.is_some() => {
                self.last_spoke.insert(header.session, header.time_ms);
            }
            _ => {}
        }
        Ok(())
    }

    /// A leader that has executed a request of a session expires it no earlier than a timeout later. The
    /// leader may learn of the session's activity a tick later, if the session is on another server.
    fn check_expiry(&self, header: TxnHeader) -> CheckResult {
        let Some(session) = self.checker.sessions.get(&header.session).filter(|it| !it.closing) else {
            return Ok(());
        };
        let Some(spoke) = self.last_spoke.get(&header.session) else { return Ok(()) };
        let silent_ms = header.time_ms - spoke;
        let least_ms = session.timeout_ms.saturating_sub(2 * self.tick_ms) as i64;
        if silent_ms >= least_ms {
            return Ok(());
        }
        let text = format!(
            "{} ends session {:#x} of client {}, which had a write carried out {silent_ms} ms before; its timeout \
             is {} ms",
            header.zxid, header.session.0, session.client, session.timeout_ms
        );
        Err(Violation::new(G17, text))
    }

    fn finish(&mut self, digests: &[(usize, i64, i64)]) -> CheckResult {
        self.checker.finish();
        self.verdict()?;
        for &(member, zxid, digest) in digests {
            // Servers name states that are not transactions, too.
            let Some(expected) = self.checker.committed.digest_at(zxid) else { continue };
            self.summary.digests += 1;
            if expected != digest {
                let text =
                    format!("member {member} hashes to {digest:#x} at {zxid:#x}, not to {expected:#x}");
                return Err(Violation::new(G22, text));
            }
        }
        let left: Vec<SessionId> = self.checker.committed.model.open_sessions().collect();
        if !left.is_empty() {
            return Err(g18_session_expiry::left(&left));
        }
        let unanswered =
            self.checker.calls.iter().filter(|call| call.sent.is_some() && call.end.is_none()).count();
        if unanswered > 0 {
            return Err(g09_timeliness::late(format!(
                "{unanswered} calls have neither an answer nor a failure"
            )));
        }
        Ok(())
    }
}
