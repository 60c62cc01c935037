//! Watches, from the read that registers one to the event.

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
use crate::node_fixture::{NodeFixture, settings, tree_options};

const CHILDREN: i32 = 1;
const DATA: i32 = 2;
const ANY: i32 = 3;
const PERSISTENT: i32 = 4;
const RECURSIVE: i32 = 5;

type Seen = Vec<(EventType, String)>;

/// A client that watches, one that changes things, and `/q` with the child `/q/p`.
fn watched() -> (NodeFixture, ConnectionId, ConnectionId) {
    let mut fixture = NodeFixture::new();
    let (watcher, writer) = (fixture.client(), fixture.client());
    fixture.call(writer, create("/q", "", 0));
    fixture.call(writer, create("/q/p", "", 0));
    (fixture, watcher, writer)
}

fn events(fixture: &mut NodeFixture, connection: ConnectionId) -> Seen {
    let zxid = fixture.replica.last_zxid().0;
    let events = fixture.received(connection).into_iter().map(|frame| match frame {
        Frame::Event { zxid: found, kind, path } => {
            assert_eq!(found, zxid);
            (kind, path)
        }
        Frame::Reply(reply) => panic!("an event was expected, found {reply:?}"),
    });
    events.collect()
}

fn after(fixture: &mut NodeFixture, watcher: ConnectionId, writer: ConnectionId, change: Ask) -> Seen {
    assert_eq!(fixture.call(writer, change).error, None);
    events(fixture, watcher)
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
        let (mut fixture, watcher, writer) = watched();
        assert_eq!(fixture.call(watcher, watch.clone()).error, None);
        let (change, back) = match *change {
            "set" => (set("/q/p", "1"), None),
            "delete" => (delete("/q/p"), Some(create("/q/p", "", 0))),
            _ => (create("/q/p/x", "", 0), Some(delete("/q/p/x"))),
        };
        let expected: Seen = expected.iter().map(|kind| (*kind, "/q/p".to_owned())).collect();
        assert_eq!(after(&mut fixture, watcher, writer, change.clone()), expected, "{name}");
        if let Some(back) = back {
            fixture.call(writer, back);
            fixture.received(watcher);
        }
        let stays = matches!(*name, "persistent" | "recursive");
        let again = after(&mut fixture, watcher, writer, change);
        // A data watch survives a change that does not concern it.
        let untouched = expected.is_empty();
        assert_eq!(again, if stays || untouched { expected } else { vec![] }, "{name} again");
        assert_eq!(fixture.replica.watches().is_empty(), !stays && !untouched, "{name}");
    }
}

#[test]
fn a_watch_on_a_missing_node_sees_its_creation() {
    let (mut fixture, watcher, writer) = watched();
    assert_eq!(fixture.call(watcher, exists_watch("/q/new")).error, Some(ErrorCode::NoNode));
    assert_eq!(fixture.call(watcher, get_watch("/q/other")).error, Some(ErrorCode::NoNode));
    assert_eq!(fixture.call(watcher, children_watch("/q/other")).error, Some(ErrorCode::NoNode));
    let found = after(&mut fixture, watcher, writer, create("/q/new", "", 0));
    assert_eq!(found, seen(&[(NodeCreated, "/q/new")]));
    let found = after(&mut fixture, watcher, writer, create("/q/other", "", 0));
    assert_eq!(found, [], "only exists leaves a watch on what is not there");
}

#[test]
fn the_parent_learns_after_the_node() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(watcher, children_watch("/q"));
    fixture.call(watcher, exists_watch("/q/n"));
    let found = after(&mut fixture, watcher, writer, create("/q/n", "", 0));
    assert_eq!(found, seen(&[(NodeCreated, "/q/n"), (NodeChildrenChanged, "/q")]));
    fixture.call(watcher, children_watch("/q"));
    fixture.call(watcher, children_watch("/q/n"));
    fixture.call(watcher, get_watch("/q/n"));
    let found = after(&mut fixture, watcher, writer, delete("/q/n"));
    assert_eq!(
        found,
        seen(&[(NodeDeleted, "/q/n"), (NodeChildrenChanged, "/q")]),
        "one event for two watches"
    );
    assert!(fixture.replica.watches().is_empty(), "and both are used up");
}

