//! setData, setACL and check: order of checks and effects.

use zebu_proto::client::{EventType, SetAclRequest, SetDataRequest, WriteRequest};
use zebu_proto::txn::{CheckTxn, SetAclTxn, SetDataTxn, Txn};
use zebu_proto::{Acl, ErrorCode, Permissions};
use zebu_tree::TxnOutcome;

use crate::support::*;

const BAD_PATHS: [&str; 6] = ["", "x", "/missing/", "//", "/missing/.", "/\u{fffd}"];

fn only(permission: i32) -> Vec<Acl> {
    vec![Acl::new(permission, "world", "anyone")]
}

#[test]
fn set_data_in_order() {
    let mut world = World::new();
    world.ok(create_acl("/closed", only(!Permissions::WRITE)));
    world.create("/a");
    let null = || WriteRequest::SetData(SetDataRequest { path: None, data: None, version: -1 });
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(null()), ErrorCode::SessionExpired);
    world.session_check = Ok(());
    assert_eq!(world.error(null()), ErrorCode::BadArguments);
    for path in BAD_PATHS {
        assert_eq!(world.error(set(path, "")), ErrorCode::BadArguments, "{path:?}");
    }
    assert_eq!(world.error(set("/missing", "")), ErrorCode::NoNode);
    assert_eq!(world.error(set_version("/closed", "", 9)), ErrorCode::NoAuth);
    assert_eq!(world.error(set_version("/a", "", 9)), ErrorCode::BadVersion);
    world.events.clear();
    world.time_ms += 5;
    let TxnOutcome::DataSet { stat } = world.ok(set_version("/a", "abc", 0)) else { panic!() };
    assert_eq!((stat.version, stat.mzxid, stat.mtime), (1, world.zxid, START_MS + 5));
    assert_eq!((stat.ctime, stat.data_length, stat.pzxid), (START_MS, 3, stat.czxid));
    assert_eq!(world.events, [(EventType::NodeDataChanged, "/a".to_owned())]);
}

#[test]
fn the_root_can_be_set() {
    let mut world = World::new();
    world.prepare(set("/", "x"));
    world.prepare(create("/child"));
    world.prepare(set_version("/", "y", 1));
    world.apply_pending();
    assert_eq!(world.data("/"), Some(&b"y"[..]));
    assert_eq!(world.data(""), Some(&b"y"[..]));
    assert_eq!(world.stat("/").num_children, 2);
}

#[test]
fn null_data_stays_null() {
    let mut world = World::new();
    world.create("/a");
    let null = SetDataRequest { path: Some("/a".into()), data: None, version: -1 };
    world.ok(WriteRequest::SetData(null));
    assert_eq!((world.data("/a"), world.stat("/a").data_length), (None, 0));
}

#[test]
fn versions_wrap_through_minus_one() {
    let mut world = World::new();
    world.create("/a");
    for (current, next) in [(i32::MAX, i32::MIN), (-2, -1), (-1, 0)] {
        world.zxid += 1;
        let data = SetDataTxn { path: "/a".into(), data: None, version: current };
        apply(&mut world.tree, world.zxid, &Txn::SetData(data));
        world.zxid += 1;
        let acl = SetAclTxn { path: "/a".into(), acl: None, version: current };
        apply(&mut world.tree, world.zxid, &Txn::SetAcl(acl));
        world.ok(set("/a", ""));
        world.ok(set_acl("/a", Acl::open(), -1));
        assert_eq!((world.stat("/a").version, world.stat("/a").aversion), (next, next));
    }
}

#[test]
fn set_acl_in_order() {
    let mut world = World::new();
    world.ok(create_acl("/closed", only(!Permissions::ADMIN)));
    world.create("/a");
    let null = || WriteRequest::SetAcl(SetAclRequest { path: None, acl: None, version: -1 });
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(null()), ErrorCode::SessionExpired);
    world.session_check = Ok(());
    assert_eq!(world.error(null()), ErrorCode::BadArguments);
    for path in BAD_PATHS {
        assert_eq!(world.error(set_acl(path, vec![], -1)), ErrorCode::BadArguments, "{path:?}");
    }
    assert_eq!(world.error(set_acl("/missing", vec![], -1)), ErrorCode::InvalidAcl);
    assert_eq!(world.error(set_acl("/missing", Acl::open(), -1)), ErrorCode::NoNode);
    assert_eq!(world.error(set_acl("/closed", Acl::open(), 9)), ErrorCode::NoAuth);
    assert_eq!(world.error(set_acl("/a", Acl::open(), 9)), ErrorCode::BadVersion);
    world.ok(set("/a", "x"));
    let before = world.stat("/a");
    world.events.clear();
    let TxnOutcome::AclSet { stat } = world.ok(set_acl("/a", Acl::read_only(), 0)) else { panic!() };
    assert_eq!(stat, zebu_proto::Stat { aversion: 1, ..before }, "nothing else moves");
    assert_eq!(world.events, []);
    assert_eq!(**world.tree.node("/a").unwrap().acl(), *Acl::read_only());
}

#[test]
fn the_configuration_is_protected_by_its_acl_only() {
    let mut world = World::new();
    assert_eq!(world.error(set("/zookeeper/config", "x")), ErrorCode::NoAuth);
    world.credentials.add(zebu_proto::Id::new("super", ""));
    world.ok(set("/zookeeper/config", "x"));
}

#[test]
fn check_in_order() {
    let mut world = World::new();
    world.ok(create_acl("/closed", only(!Permissions::READ)));
    world.create("/a");
    let part = |world: &mut World, path: &str, version| match world.run(multi([check(path, version)])) {
        TxnOutcome::Multi(parts) => parts[0].clone(),
        other => panic!("{other:?}"),
    };
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(part(&mut world, "bad", 0), TxnOutcome::error(ErrorCode::SessionExpired));
    world.session_check = Ok(());
    for path in BAD_PATHS {
        assert_eq!(part(&mut world, path, 0), TxnOutcome::error(ErrorCode::BadArguments), "{path:?}");
    }
    assert_eq!(part(&mut world, "/missing", 9), TxnOutcome::error(ErrorCode::NoNode));
    assert_eq!(part(&mut world, "/closed", 9), TxnOutcome::error(ErrorCode::NoAuth));
    assert_eq!(part(&mut world, "/a", 9), TxnOutcome::error(ErrorCode::BadVersion));
    assert_eq!(part(&mut world, "/a", 0), TxnOutcome::Checked);
    let Txn::Multi(parts) = world.prepare(multi([check("/a", -1)])) else { panic!() };
    assert_eq!(parts[0].0, Txn::Check(CheckTxn { path: "/a".into(), version: 1 }), "one more than it is");
}
