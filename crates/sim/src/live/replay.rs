//! Judges a record: everything in it is compared with the history, in the order in which it happened. A
//! transaction enters the ledger when a client first shows that it knows it, so that nobody can know earlier.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use zebu_client::core::Answer;
use zebu_proto::txn::{Txn, TxnHeader};
use zebu_proto::{SessionId, Zxid};

use super::record::{Record, What};
use crate::check::g10_sync::Across;
use crate::check::{Frame, Judge, Limits, g09_timeliness, g18_session_expiry};
use crate::history::{Verdict, Violation};
use crate::ledger::Rights;
use crate::members::List;
use crate::operation::Operation;
use crate::queue::MS;
use crate::server::start::tree_options;

const WIRE: &str = "wire";
const G17: &str = "g17_session_liveness";
const G22: &str = "g22_replica_equality";

/// A transaction of the one history.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its place.
    pub zxid: i64,
    /// Header, body and digest.
    pub bytes: Arc<[u8]>,
}

/// What was judged, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judgement {
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
    /// Sessions that a server has ended by itself although somebody spoke for them.
    pub expired: usize,
    /// Digests that were compared.
    pub digests: usize,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which, and what was seen.
    pub violation: Violation,
    /// The number of the record that showed it; beyond the last one if the end of the run did.
    pub at: usize,
}

struct Replay<'a> {
    judge: Judge,
    history: &'a [Transaction],
    /// How much of the history is in the ledger.
    entered: usize,
    /// Calls by client and number.
    calls: BTreeMap<(usize, usize), usize>,
    /// When each session was last in a transaction of its own, by the leader's clock.
    last_spoke: BTreeMap<SessionId, i64>,
    tick_ms: u64,
    judgement: Judgement,
    are_syncs_judged: &'a dyn Fn(&Answer) -> bool,
}

/// Compares a record with a history. `digests` are what members say that their trees hash to; `are_syncs_judged` says
/// whether the answer to a sync is of somebody who asks a leader first.
///
/// # Errors
/// The first promise that was broken.
pub fn judge(
    records: &[Record],
    history: &[Transaction],
    digests: &[(usize, i64, i64)],
    tick_ms: u64,
    are_syncs_judged: impl Fn(&Answer) -> bool,
) -> Result<Judgement, Broken> {
    let clients = records.iter().map(|record| record.client + 1).max().unwrap_or(0);
    // Servers of ZooKeeper are judged as well.
    let limits = Limits {
        tick: tick_ms * MS,
        sync_limit: 0,
        transaction_bytes_max: usize::MAX,
        syncs: Across::OneEpoch,
    };
    let mut replay = Replay {
        judge: Judge::new(List::default(), Rights::default(), 0, clients, limits, tree_options()),
        history,
        entered: 0,
        calls: BTreeMap::new(),
        last_spoke: BTreeMap::new(),
        tick_ms,
        judgement: Judgement { transactions: history.len(), ..Judgement::default() },
        are_syncs_judged: &are_syncs_judged,
    };
    for (at, record) in records.iter().enumerate() {
        replay.hear(record.clone()).map_err(|violation| Broken { violation, at })?;
    }
    let verdict = replay.enter_up_to(i64::MAX).and_then(|()| replay.finish(digests));
    verdict.map_err(|violation| Broken { violation, at: records.len() })?;
    let Replay { judge, mut judgement, .. } = replay;
    judgement.calls = judge.calls.len();
    judgement.answered = judge.answered;
    judgement.events = judge.events;
    Ok(judgement)
}

