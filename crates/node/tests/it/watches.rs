//! Watches from the read that leaves one to the event that a client gets.

use zebu_node::{AuthEnforcement, ConnectionId};
use zebu_proto::client::CreateOp;
use zebu_proto::client::EventType::{self, NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
use zebu_proto::{Acl, ErrorCode, Permissions};
use zebu_tree::access::{DigestAlgorithm, digest_id};
use zebu_tree::{Policy, Tree};

use crate::client::{
    Ask, EPHEMERAL, Frame, add_watch, auth, check_watches, children_watch, close_session, create,
    create_with_acl, delete, exists_watch, get_watch, multi, multi_create, multi_delete, multi_set,
    remove_watches, set, set_acl, set_watches,
};
use crate::world::{World, settings, tree_options};

const CHILDREN: i32 = 1;
const DATA: i32 = 2;
const ANY: i32 = 3;
const PERSISTENT: i32 = 4;
const RECURSIVE: i32 = 5;

type Seen = Vec<(EventType, String)>;

/// A client that watches, one that changes things, and `/q` with the child `/q/p`.
fn watched() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::new();
    let (watcher, writer) = (world.client(), world.client());
    world.call(writer, create("/q", "", 0));
    world.call(writer, create("/q/p", "", 0));
    (world, watcher, writer)
}

fn events(world: &mut World, lane: ConnectionId) -> Seen {
    let zxid = world.replica.last_zxid().0;
    let events = world.received(lane).into_iter().map(|frame| match frame {
        Frame::Event { zxid: found, kind, path } => {
            assert_eq!(found, zxid);
            (kind, path)
        }
        Frame::Reply(reply) => panic!("an event was expected, found {reply:?}"),
    });
    events.collect()
}

fn after(world: &mut World, watcher: ConnectionId, writer: ConnectionId, change: Ask) -> Seen {
    assert_eq!(world.call(writer, change).error, None);
    events(world, watcher)
}

fn seen(list: &[(EventType, &str)]) -> Seen {
    list.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect()
}

/// What each kind of watch on `/q/p` (or on `/q/p/x` before it exists) sees of each change, and whether it
/// sees the next one of the kind too.
#[test]
fn the_table_of_events() {
    let cases: &[(&str, Ask, &str, &[EventType])] = &[
        ("getData", get_watch("/q/p"), "set", &[NodeDataChanged]),
        ("getData", get_watch("/q/p"), "delete", &[NodeDeleted]),
        ("getData", get_watch("/q/p"), "child", &[]),
        ("exists", exists_watch("/q/p"), "set", &[NodeDataChanged]),
        ("exists", exists_watch("/q/p"), "delete", &[NodeDeleted]),
        ("exists", exists_watch("/q/p"), "child", &[]),
        ("getChildren", children_watch("/q/p"), "set", &[]),
        ("getChildren", children_watch("/q/p"), "delete", &[NodeDeleted]),
        ("getChildren", children_watch("/q/p"), "child", &[NodeChildrenChanged]),
        ("persistent", add_watch("/q/p", 0), "set", &[NodeDataChanged]),
        ("persistent", add_watch("/q/p", 0), "delete", &[NodeDeleted]),
        ("persistent", add_watch("/q/p", 0), "child", &[NodeChildrenChanged]),
        ("recursive", add_watch("/q/p", 1), "set", &[NodeDataChanged]),
        ("recursive", add_watch("/q/p", 1), "delete", &[NodeDeleted]),
    ];
    for (name, watch, change, expected) in cases {
        let (mut world, watcher, writer) = watched();
        assert_eq!(world.call(watcher, watch.clone()).error, None);
        let (change, back) = match *change {
            "set" => (set("/q/p", "1"), None),
            "delete" => (delete("/q/p"), Some(create("/q/p", "", 0))),
            _ => (create("/q/p/x", "", 0), Some(delete("/q/p/x"))),
        };
        let expected: Seen = expected.iter().map(|kind| (*kind, "/q/p".to_owned())).collect();
        assert_eq!(after(&mut world, watcher, writer, change.clone()), expected, "{name}");
        if let Some(back) = back {
            world.call(writer, back);
            world.received(watcher);
        }
        let stays = matches!(*name, "persistent" | "recursive");
        let again = after(&mut world, watcher, writer, change);
        // A data watch survives a change that does not concern it.
        let untouched = expected.is_empty();
        assert_eq!(again, if stays || untouched { expected } else { vec![] }, "{name} again");
        assert_eq!(world.replica.watches().is_empty(), !stays && !untouched, "{name}");
    }
}

