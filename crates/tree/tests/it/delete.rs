//! delete: order of checks and effects.

use zebu_proto::client::{DeleteRequest, EventType, WriteRequest};
use zebu_proto::{Acl, ErrorCode, Permissions};

use crate::support::*;

#[test]
fn the_order_of_checks() {
    let mut world = World::new();
    world.ok(create_acl("/closed", no_permissions()));
    world.create("/p");
    world.create("/p/full");
    world.create("/p/full/x");
    world.session_check = Err(ErrorCode::SessionMoved);
    let null = || WriteRequest::Delete(DeleteRequest { path: None, version: -1 });
    assert_eq!(world.error(null()), ErrorCode::SessionMoved);
    world.session_check = Ok(());
    assert_eq!(world.error(null()), ErrorCode::MarshallingError);
    for path in ["noslash", "/missing/\0", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", ""] {
        assert_eq!(world.error(delete(path)), ErrorCode::BadArguments, "{path:?}");
    }
    assert_eq!(world.error(delete("/missing/x")), ErrorCode::NoNode);
    assert_eq!(world.error(delete("/closed/missing")), ErrorCode::NoAuth, "before the node is looked up");
    for path in ["/p/missing", "/p/", "//p", "/p//full", "/p/./full"] {
        assert_eq!(world.error(delete(path)), ErrorCode::NoNode, "{path}");
    }
    assert_eq!(world.error(delete_version("/p/full", 7)), ErrorCode::BadVersion);
    assert_eq!(world.error(delete_version("/p/full", 0)), ErrorCode::NotEmpty);
    world.ok(delete("/p/full/x"));
    world.ok(delete_version("/p/full", 0));
    assert!(!world.exists("/p/full"));
}

#[test]
fn only_the_permission_on_the_parent_counts() {
    let mut world = World::new();
    world.ok(create_acl("/p", vec![Acl::new(Permissions::CREATE | Permissions::DELETE, "world", "anyone")]));
    world.ok(create_acl("/p/x", no_permissions()));
    world.ok(delete("/p/x"));
    world.ok(create_acl("/q", vec![Acl::new(Permissions::ALL & !Permissions::DELETE, "world", "anyone")]));
    world.create("/q/x");
    assert_eq!(world.error(delete("/q/x")), ErrorCode::NoAuth);
}

#[test]
fn effects_and_events() {
    let mut world = World::new();
    world.create("/p");
    world.create("/p/x");
    world.events.clear();
    world.ok(delete("/p/x"));
    let stat = world.stat("/p");
    assert_eq!((stat.pzxid, stat.cversion, stat.num_children), (world.zxid, 2, 0));
    assert_eq!(
        world.events,
        [(EventType::NodeDeleted, "/p/x".to_owned()), (EventType::NodeChildrenChanged, "/p".to_owned())]
    );
    world.events.clear();
    world.ok(delete("/p"));
    assert_eq!(world.events[1], (EventType::NodeChildrenChanged, "/".to_owned()));
}
