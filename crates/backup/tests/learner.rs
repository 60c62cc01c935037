//! A stay at a leader, packet by packet: when the state is exact, what is committed, and what ends the stay.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use zebu_backup::core::learner::{BackupLearner, ExactState, LearnerInput, LearnerOutput};
use zebu_backup::core::learner_settings::LearnerSettings;
use zebu_backup::core::replay::tree_options;
use zebu_backup::core::stay_end::{OtherHistory, StayEnd, WrongDigest};
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet::LEARNER_PROTOCOL;
use zebu_proto::txn::{CreateTxn, Txn, TxnDigest, TxnEntry, TxnHeader};
use zebu_proto::{Acl, ServerId, SessionId, Zxid};
use zebu_tree::Tree;
use zebu_zab::EncodedTxn;

const EPOCH: u32 = 4;

/// A leader's tree and the transactions that it commits.
struct Leader {
    tree: Tree,
}

impl Leader {
    fn new() -> Leader {
        Leader { tree: Tree::new(tree_options(1)) }
    }

    fn commit(&mut self, zxid: Zxid) -> EncodedTxn {
        let path = format!("/n{:x}", zxid.0).into();
        let acl = Some(Acl::open().to_vec().into());
        // As leaders do since 3.5, so that a replay over a fuzzy state is exact.
        let parent_cversion = self.tree.node("/").unwrap().persisted().cversion + 1;
        let txn = Txn::Create(CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion });
        let header = TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms: zxid.0 };
        self.tree.apply(&header, &txn, &mut |_| ());
        let digest = Some(TxnDigest { version: 2, tree_digest: self.tree.digest() });
        let mut bytes = Vec::new();
        TxnEntry { header, txn, digest }.encode(&mut bytes);
        EncodedTxn { zxid, bytes: bytes.into() }
    }
}

/// The tree after transactions 1 to `last` of epoch 3.
fn tree_up_to(last: u32) -> Tree {
    let mut leader = Leader::new();
    (1..=last).for_each(|counter| drop(leader.commit(Zxid::new(3, counter))));
    leader.tree
}

fn inform(entry: &EncodedTxn) -> LearnerInput {
    LearnerInput::Packet(Packet::Inform { zxid: entry.zxid, entry: entry.bytes.clone() })
}

fn ping(zxid: Zxid) -> LearnerInput {
    LearnerInput::Packet(Packet::Ping { zxid })
}

fn new_leader() -> LearnerInput {
    LearnerInput::Packet(Packet::NewLeader { zxid: Zxid::new(EPOCH, 0), config: None })
}

fn up_to_date() -> LearnerInput {
    LearnerInput::Packet(Packet::UpToDate)
}

fn committed(outputs: &[LearnerOutput]) -> Vec<Zxid> {
    let zxid = |output: &LearnerOutput| match output {
        LearnerOutput::Committed { entry, .. } => Some(entry.zxid),
        _ => None,
    };
    outputs.iter().filter_map(zxid).collect()
}

/// Joins up to the ACKEPOCH, and returns the last zxid that the backup has told.
fn join(state: Option<Tree>) -> (BackupLearner, Zxid) {
    join_after(state, WrongDigest::BeginAgain)
}

fn join_after(state: Option<Tree>, wrong_digest: WrongDigest) -> (BackupLearner, Zxid) {
    let state = state.map(|tree| ExactState { tree, epoch: 3 });
    let (mut learner, outputs) =
        BackupLearner::new(LearnerSettings::new(ServerId(77)), state, wrong_digest, 0);
    assert_eq!(outputs, [LearnerOutput::Connect]);
    let outputs = learner.handle(LearnerInput::Connected, 1);
    assert!(
        matches!(&outputs[..], [LearnerOutput::Send(Packet::ObserverInfo { info, .. })] if info.server.0 == 77),
        "{outputs:?}"
    );
    let info = Packet::LeaderInfo { zxid: Zxid::new(EPOCH, 0), protocol: LEARNER_PROTOCOL, zebu: None };
    let outputs = learner.handle(LearnerInput::Packet(info), 2);
    let [LearnerOutput::Send(Packet::AckEpoch { last, .. })] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(learner.epoch(), EPOCH);
    (learner, *last)
}