#[test]
fn a_watch_on_a_missing_node_sees_its_creation() {
    let (mut world, watcher, writer) = watched();
    assert_eq!(world.call(watcher, exists_watch("/q/new")).error, Some(ErrorCode::NoNode));
    assert_eq!(world.call(watcher, get_watch("/q/other")).error, Some(ErrorCode::NoNode));
    assert_eq!(world.call(watcher, children_watch("/q/other")).error, Some(ErrorCode::NoNode));
    let found = after(&mut world, watcher, writer, create("/q/new", "", 0));
    assert_eq!(found, seen(&[(NodeCreated, "/q/new")]));
    let found = after(&mut world, watcher, writer, create("/q/other", "", 0));
    assert_eq!(found, [], "only exists leaves a watch on what is not there");
}

#[test]
fn the_parent_learns_after_the_node() {
    let (mut world, watcher, writer) = watched();
    world.call(watcher, children_watch("/q"));
    world.call(watcher, exists_watch("/q/n"));
    let found = after(&mut world, watcher, writer, create("/q/n", "", 0));
    assert_eq!(found, seen(&[(NodeCreated, "/q/n"), (NodeChildrenChanged, "/q")]));
    world.call(watcher, children_watch("/q"));
    world.call(watcher, children_watch("/q/n"));
    world.call(watcher, get_watch("/q/n"));
    let found = after(&mut world, watcher, writer, delete("/q/n"));
    assert_eq!(
        found,
        seen(&[(NodeDeleted, "/q/n"), (NodeChildrenChanged, "/q")]),
        "one event for two watches"
    );
    assert!(world.replica.watches().is_empty(), "and both are used up");
}

#[test]
fn a_recursive_watch_sees_everything_below_but_no_child_events() {
    let (mut world, watcher, writer) = watched();
    world.call(watcher, add_watch("/q", 1));
    let mut found = after(&mut world, watcher, writer, create("/q/p/deep", "", 0));
    found.extend(after(&mut world, watcher, writer, set("/q/p/deep", "1")));
    found.extend(after(&mut world, watcher, writer, set("/q", "1")));
    found.extend(after(&mut world, watcher, writer, create("/elsewhere", "", 0)));
    found.extend(after(&mut world, watcher, writer, delete("/q/p/deep")));
    let expected = [
        (NodeCreated, "/q/p/deep"),
        (NodeDataChanged, "/q/p/deep"),
        (NodeDataChanged, "/q"),
        (NodeDeleted, "/q/p/deep"),
    ];
    assert_eq!(found, seen(&expected));
}

#[test]
fn what_changes_no_node_fires_nothing() {
    let (mut world, watcher, writer) = watched();
    for ask in [get_watch("/q/p"), children_watch("/q/p"), add_watch("/q/p", 0), add_watch("/", 1)] {
        world.call(watcher, ask);
    }
    assert_eq!(after(&mut world, watcher, writer, set_acl("/q/p", Acl::read_only())), []);
    let third = world.client();
    assert_eq!(events(&mut world, watcher), [], "a session begins");
    assert_eq!(after(&mut world, watcher, third, close_session()), [], "and ends without ephemerals");
    assert_eq!(world.call(writer, create("/q/p", "", 0)).error, Some(ErrorCode::NodeExists));
    assert_eq!(events(&mut world, watcher), []);
}

#[test]
fn the_parts_of_a_multi_fire_one_by_one() {
    let (mut world, watcher, writer) = watched();
    world.call(watcher, add_watch("/q", 0));
    world.call(watcher, get_watch("/q/p"));
    let ops = [
        multi_create(CreateOp::Create, "/q/a", 0),
        multi_set("/q/p", "1"),
        multi_set("/q/p", "2"),
        multi_delete("/q/a"),
        multi_set("/q", "1"),
    ];
    let expected = [
        (NodeChildrenChanged, "/q"),
        (NodeDataChanged, "/q/p"),
        (NodeChildrenChanged, "/q"),
        (NodeDataChanged, "/q"),
    ];
    assert_eq!(after(&mut world, watcher, writer, multi(&ops)), seen(&expected));
}

#[test]
fn the_end_of_a_session_fires_for_its_ephemerals() {
    let (mut world, watcher, writer) = watched();
    world.call(writer, create("/q/e", "", EPHEMERAL));
    world.call(watcher, exists_watch("/q/e"));
    world.call(watcher, children_watch("/q"));
    let found = after(&mut world, watcher, writer, close_session());
    assert_eq!(found, seen(&[(NodeDeleted, "/q/e"), (NodeChildrenChanged, "/q")]));
}