#[test]
fn a_recursive_watch_sees_everything_below_but_no_child_events() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(watcher, add_watch("/q", 1));
    let mut found = after(&mut fixture, watcher, writer, create("/q/p/deep", "", 0));
    found.extend(after(&mut fixture, watcher, writer, set("/q/p/deep", "1")));
    found.extend(after(&mut fixture, watcher, writer, set("/q", "1")));
    found.extend(after(&mut fixture, watcher, writer, create("/elsewhere", "", 0)));
    found.extend(after(&mut fixture, watcher, writer, delete("/q/p/deep")));
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
    let (mut fixture, watcher, writer) = watched();
    for ask in [get_watch("/q/p"), children_watch("/q/p"), add_watch("/q/p", 0), add_watch("/", 1)] {
        fixture.call(watcher, ask);
    }
    assert_eq!(after(&mut fixture, watcher, writer, set_acl("/q/p", Acl::read_only())), []);
    let third = fixture.client();
    assert_eq!(events(&mut fixture, watcher), [], "a session begins");
    assert_eq!(after(&mut fixture, watcher, third, close_session()), [], "and ends without ephemerals");
    assert_eq!(fixture.call(writer, create("/q/p", "", 0)).error, Some(ErrorCode::NodeExists));
    assert_eq!(events(&mut fixture, watcher), []);
}

#[test]
fn the_parts_of_a_multi_fire_one_by_one() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(watcher, add_watch("/q", 0));
    fixture.call(watcher, get_watch("/q/p"));
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
    assert_eq!(after(&mut fixture, watcher, writer, multi(&ops)), seen(&expected));
}

#[test]
fn the_end_of_a_session_fires_for_its_ephemerals() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(writer, create("/q/e", "", EPHEMERAL));
    fixture.call(watcher, exists_watch("/q/e"));
    fixture.call(watcher, children_watch("/q"));
    let found = after(&mut fixture, watcher, writer, close_session());
    assert_eq!(found, seen(&[(NodeDeleted, "/q/e"), (NodeChildrenChanged, "/q")]));
}

fn only(user: &str) -> Vec<Acl> {
    let id = digest_id(user, DigestAlgorithm::Sha1);
    vec![Acl::new(Permissions::ALL, "digest", id)]
}

#[test]
fn a_client_is_not_told_of_nodes_that_it_may_not_read() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(writer, auth("digest", "me:secret"));
    let friend = fixture.client();
    fixture.call(friend, auth("digest", "me:secret"));
    for connection in [watcher, friend] {
        fixture.call(connection, exists_watch("/hidden"));
        fixture.call(connection, children_watch("/"));
    }
    fixture.call(writer, create_with_acl("/hidden", only("me:secret")));
    assert_eq!(events(&mut fixture, watcher), seen(&[(NodeChildrenChanged, "/")]));
    assert_eq!(events(&mut fixture, friend), seen(&[(NodeCreated, "/hidden"), (NodeChildrenChanged, "/")]));
    assert!(
        fixture.replica.watches().is_empty(),
        "an event that was kept back uses the watch up all the same"
    );

    // An exists on a node that may not be read fails and leaves nothing; a watch that is registered is
    // measured against the credentials of the moment of the event.
    assert_eq!(fixture.call(watcher, exists_watch("/hidden")).error, Some(ErrorCode::NoAuth));
    assert!(fixture.replica.watches().is_empty());
    fixture.call(watcher, add_watch("/hidden", 0));
    assert_eq!(after(&mut fixture, watcher, writer, set("/hidden", "1")), []);
    fixture.call(watcher, auth("digest", "me:secret"));
    let found = after(&mut fixture, watcher, writer, set("/hidden", "2"));
    assert_eq!(found, seen(&[(NodeDataChanged, "/hidden")]));
    let found = after(&mut fixture, watcher, writer, delete("/hidden"));
    assert_eq!(found, seen(&[(NodeDeleted, "/hidden")]), "by the list that it had");
}

#[test]
fn the_super_user_is_told_everything() {
    let auth_settings = zebu_tree::access::AuthSettings {
        super_digest: Some(digest_id("super:pw", DigestAlgorithm::Sha1).into()),
        ..Default::default()
    };
    let policy = Policy { auth: auth_settings, ..Policy::default() };
    let mut fixture = NodeFixture::over(Tree::new(tree_options()), settings(), policy, AuthEnforcement::Off);
    let (watcher, writer) = (fixture.client(), fixture.client());
    fixture.call(writer, auth("digest", "me:secret"));
    fixture.call(watcher, auth("digest", "super:pw"));
    fixture.call(watcher, exists_watch("/hidden"));
    let found = after(&mut fixture, watcher, writer, create_with_acl("/hidden", only("me:secret")));
    assert_eq!(found, seen(&[(NodeCreated, "/hidden")]));
}

