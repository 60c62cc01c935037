//! What the server removes by itself.

use zebu_proto::client::{CreateOp, CreateRequest, WriteRequest};
use zebu_proto::{ErrorCode, SessionId, Zxid};
use zebu_tree::{TreeLoader, TreeOptions, TtlNodes};

use crate::support::*;

fn remove(path: &str) -> WriteRequest {
    WriteRequest::DeleteContainer { path: path.into() }
}

fn removable(world: &World, after_ms: i64, never_used_ms: i64) -> Vec<Box<str>> {
    world.tree.removable(START_MS + after_ms, never_used_ms)
}

#[test]
fn containers() {
    let mut world = World::new();
    world.ok(create_with(CreateOp::Container, "/new", 4));
    world.ok(create_with(CreateOp::Container, "/used", 4));
    world.create("/used/x");
    assert_eq!(removable(&world, 1_000_000, 0), []);
    world.ok(delete("/used/x"));
    assert_eq!(removable(&world, 0, 0), ["/used".into()]);
    assert_eq!(removable(&world, 300_000, 300_000), ["/used".into()]);
    assert_eq!(removable(&world, 300_001, 300_000), ["/new".into(), "/used".into()]);
    world.ok(remove("/used"));
    assert_eq!(removable(&world, 0, 0), []);
}

#[test]
fn ttl_nodes() {
    let mut world = World::new();
    world.ok(WriteRequest::Create(CreateRequest { ttl_ms: 500, ..request(CreateOp::Ttl, "/t", 5) }));
    assert_eq!(removable(&world, 500, 0), []);
    assert_eq!(removable(&world, 501, 0), ["/t".into()]);
    world.time_ms += 400;
    world.ok(set("/t", "alive"));
    assert_eq!(removable(&world, 900, 0), []);
    world.create("/t/child");
    assert_eq!(removable(&world, 5000, 0), [], "not while it has children");
    world.ok(delete("/t/child"));
    assert_eq!(removable(&world, 901, 0), ["/t".into()]);
}

#[test]
fn a_candidate_is_looked_at_again() {
    let mut world = World::new();
    for path in ["noslash", "/a\0", "/", "/zookeeper", "/zookeeper/config"] {
        assert_eq!(world.error(remove(path)), ErrorCode::BadArguments, "{path:?}");
    }
    assert_eq!(world.error(remove("/missing")), ErrorCode::NoNode);
    world.create("/plain");
    world.ok(ephemeral("/e"));
    world.ok(create_with(CreateOp::Container, "/c", 4));
    world.create("/c/x");
    assert_eq!(world.error(remove("/c")), ErrorCode::NotEmpty);
    assert_eq!(world.error(remove("/e")), ErrorCode::BadVersion);
    assert_eq!(world.error(remove("/plain")), ErrorCode::BadVersion, "made anew under the same name");
    world.ok(delete("/c/x"));
    world.prepare(delete("/c"));
    world.prepare(create_with(CreateOp::Container, "/c", 4));
    world.prepare(remove("/c"));
    world.apply_pending();
    assert!(world.exists("/c"), "a new container waits for its first child");
    world.policy.container_never_used_ms = 10;
    world.time_ms += 11;
    world.ok(remove("/c"));
    world.ok(create_with(CreateOp::Ttl, "/t", 5));
    world.time_ms += 1000;
    assert_eq!(world.error(remove("/t")), ErrorCode::BadVersion);
    world.time_ms += 1;
    // No session is asked for.
    world.session_check = Err(ErrorCode::SessionExpired);
    world.ok(remove("/t"));
    assert!(!world.exists("/t"));
}

#[test]
fn orphans_get_a_session_that_can_expire() {
    let mut loader = TreeLoader::new(options());
    let stat = |owner| zebu_proto::StatPersisted { ephemeral_owner: owner, ..Default::default() };
    loader.session(SESSION, 1000);
    loader.node("", None, -1, &stat(0)).unwrap();
    loader.node("/mine", None, -1, &stat(SESSION.0)).unwrap();
    loader.node("/orphan", None, -1, &stat(99)).unwrap();
    loader.node("/ttl", None, -1, &stat(0xff00_0000_0000_0001_u64 as i64)).unwrap();
    loader.node("/container", None, -1, &stat(i64::MIN)).unwrap();
    let mut tree = loader.finish(Zxid(50));
    let digest = tree.digest();
    assert_eq!(tree.adopt_orphaned_ephemerals(7), [SessionId(99)]);
    assert_eq!(tree.adopt_orphaned_ephemerals(7), []);
    assert_eq!(tree.sessions().get(&SESSION), Some(&1000));
    assert_eq!(tree.sessions().get(&SessionId(99)), Some(&7));
    assert_eq!(tree.ephemerals_of(SessionId(99)), ["/orphan".into()]);
    assert_eq!(tree.digest(), digest, "nothing goes without a transaction");
}

#[test]
fn ttl_nodes_survive_when_they_are_switched_off() {
    let mut loader = TreeLoader::new(TreeOptions { ttl_nodes: TtlNodes::Disabled, ..options() });
    let owner = 0xff00_0000_0000_1388_u64 as i64;
    let stat = zebu_proto::StatPersisted { ephemeral_owner: owner, ..Default::default() };
    loader.node("/ttl", None, -1, &stat).unwrap();
    let mut tree = loader.finish(Zxid(1));
    assert_eq!(tree.ephemerals_of(SessionId(owner)), ["/ttl".into()]);
    assert_eq!(tree.adopt_orphaned_ephemerals(7), []);
    assert!(tree.node("/ttl").is_some());
}