fn only(user: &str) -> Vec<Acl> {
    let id = digest_id(user, DigestAlgorithm::Sha1);
    vec![Acl::new(Permissions::ALL, "digest", id)]
}

#[test]
fn a_client_is_not_told_of_nodes_that_it_may_not_read() {
    let (mut world, watcher, writer) = watched();
    world.call(writer, auth("digest", "me:secret"));
    let friend = world.client();
    world.call(friend, auth("digest", "me:secret"));
    for lane in [watcher, friend] {
        world.call(lane, exists_watch("/hidden"));
        world.call(lane, children_watch("/"));
    }
    world.call(writer, create_with_acl("/hidden", only("me:secret")));
    assert_eq!(events(&mut world, watcher), seen(&[(NodeChildrenChanged, "/")]));
    assert_eq!(events(&mut world, friend), seen(&[(NodeCreated, "/hidden"), (NodeChildrenChanged, "/")]));
    assert!(world.replica.watches().is_empty(), "an event that was kept back uses the watch up all the same");

    // An exists on a node that may not be read fails and leaves nothing; a watch that is registered is
    // measured against the credentials of the moment of the event.
    assert_eq!(world.call(watcher, exists_watch("/hidden")).error, Some(ErrorCode::NoAuth));
    assert!(world.replica.watches().is_empty());
    world.call(watcher, add_watch("/hidden", 0));
    assert_eq!(after(&mut world, watcher, writer, set("/hidden", "1")), []);
    world.call(watcher, auth("digest", "me:secret"));
    let found = after(&mut world, watcher, writer, set("/hidden", "2"));
    assert_eq!(found, seen(&[(NodeDataChanged, "/hidden")]));
    let found = after(&mut world, watcher, writer, delete("/hidden"));
    assert_eq!(found, seen(&[(NodeDeleted, "/hidden")]), "by the list that it had");
}

#[test]
fn the_super_user_is_told_everything() {
    let auth_settings = zebu_tree::access::AuthSettings {
        super_digest: Some(digest_id("super:pw", DigestAlgorithm::Sha1).into()),
        ..Default::default()
    };
    let policy = Policy { auth: auth_settings, ..Policy::default() };
    let mut world = World::over(Tree::new(tree_options()), settings(), policy, AuthEnforcement::Off);
    let (watcher, writer) = (world.client(), world.client());
    world.call(writer, auth("digest", "me:secret"));
    world.call(watcher, auth("digest", "super:pw"));
    world.call(watcher, exists_watch("/hidden"));
    let found = after(&mut world, watcher, writer, create_with_acl("/hidden", only("me:secret")));
    assert_eq!(found, seen(&[(NodeCreated, "/hidden")]));
}

#[test]
fn set_watches_reports_what_was_missed_and_registers_the_rest() {
    let (mut world, watcher, writer) = watched();
    world.call(writer, create("/same", "", 0));
    world.call(writer, create("/gone", "", 0));
    world.call(writer, create("/parent", "", 0));
    world.call(writer, create("/quiet", "", 0));
    world.call(writer, set("/same", "seen"));
    let seen_zxid = world.replica.last_zxid().0;
    // The very next transaction counts as missed, the last one that was seen does not.
    world.call(writer, set("/q/p", "1"));
    world.call(writer, delete("/gone"));
    world.call(writer, create("/parent/x", "", 0));
    world.call(writer, create("/appeared", "", 0));

    let lists: [&[&str]; 5] = [
        &["/same", "/gone", "/q/p"],
        &["/appeared", "/still-missing"],
        &["/quiet", "/gone", "/parent"],
        &["/parent"],
        &["/q"],
    ];
    world.send_as(watcher, -8, &set_watches(seen_zxid, &lists));
    let received = world.received(watcher);
    let expected = [
        (NodeDeleted, "/gone"),
        (NodeDataChanged, "/q/p"),
        (NodeCreated, "/appeared"),
        (NodeDeleted, "/gone"),
        (NodeChildrenChanged, "/parent"),
    ];
    let expected: Vec<Frame> =
        expected.iter().map(|&(kind, path)| Frame::Event { zxid: -1, kind, path: path.into() }).collect();
    assert_eq!(received[..5], expected);
    let reply = received[5].clone().reply();
    assert_eq!((reply.xid, reply.error, reply.zxid), (-8, None, world.replica.last_zxid().0));
    assert_eq!(received.len(), 6);

    for (path, kind, held) in [
        ("/same", DATA, true),
        ("/gone", ANY, false),
        ("/q/p", ANY, false),
        ("/appeared", ANY, false),
        ("/still-missing", DATA, true),
        ("/quiet", CHILDREN, true),
        ("/quiet", DATA, false),
        ("/parent", CHILDREN, false),
        ("/parent", PERSISTENT, true),
        ("/q", RECURSIVE, true),
    ] {
        let error = world.call(watcher, check_watches(path, kind)).error;
        assert_eq!(error.is_none(), held, "{path} {kind} {error:?}");
    }
    let found = after(&mut world, watcher, writer, set("/q/p", "2"));
    assert_eq!(found, seen(&[(NodeDataChanged, "/q/p")]), "by the recursive watch");
}