#[test]
fn set_watches_reports_what_was_missed_and_registers_the_rest() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(writer, create("/same", "", 0));
    fixture.call(writer, create("/gone", "", 0));
    fixture.call(writer, create("/parent", "", 0));
    fixture.call(writer, create("/quiet", "", 0));
    fixture.call(writer, set("/same", "seen"));
    let seen_zxid = fixture.replica.last_zxid().0;
    // The very next transaction counts as missed, the last one that was seen does not.
    fixture.call(writer, set("/q/p", "1"));
    fixture.call(writer, delete("/gone"));
    fixture.call(writer, create("/parent/x", "", 0));
    fixture.call(writer, create("/appeared", "", 0));

    let lists: [&[&str]; 5] = [
        &["/same", "/gone", "/q/p"],
        &["/appeared", "/still-missing"],
        &["/quiet", "/gone", "/parent"],
        &["/parent"],
        &["/q"],
    ];
    fixture.send_as(watcher, -8, &set_watches(seen_zxid, &lists));
    let received = fixture.received(watcher);
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
    assert_eq!((reply.xid, reply.error, reply.zxid), (-8, None, fixture.replica.last_zxid().0));
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
        let error = fixture.call(watcher, check_watches(path, kind)).error;
        assert_eq!(error.is_none(), held, "{path} {kind} {error:?}");
    }
    let found = after(&mut fixture, watcher, writer, set("/q/p", "2"));
    assert_eq!(found, seen(&[(NodeDataChanged, "/q/p")]), "by the recursive watch");
}

#[test]
fn set_watches_is_not_filtered_by_permission() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(writer, auth("digest", "me:secret"));
    fixture.call(writer, create_with_acl("/hidden", only("me:secret")));
    fixture.send_as(watcher, -8, &set_watches(0, &[&["/hidden"], &[], &[]]));
    let received = fixture.received(watcher);
    assert_eq!(received[0], Frame::Event { zxid: -1, kind: NodeDataChanged, path: "/hidden".into() });
}

#[test]
fn a_null_list_of_set_watches_is_refused_without_effect() {
    let (mut fixture, watcher, _) = watched();
    let mut ask = set_watches(0, &[&["/q"], &[], &[]]);
    let length = ask.body.len();
    ask.body[length - 4..].copy_from_slice(&(-1i32).to_be_bytes());
    let reply = fixture.call(watcher, ask);
    assert_eq!(reply.error, Some(ErrorCode::MarshallingError));
    assert!(fixture.replica.watches().is_empty());
}

#[test]
fn watches_go_with_their_connection() {
    let (mut fixture, watcher, writer) = watched();
    fixture.call(watcher, get_watch("/q"));
    fixture.call(watcher, add_watch("/q", 0));
    fixture.call(watcher, add_watch("/", 1));
    assert_eq!(fixture.replica.watches().len(), 3);
    let again = fixture.hello_again(watcher);
    fixture.disconnect(watcher);
    assert!(fixture.replica.watches().is_empty());
    fixture.call(writer, set("/q", "1"));
    let second = fixture.open();
    fixture.connect(second, again);
    fixture.greeting(second);
    fixture.call(writer, set("/q", "2"));
    assert_eq!(fixture.received(second), [], "the session has to set them again");
}

#[test]
fn watches_of_a_read_that_waits_are_registered_when_it_runs() {
    let (mut fixture, watcher, writer) = watched();
    fixture.send(watcher, set("/q", "1"));
    fixture.send(watcher, get_watch("/q"));
    fixture.send(watcher, get_watch("/q/p"));
    assert!(fixture.replica.watches().is_empty());
    let farewell = fixture.vanish(watcher);
    fixture.handle(farewell);
    fixture.persist();
    assert!(fixture.replica.watches().is_empty(), "the reads of a connection that left are not run");
    fixture.call(writer, set("/q", "2"));
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
            let (mut fixture, watcher, other) = watched();
            fixture.call(watcher, setup.clone());
            let expected = (!matching.contains(&kind)).then_some(ErrorCode::NoWatcher);
            assert_eq!(fixture.call(watcher, check_watches("/q", kind)).error, expected, "{setup:?} {kind}");
            assert_eq!(fixture.call(other, check_watches("/q", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(fixture.call(other, remove_watches("/q", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(fixture.call(watcher, remove_watches("/q/p", kind)).error, Some(ErrorCode::NoWatcher));
            assert_eq!(fixture.call(watcher, remove_watches("/q", kind)).error, expected, "{setup:?} {kind}");
            assert_eq!(fixture.replica.watches().is_empty(), expected.is_none());
        }
    }
    let (mut fixture, watcher, _) = watched();
    for kind in [0, 6, -1] {
        assert_eq!(fixture.call(watcher, check_watches("/q", kind)).error, Some(ErrorCode::MarshallingError));
        assert_eq!(
            fixture.call(watcher, remove_watches("/q", kind)).error,
            Some(ErrorCode::MarshallingError)
        );
    }
    assert_eq!(fixture.call(watcher, add_watch("/q", 2)).error, Some(ErrorCode::MarshallingError));
}
