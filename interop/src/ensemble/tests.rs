//! The checkers, with records of clients of a healthy server and with histories that differ from them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::txn::{Txn, TxnEntry};
use zebu_sim::live::{ClientRecord, HistoryTxn, check_record};
use zebu_testing::TestServer;

use super::history;
use super::load::Load;

const TICK_MS: u64 = 100;

/// A second of load on a server, and what it has in its log.
fn recorded() -> (Vec<ClientRecord>, Vec<HistoryTxn>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::start()).expect("a server");
    let mut load = Load::start(vec![server.address()], 5);
    load.await_writes().expect("writes are acknowledged");
    std::thread::sleep(Duration::from_secs(1));
    load.settle().expect("everything is answered");
    load.read_everything(server.address()).expect("the tree is read");
    load.leave().expect("sessions end");
    runtime.block_on(server.stop()).expect("the server stops");
    let directory = server.data_dir();
    let history = history::read(&[Path::new(&directory)]).expect("a log");
    (load.take_records(), history)
}

fn entry(transaction: &HistoryTxn) -> TxnEntry {
    TxnEntry::decode(&transaction.bytes).expect("a transaction")
}

/// A transaction, and the same with other bytes.
fn changed(history: &[HistoryTxn], at: usize, entry: &TxnEntry) -> Vec<HistoryTxn> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    let mut history = history.to_vec();
    history[at].bytes = Arc::from(bytes);
    history
}

fn checker(records: &[ClientRecord], history: &[HistoryTxn]) -> Option<&'static str> {
    check_record(records, history, &[], TICK_MS, |_| true).err().map(|broken| broken.violation.checker)
}

#[test]
fn a_healthy_server_is_not_blamed_and_a_sick_one_is() {
    let (records, history) = recorded();
    let summary = check_record(&records, &history, &[], TICK_MS, |_| true).expect("nothing is wrong");
    assert!(summary.answered > 50, "{summary:?}");
    assert_eq!((summary.expired, summary.sessions), (0, 7), "{summary:?}");

    let is_set = |it: &HistoryTxn| matches!(entry(it).txn, Txn::SetData { .. });
    let set = history.iter().rposition(is_set).expect("something was set");

    // The log ends before a write that was acknowledged, and before everything behind it.
    assert!(checker(&records, &history[..set]).is_some());

    // A write that was acknowledged is something else in the log.
    let mut other = entry(&history[set]);
    other.txn = Txn::error(zebu_proto::ErrorCode::BadVersion);
    other.digest = None;
    assert_eq!(checker(&records, &changed(&history, set, &other)), Some("g01_linearizable_writes"));

    // Members that compute another digest have another state.
    let digested = history.iter().position(|it| entry(it).digest.is_some()).expect("a digest");
    let mut other = entry(&history[digested]);
    if let Some(digest) = &mut other.digest {
        digest.tree_digest ^= 1;
    }
    assert_eq!(checker(&records, &changed(&history, digested, &other)), Some("g22_replica_equality"));
    let (zxid, digest) =
        (history[digested].zxid, entry(&history[digested]).digest.expect("a digest").tree_digest);
    assert!(check_record(&records, &history, &[(1, zxid, digest)], TICK_MS, |_| true).is_ok());
    assert!(check_record(&records, &history, &[(1, zxid, digest ^ 1)], TICK_MS, |_| true).is_err());

    // A session that never ended.
    let end = history.iter().rposition(|it| matches!(entry(it).txn, Txn::CloseSession(_))).expect("an end");
    assert_eq!(end, history.len() - 1);
    assert!(checker(&records, &history[..end]).is_some());
}