#[test]
fn set_watches_is_not_filtered_by_permission() {
    let (mut world, watcher, writer) = watched();
    world.call(writer, auth("digest", "me:secret"));
    world.call(writer, create_with_acl("/hidden", only("me:secret")));
    world.send_as(watcher, -8, &set_watches(0, &[&["/hidden"], &[], &[]]));
    let received = world.received(watcher);
    assert_eq!(received[0], Frame::Event { zxid: -1, kind: NodeDataChanged, path: "/hidden".into() });
}

#[test]
fn a_null_list_of_set_watches_is_refused_without_effect() {
    let (mut world, watcher, _) = watched();
    let mut ask = set_watches(0, &[&["/q"], &[], &[]]);
    let length = ask.body.len();
    ask.body[length - 4..].copy_from_slice(&(-1i32).to_be_bytes());
    let reply = world.call(watcher, ask);
    assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
    assert!(world.replica.watches().is_empty());
}

#[test]
fn watches_go_with_their_connection() {
    let (mut world, watcher, writer) = watched();
    world.call(watcher, get_watch("/q"));
    world.call(watcher, add_watch("/q", 0));
    world.call(watcher, add_watch("/", 1));
    assert_eq!(world.replica.watches().len(), 3);
    let again = world.hello_again(watcher);
    world.disconnect(watcher);
    assert!(world.replica.watches().is_empty());
    world.call(writer, set("/q", "1"));
    let second = world.open();
    world.connect(second, again);
    world.greeting(second);
    world.call(writer, set("/q", "2"));
    assert_eq!(world.received(second), [], "the session has to set them again");
}

#[test]
fn watches_of_a_read_that_waits_are_registered_when_it_runs() {
    let (mut world, watcher, writer) = watched();
    world.send(watcher, set("/q", "1"));
    world.send(watcher, get_watch("/q"));
    world.send(watcher, get_watch("/q/p"));
    assert!(world.replica.watches().is_empty());
    let farewell = world.vanish(watcher);
    world.handle(farewell);
    world.persist();
    assert!(world.replica.watches().is_empty(), "the reads of a connection that left are not run");
    world.call(writer, set("/q", "2"));
}

#[test]
fn watches_are_checked_and_removed_by_type() {
    let setups: [(Ask, &[i32]); 4] = [
        (get_watch("/q"), &[DATA, ANY]),
        (children_watch("/q"), &[CHILDREN, ANY]),
        (add_watch("/q", 0), &[PERSISTENT, ANY]),
        (add_watch("/q", 1), &[RECURSIVE, ANY]),
    ];
    for (setup, matching) in setups {
        for kind in [CHILDREN, DATA, ANY, PERSISTENT, RECURSIVE] {
            let (mut world, watcher, other) = watched();
            world.call(watcher, setup.clone());
            let expected = (!matching.contains(&kind)).then_some(ErrorCode::NoWatcher);
            assert_eq!(world.call(watcher, check_watches("/q", kind)).error, expected, "{setup:?} {kind}");
            assert_eq!(world.call(other, check_watches("/q", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(world.call(other, remove_watches("/q", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(world.call(watcher, remove_watches("/q/p", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(world.call(watcher, remove_watches("/q", kind)).error, expected, "{setup:?} {kind}");
            assert_eq!(world.replica.watches().is_empty(), expected.is_none());
        }
    }
    let (mut world, watcher, _) = watched();
    for kind in [0, 6, -1] {
        assert_eq!(world.call(watcher, check_watches("/q", kind)).error, Some(ErrorCode::MarshallingError));
        assert_eq!(world.call(watcher, remove_watches("/q", kind)).error, Some(ErrorCode::MarshallingError));
    }
    assert_eq!(world.call(watcher, add_watch("/q", 2)).error, Some(ErrorCode::MarshallingError));
}
