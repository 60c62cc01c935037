//! Quotas: usage on every server, limits in prepare.

use zebu_proto::ErrorCode;
use zebu_proto::client::WriteRequest;
use zebu_proto::txn::Txn;
use zebu_tree::access::QuotaEnforcement;

use crate::support::*;

const STATS: &str = "/zookeeper/quota/p/zookeeper_stats";
const LIMITS: &str = "/zookeeper/quota/p/zookeeper_limits";

fn with_quota(limits: &str) -> World {
    let mut world = World::new();
    world.ok(create_data("/p", "1234"));
    world.ok(create_data("/p/x", "12"));
    world.create("/zookeeper/quota/p");
    world.ok(create_data(LIMITS, limits));
    world.ok(create_data(STATS, "whatever"));
    world.policy.quota = QuotaEnforcement::On;
    world
}

fn usage(world: &World) -> &str {
    std::str::from_utf8(world.data(STATS).unwrap()).unwrap()
}

#[test]
fn usage_follows_every_change() {
    let mut world = with_quota("count=-1,bytes=-1");
    assert_eq!(usage(&world), "count=2,bytes=6", "counted when the node is created, the root included");
    let before = world.stat(STATS);
    world.events.clear();
    world.ok(create_data("/p/y", "123"));
    assert_eq!(usage(&world), "count=3,bytes=9");
    world.ok(set("/p/y", "1"));
    assert_eq!(usage(&world), "count=3,bytes=7");
    world.ok(set("/p", ""));
    assert_eq!(usage(&world), "count=3,bytes=3");
    world.ok(delete("/p/y"));
    assert_eq!(usage(&world), "count=2,bytes=2");
    world.ok(ephemeral("/p/e"));
    world.ok(WriteRequest::CloseSession);
    assert_eq!(usage(&world), "count=2,bytes=2");
    world.create("/px");
    world.create("/q");
    assert_eq!(
        usage(&world),
        "count=2,bytes=2",
        "other paths do not count, not even with a common beginning"
    );
    let after = world.stat(STATS);
    assert_eq!(after, zebu_proto::Stat { data_length: after.data_length, ..before }, "its stat stands still");
    assert!(world.events.iter().all(|(_, path)| !path.starts_with("/zookeeper")));
}

/// The reply to a create tells of the data that was sent, not of the usage that replaces it.
#[test]
fn the_reply_speaks_of_the_data_that_was_sent() {
    let mut world = World::new();
    world.create("/p");
    world.create("/zookeeper/quota/p");
    match world.ok(create_data(STATS, "a text of twenty-five bytes")) {
        zebu_tree::TxnOutcome::Created { stat } => assert_eq!(stat.data_length, 27),
        other => panic!("{other:?}"),
    }
    assert_eq!(usage(&world), "count=1,bytes=4");
}

#[test]
fn without_limits_nothing_is_counted_any_more() {
    let mut world = with_quota("count=-1,bytes=-1");
    world.ok(delete(LIMITS));
    world.create("/p/y");
    assert_eq!(usage(&world), "count=2,bytes=6");
    world.ok(delete(STATS));
    world.ok(create_data(LIMITS, "count=1,bytes=-1"));
    world.create("/p/z");
    world.ok(create_data(STATS, ""));
    assert_eq!(usage(&world), "count=4,bytes=14", "recounted");
}

#[test]
fn the_deepest_quota_is_adjusted() {
    let mut world = with_quota("count=-1,bytes=-1");
    world.create("/zookeeper/quota/p/x");
    world.ok(create_data("/zookeeper/quota/p/x/zookeeper_limits", "count=9,bytes=9"));
    world.ok(create_data("/zookeeper/quota/p/x/zookeeper_stats", ""));
    world.ok(create_data("/p/x/deep", "123"));
    assert_eq!(usage(&world), "count=2,bytes=6");
    assert_eq!(world.data("/zookeeper/quota/p/x/zookeeper_stats"), Some(&b"count=2,bytes=5"[..]));
}

#[test]
fn what_a_client_wrote_into_the_usage_is_counted_anew() {
    let mut world = with_quota("count=-1,bytes=-1");
    world.ok(set(STATS, "garbage"));
    world.create("/p/y");
    assert_eq!(usage(&world), "count=3,bytes=10");
    world.ok(set(STATS, ""));
    world.ok(create_data("/p/z", "1"));
    assert_eq!(usage(&world), "count=0,bytes=0", "numbers that are missing count from -1");
    world.ok(set(STATS, "count=5,bytes=5=;x=1"));
    world.ok(delete("/p/z"));
    assert_eq!(usage(&world), "count=4,bytes=4=;x=1");
}

#[test]
fn limits_of_the_root_are_no_quota() {
    let mut world = World::new();
    world.policy.quota = QuotaEnforcement::On;
    // An Apache server that finds this node in a log never starts again.
    let limits = create_data("/zookeeper/quota/zookeeper_limits", "count=0,bytes=0=;countHardLimit=0");
    assert_eq!(world.error(limits), ErrorCode::BadArguments);
    world.ok(create_data("/zookeeper/quota/zookeeper_stats", ""));
    world.create("/a");
    world.create("/zookeeper/quotas");
    world.create("/zookeeper/quotas/a");
    world.ok(create_data("/zookeeper/quotas/a/zookeeper_limits", "countHardLimit=0"));
    world.create("/a/b");
    world.create("/zookeeper_limits");
}

#[test]
fn hard_limits_refuse() {
    let mut world = with_quota("count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3");
    assert_eq!(world.error(create_data("/p/y", "12345")), ErrorCode::QuotaExceeded, "bytes");
    world.ok(create_data("/p/y", "1234"));
    assert_eq!(world.error(create_data("/p/z", "")), ErrorCode::QuotaExceeded, "count");
    assert_eq!(world.error(set("/p/y", "12345")), ErrorCode::QuotaExceeded);
    world.ok(set("/p/y", "4321"));
    world.ok(set(LIMITS, "byteHardLimit=5"));
    assert_eq!(world.error(set("/p/y", "1")), ErrorCode::QuotaExceeded, "less, but still too much");
    world.ok(set("/p/y", "abcd"));
    world.ok(delete("/p/y"));
    // The quota is looked at after the node, before the version.
    assert_eq!(world.error(set_version("/p", "12345", 77)), ErrorCode::QuotaExceeded);
    assert_eq!(world.error(create("/p/x")), ErrorCode::NodeExists);
    world.policy.quota = QuotaEnforcement::Off;
    world.ok(set("/p", "1234567890"));
}

#[test]
fn soft_limits_and_missing_nodes_refuse_nothing() {
    let mut world = with_quota("count=1,bytes=1");
    world.create("/p/y");
    world.ok(set(LIMITS, "nonsense"));
    world.create("/p/z");
    world.ok(set(LIMITS, "countHardLimit=0"));
    world.ok(delete(STATS));
    world.create("/p/w");
    let null = zebu_proto::client::SetDataRequest { path: Some(LIMITS.into()), data: None, version: -1 };
    world.ok(WriteRequest::SetData(null));
    world.create("/p/v");
}

#[test]
fn only_committed_usage_counts() {
    let mut world = with_quota("countHardLimit=3");
    assert!(matches!(world.prepare(create("/p/a")), Txn::Create(_)));
    assert!(matches!(world.prepare(create("/p/b")), Txn::Create(_)), "the first is not applied yet");
    world.apply_pending();
    assert_eq!(world.error(create("/p/c")), ErrorCode::QuotaExceeded);
}