#[test]
fn a_fuzzy_state_becomes_exact_at_the_first_ping() {
    let (mut learner, last) = join(None);
    assert_eq!(last, Zxid(-1), "no leader has that history, so that it sends a whole state");
    let mut leader = Leader::new();
    (1..=5).for_each(|counter| drop(leader.commit(Zxid::new(3, counter))));
    let first = leader.commit(Zxid::new(EPOCH, 1));
    let second = leader.commit(Zxid::new(EPOCH, 2));
    // The stream began after transaction 5 of epoch 3, and has the two later ones already.
    learner.handle(LearnerInput::Packet(Packet::Snap { zxid: Zxid::new(3, 5) }), 3);
    let mut received = Leader::new();
    (1..=5).for_each(|counter| drop(received.commit(Zxid::new(3, counter))));
    received.commit(Zxid::new(EPOCH, 1));
    received.commit(Zxid::new(EPOCH, 2));
    learner.handle(LearnerInput::Snapshot(Box::new(received.tree)), 4);
    learner.handle(new_leader(), 5);
    // A Zebu leader sends what the stream may contain only behind UPTODATE.
    let outputs = learner.handle(up_to_date(), 6);
    assert!(outputs.contains(&LearnerOutput::Synchronized));
    assert!(learner.exact().is_none());
    let outputs = learner.handle(inform(&first), 7);
    assert_eq!((committed(&outputs), learner.exact().is_none()), (vec![], true));
    let outputs = learner.handle(ping(second.zxid), 8);
    assert!(matches!(&outputs[..], [LearnerOutput::Send(Packet::PingReply { .. })]), "{outputs:?}");
    assert!(learner.exact().is_none(), "transaction 2 is proposed and not committed");
    let outputs = learner.handle(inform(&second), 9);
    assert_eq!(outputs, [LearnerOutput::NewHistory], "the base contains it");
    assert_eq!(learner.exact().unwrap().digest(), leader.tree.digest());
    let third = leader.commit(Zxid::new(EPOCH, 3));
    assert_eq!(committed(&learner.handle(inform(&third), 10)), [third.zxid]);
}

#[test]
fn an_epoch_without_a_proposal_makes_the_state_exact_at_once() {
    let (mut learner, _) = join(None);
    learner.handle(LearnerInput::Packet(Packet::Snap { zxid: Zxid::new(3, 5) }), 3);
    learner.handle(LearnerInput::Snapshot(Box::new(tree_up_to(5))), 4);
    learner.handle(new_leader(), 5);
    // A ping before UPTODATE proves nothing about the stream.
    learner.handle(ping(Zxid::new(EPOCH, 0)), 6);
    assert!(learner.exact().is_none());
    learner.handle(up_to_date(), 7);
    assert!(learner.exact().is_none());
    let outputs = learner.handle(ping(Zxid::new(EPOCH, 0)), 8);
    assert!(outputs.contains(&LearnerOutput::NewHistory), "{outputs:?}");
}

/// Continues after transaction 5 of epoch 3 with a DIFF of transactions 6 and 7.
fn continued() -> (BackupLearner, Leader) {
    let (mut learner, last) = join(Some(tree_up_to(5)));
    assert_eq!(last, Zxid::new(3, 5));
    let mut leader = Leader { tree: tree_up_to(5) };
    learner.handle(LearnerInput::Packet(Packet::Diff { zxid: Zxid::new(3, 7) }), 3);
    for counter in [6, 7] {
        let entry = leader.commit(Zxid::new(3, counter));
        let proposal = Packet::Proposal { zxid: entry.zxid, entry: entry.bytes };
        assert_eq!(learner.handle(LearnerInput::Packet(proposal), 4), []);
        let commit = Packet::Commit { zxid: entry.zxid };
        assert_eq!(learner.handle(LearnerInput::Packet(commit), 4), [], "no quorum has confirmed it");
    }
    (learner, leader)
}