impl Replay<'_> {
    fn hear(&mut self, Record { client, what }: Record) -> Verdict {
        match what {
            What::Called { number, operation } => {
                let call = self.judge.called(client, Rc::new(operation));
                self.calls.insert((client, number), call);
            }
            What::Sent { number, session, xid } => {
                let call = self.call(client, number);
                self.judge.sent(call, session, xid);
            }
            What::Answered { number, answer } => {
                self.enter_up_to(answer.zxid)?;
                let call = self.call(client, number);
                let is_sync = matches!(*self.judge.calls[call].operation, Operation::Sync(_));
                if is_sync && !(self.are_syncs_judged)(&answer) {
                    self.judge.calls[call].acked_before = 0;
                }
                let is_write = self.judge.calls[call].operation.is_write();
                let zxid = if is_write { answer.zxid } else { self.shown(answer.zxid) };
                self.judge.answered(call, &Answer { zxid, ..answer });
            }
            What::Failed { number } => {
                let call = self.call(client, number);
                self.judge.failed(call);
            }
            What::Began { session, timeout_ms } => self.judge.session_began(client, session, timeout_ms),
            What::Closing { session } => self.judge.session_closing(session),
            What::Rewatching { xid, set } => self.judge.rewatching(client, xid, set),
            What::Frame { session, frame } => {
                self.enter_up_to(frame.zxid)?;
                let zxid = self.shown(frame.zxid);
                self.judge.frame(client, session, &Frame { zxid, kind: frame.kind });
            }
            What::Garbage { bytes } => {
                return Err(Violation::new(WIRE, format!("client {client} received {bytes:?}")));
            }
            What::Disconnected => self.judge.disconnected(client),
            What::Expired => self.judgement.expired += 1,
        }
        self.verdict()
    }

    fn verdict(&mut self) -> Verdict {
        self.judge.violation.take().map_or(Ok(()), Err)
    }

    fn call(&self, client: usize, number: usize) -> usize {
        self.calls.get(&(client, number)).copied().expect("a call is recorded before anything happens to it")
    }

    /// The state that a zxid stands for. A leader may name the beginning of its epoch before there is a
    /// transaction in it: that is the end of what was before.
    fn shown(&self, zxid: i64) -> i64 {
        if zxid > 0 && Zxid(zxid).counter() == 0 { self.judge.ledger.before(zxid) } else { zxid }
    }

    fn enter_up_to(&mut self, zxid: i64) -> Verdict {
        while let Some(next) = self.history.get(self.entered).filter(|next| next.zxid <= zxid) {
            self.entered += 1;
            self.judge.replayed(next.zxid, &next.bytes)?;
            self.check_last()?;
        }
        Ok(())
    }

    /// What can be said of the last transaction from its own bytes.
    fn check_last(&mut self) -> Verdict {
        let Some(last) = self.judge.ledger.entries().last() else { return Ok(()) };
        let header = last.entry.header;
        if let Some(digest) = last.entry.digest
            && digest.tree_digest != last.digest
        {
            let text =
                format!("{} carries digest {:#x}, not {:#x}", header.zxid, digest.tree_digest, last.digest);
            return Err(Violation::new(G22, text));
        }
        self.judgement.digests += usize::from(last.entry.digest.is_some());
        match &last.entry.txn {
            Txn::CreateSession { .. } => {
                self.judgement.sessions += 1;
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

    /// A leader that has carried out a request of a session ends it no earlier than a timeout later. The word
    /// about it may reach the leader a tick later, if the session is with another member.
    fn check_expiry(&self, header: TxnHeader) -> Verdict {
        let Some(session) = self.judge.sessions.get(&header.session).filter(|it| !it.closing) else {
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

    fn finish(&mut self, digests: &[(usize, i64, i64)]) -> Verdict {
        self.judge.finish();
        self.verdict()?;
        for &(member, zxid, digest) in digests {
            // Members name states that are not transactions, too.
            let Some(expected) = self.judge.ledger.digest_at(zxid) else { continue };
            self.judgement.digests += 1;
            if expected != digest {
                let text =
                    format!("member {member} hashes to {digest:#x} at {zxid:#x}, not to {expected:#x}");
                return Err(Violation::new(G22, text));
            }
        }
        let left: Vec<SessionId> = self.judge.ledger.model.open_sessions().collect();
        if !left.is_empty() {
            return Err(g18_session_expiry::left(&left));
        }
        let unanswered =
            self.judge.calls.iter().filter(|call| call.sent.is_some() && call.end.is_none()).count();
        if unanswered > 0 {
            return Err(g09_timeliness::late(format!(
                "{unanswered} calls have neither an answer nor a failure"
            )));
        }
        Ok(())
    }
}