#[test]
fn a_diff_continues_the_history_and_counts_from_uptodate_on() {
    let (mut learner, mut leader) = continued();
    learner.handle(new_leader(), 5);
    let outputs = learner.handle(up_to_date(), 6);
    assert_eq!(committed(&outputs), [Zxid::new(3, 6), Zxid::new(3, 7)]);
    assert!(!outputs.contains(&LearnerOutput::NewHistory));
    let next = leader.commit(Zxid::new(EPOCH, 1));
    assert_eq!(committed(&learner.handle(inform(&next), 7)), [next.zxid]);
    assert_eq!(learner.exact().unwrap().digest(), leader.tree.digest());
}

#[test]
fn a_lost_leader_leaves_the_committed_state() {
    let (mut learner, _) = continued();
    learner.handle(new_leader(), 5);
    let outputs = learner.handle(LearnerInput::Closed, 6);
    assert!(matches!(&outputs[..], [LearnerOutput::Ended(StayEnd::Closed { .. })]), "{outputs:?}");
    // Nothing behind transaction 5 was confirmed.
    assert_eq!(learner.into_state().unwrap().tree.last_zxid(), Zxid::new(3, 5));
}

#[test]
fn a_hole_ends_the_stay() {
    let (mut learner, mut leader) = continued();
    learner.handle(new_leader(), 5);
    learner.handle(up_to_date(), 6);
    leader.commit(Zxid::new(EPOCH, 1));
    let second = leader.commit(Zxid::new(EPOCH, 2));
    let outputs = learner.handle(inform(&second), 7);
    assert_eq!(committed(&outputs), []);
    let reason = outputs.iter().find_map(|output| match output {
        LearnerOutput::Ended(StayEnd::Closed { reason }) => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.unwrap().contains("are missing"), "{outputs:?}");
    assert_eq!(learner.into_state().unwrap().tree.last_zxid(), Zxid::new(3, 7));
}

#[test]
fn an_ensemble_that_was_set_back_needs_a_new_base() {
    let (mut learner, _) = join(Some(tree_up_to(5)));
    let outputs = learner.handle(LearnerInput::Packet(Packet::Trunc { zxid: Zxid::new(3, 2) }), 3);
    assert_eq!(outputs, [LearnerOutput::Ended(StayEnd::OtherHistory(OtherHistory::SetBack))]);
    assert!(learner.into_state().is_none());
}

#[test]
fn another_history_with_the_same_zxids_is_found_by_its_digest() {
    let (mut learner, _) = join(Some(tree_up_to(5)));
    let mut other = Leader { tree: tree_up_to(4) };
    learner.handle(LearnerInput::Packet(Packet::Diff { zxid: Zxid::new(3, 5) }), 3);
    learner.handle(new_leader(), 4);
    learner.handle(up_to_date(), 5);
    let entry = other.commit(Zxid::new(EPOCH, 1));
    let outputs = learner.handle(inform(&entry), 6);
    assert_eq!(
        outputs,
        [
            LearnerOutput::DigestMismatch { zxid: entry.zxid },
            LearnerOutput::Ended(StayEnd::OtherHistory(OtherHistory::Digest(entry.zxid)))
        ]
    );
    assert_eq!(
        learner.wrong_digest(),
        WrongDigest::GoOn,
        "one whole state follows, and not one after the other"
    );
    assert!(learner.into_state().is_none());
}

/// Receives a whole state of five transactions, which is exact at once.
fn received(wrong_digest: WrongDigest) -> (BackupLearner, Leader) {
    let (mut learner, _) = join_after(None, wrong_digest);
    learner.handle(LearnerInput::Packet(Packet::Snap { zxid: Zxid::new(3, 5) }), 3);
    learner.handle(LearnerInput::Snapshot(Box::new(tree_up_to(5))), 4);
    learner.handle(new_leader(), 5);
    learner.handle(up_to_date(), 6);
    let outputs = learner.handle(ping(Zxid::new(EPOCH, 0)), 7);
    assert!(outputs.contains(&LearnerOutput::NewHistory), "{outputs:?}");
    (learner, Leader { tree: tree_up_to(5) })
}

#[test]
fn a_wrong_digest_after_a_whole_state_asks_for_one_more() {
    // The ensemble's digests are of another tree.
    let mut other = Leader { tree: tree_up_to(4) };
    let (mut learner, _) = received(WrongDigest::BeginAgain);
    let entry = other.commit(Zxid::new(EPOCH, 1));
    let ended = LearnerOutput::Ended(StayEnd::OtherHistory(OtherHistory::Digest(entry.zxid)));
    let outputs = learner.handle(inform(&entry), 8);
    assert_eq!(outputs, [LearnerOutput::DigestMismatch { zxid: entry.zxid }, ended]);

    // After that one, the history goes on until a digest is right.
    let (mut learner, mut leader) = received(learner.wrong_digest());
    let outputs = learner.handle(inform(&entry), 8);
    assert_eq!(outputs[0], LearnerOutput::DigestMismatch { zxid: entry.zxid });
    assert_eq!(committed(&outputs), [entry.zxid]);
    assert_eq!(learner.wrong_digest(), WrongDigest::GoOn);
    leader.tree.apply(&decoded(&entry).header, &decoded(&entry).txn, &mut |_| ());
    let right = leader.commit(Zxid::new(EPOCH, 2));
    assert_eq!(committed(&learner.handle(inform(&right), 9)), [right.zxid]);
    assert_eq!(learner.wrong_digest(), WrongDigest::BeginAgain);
    assert_eq!(learner.time_ms(), Some(right.zxid.0));
}

fn decoded(entry: &EncodedTxn) -> TxnEntry {
    TxnEntry::decode(&entry.bytes).unwrap()
}

#[test]
fn a_leader_of_an_earlier_epoch_is_told_from_a_lost_connection() {
    let mut leader = Leader { tree: tree_up_to(5) };
    leader.commit(Zxid::new(EPOCH + 1, 1));
    let state = ExactState { tree: leader.tree, epoch: EPOCH + 1 };
    let settings = LearnerSettings::new(ServerId(77));
    let (mut learner, _) = BackupLearner::new(settings, Some(state), WrongDigest::BeginAgain, 0);
    learner.handle(LearnerInput::Connected, 1);
    let info = Packet::LeaderInfo { zxid: Zxid::new(EPOCH, 0), protocol: LEARNER_PROTOCOL, zebu: None };
    let outputs = learner.handle(LearnerInput::Packet(info), 2);
    let end = StayEnd::EarlierEpoch { leader: EPOCH, known: EPOCH + 1 };
    assert_eq!(outputs, [LearnerOutput::Ended(end)]);
    // It may be a leader of the past, so that nothing is given up yet.
    assert_eq!(learner.into_state().unwrap().tree.last_zxid(), Zxid::new(EPOCH + 1, 1));
}

#[test]
fn transactions_wait_for_a_lent_state() {
    let (mut learner, mut leader) = continued();
    learner.handle(new_leader(), 5);
    learner.handle(up_to_date(), 6);
    let tree = learner.lend().unwrap();
    assert_eq!(tree.last_zxid(), Zxid::new(3, 7));
    assert!(learner.lend().is_none());
    let next = leader.commit(Zxid::new(EPOCH, 1));
    assert_eq!(committed(&learner.handle(inform(&next), 7)), [next.zxid]);
    assert_eq!(learner.waiting_bytes(), next.bytes.len());
    assert_eq!(learner.give_back(tree), []);
    assert_eq!(learner.waiting_bytes(), 0);
    assert_eq!(learner.exact().unwrap().digest(), leader.tree.digest());
}

#[test]
fn a_silent_leader_is_left() {
    let (mut learner, _) = continued();
    let deadline = learner.deadline();
    assert!(deadline < i64::MAX);
    let outputs = learner.timeout(deadline);
    assert!(matches!(&outputs[..], [LearnerOutput::Ended(StayEnd::Closed { .. })]), "{outputs:?}");
}
