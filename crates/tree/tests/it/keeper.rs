//! The writes and checks of ClickHouse Keeper: their effects, the order of their errors, and transactions
//! that every ZooKeeper server can apply.

use zebu_proto::client::{
    CheckRequest, CheckStatRequest, CreateOp, CreateRequest, DeleteRequest, KeeperCheck, KeeperPart,
    KeeperWrite, MultiOp, RemoveRecursiveRequest, WriteRequest,
};
use zebu_proto::txn::{CheckTxn, SubTxn, Txn};
use zebu_proto::{Acl, ErrorCode, Permissions, Stat};
use zebu_tree::TxnOutcome;

use crate::support::*;

/// No field of a stat is checked.
pub(crate) const ANY_STAT: Stat = Stat {
    czxid: -1,
    mzxid: -1,
    ctime: -1,
    mtime: -1,
    version: -1,
    cversion: -1,
    aversion: -1,
    ephemeral_owner: -1,
    data_length: -1,
    num_children: -1,
    pzxid: -1,
};

fn create_if_not_exists(path: &str, flags: i32) -> KeeperWrite {
    KeeperWrite::CreateIfNotExists(request(CreateOp::Create, path, flags))
}

fn try_remove(path: &str, version: i32) -> KeeperWrite {
    KeeperWrite::TryRemove(DeleteRequest { path: Some(path.into()), version })
}

fn remove_recursive(path: &str, limit: u32) -> KeeperWrite {
    KeeperWrite::RemoveRecursive(RemoveRecursiveRequest { path: Some(path.into()), limit })
}

fn alone(write: KeeperWrite) -> WriteRequest {
    WriteRequest::Keeper(Box::new(write))
}

fn write_part(write: KeeperWrite) -> MultiOp {
    MultiOp::Keeper(Box::new(KeeperPart::Write(write)))
}

fn not_exists(path: &str, version: i32) -> MultiOp {
    let check = CheckRequest { path: Some(path.into()), version };
    MultiOp::Keeper(Box::new(KeeperPart::Check(KeeperCheck::NotExists(check))))
}

fn check_stat(path: &str, version: i32, stat: Stat) -> MultiOp {
    let check = CheckStatRequest { path: Some(path.into()), version, stat };
    MultiOp::Keeper(Box::new(KeeperPart::Check(KeeperCheck::Stat(Box::new(check)))))
}

fn no_effect(path: &str) -> SubTxn {
    part(Txn::Check(CheckTxn { path: path.into(), version: 0 }))
}

/// Everyone but for these permissions.
fn without(permission: i32) -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL & !permission, "world", "anyone")]
}

/// Runs a write alone, which must have no effect.
fn does_nothing(world: &mut World, write: KeeperWrite, path: &str) {
    let (before, events) = (dump(&world.tree), world.events.len());
    let txn = world.prepare(alone(write.clone()));
    assert_eq!(txn, Txn::Multi(vec![no_effect(path)]), "{write:?}");
    let outcome = world.apply_pending().unwrap();
    assert_eq!(outcome, TxnOutcome::Multi(vec![TxnOutcome::Checked]));
    assert_eq!((dump(&world.tree), world.events.len()), (before, events), "{write:?}");
}

/// Runs a write alone and as a part of a multi; both fail with this error.
fn fails(world: &mut World, write: KeeperWrite, error: ErrorCode) {
    assert_eq!(world.error(alone(write.clone())), error, "{write:?}");
    part_fails(world, write_part(write), error);
}

fn part_fails(world: &mut World, op: MultiOp, error: ErrorCode) {
    let before = dump(&world.tree);
    let outcome = world.run(WriteRequest::Multi(vec![op.clone()]));
    assert_eq!(outcome, TxnOutcome::Multi(vec![TxnOutcome::error(error)]), "{op:?}");
    assert_eq!(dump(&world.tree), before, "{op:?}");
}

fn part_passes(world: &mut World, op: MultiOp, path: &str) {
    let before = dump(&world.tree);
    let txn = world.prepare(WriteRequest::Multi(vec![op.clone()]));
    assert_eq!(txn, Txn::Multi(vec![no_effect(path)]), "{op:?}");
    world.apply_pending();
    assert_eq!(dump(&world.tree), before, "{op:?}");
}

fn world() -> World {
    let mut world = World::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/d", "/x"] {
        world.create(path);
    }
    world
}

#[test]
fn create_if_not_exists_creates_once() {
    let mut world = world();
    let txn = world.prepare(alone(create_if_not_exists("/a/new", 0)));
    assert!(matches!(&txn, Txn::Create(create) if &*create.path == "/a/new"), "{txn:?}");
    world.apply_pending();
    does_nothing(&mut world, create_if_not_exists("/a/new", 0), "/a/new");
    // The second of two pending requests sees the first.
    world.prepare(alone(create_if_not_exists("/a/e", 1)));
    assert_eq!(world.prepare(alone(create_if_not_exists("/a/e", 1))), Txn::Multi(vec![no_effect("/a/e")]));
    world.apply_pending();
    assert_eq!(world.stat("/a/e").ephemeral_owner, SESSION.0);
}

#[test]
fn create_if_not_exists_fails_in_this_order() {
    let mut world = world();
    world.ok(ephemeral("/own"));
    world.ok(set_acl("/x", without(Permissions::CREATE), -1));
    let bad_acl = |path: &str, flags| {
        KeeperWrite::CreateIfNotExists(CreateRequest {
            acl: Some(vec![].into()),
            ..request(CreateOp::Create, path, flags)
        })
    };
    fails(&mut world, bad_acl("/none/b", 2), ErrorCode::NoNode);
    fails(&mut world, bad_acl("/x/b", 2), ErrorCode::NoAuth);
    fails(&mut world, bad_acl("/own/b", 2), ErrorCode::NoChildrenForEphemerals);
    fails(&mut world, bad_acl("/a/b", 2), ErrorCode::BadArguments);
    fails(&mut world, bad_acl("/a/b", 4), ErrorCode::BadArguments);
    fails(&mut world, bad_acl("/a/b", 99), ErrorCode::BadArguments);
    fails(&mut world, bad_acl("/a/new", 0), ErrorCode::InvalidAcl);
    does_nothing(&mut world, bad_acl("/a/b", 0), "/a/b");
    // An existing node hides no missing permission.
    world.ok(set_acl("/a", without(Permissions::CREATE), -1));
    fails(&mut world, create_if_not_exists("/a/b", 0), ErrorCode::NoAuth);
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(alone(create_if_not_exists("/b", 0))), ErrorCode::SessionExpired);
}

#[test]
fn try_remove_removes_what_can_be_removed() {
    let mut world = world();
    does_nothing(&mut world, try_remove("/none", -1), "/none");
    does_nothing(&mut world, try_remove("/none/b", -1), "/none/b");
    does_nothing(&mut world, try_remove("/a/d", 7), "/a/d");
    does_nothing(&mut world, try_remove("/a", -1), "/a");
    assert_eq!(world.prepare(alone(try_remove("/a/d", 0))), Txn::Delete("/a/d".into()));
    assert_eq!(world.prepare(alone(try_remove("/a/d", 0))), Txn::Multi(vec![no_effect("/a/d")]));
    world.apply_pending();
    assert!(!world.exists("/a/d"));
    world.ok(set_acl("/a", without(Permissions::DELETE), -1));
    fails(&mut world, try_remove("/a/b", 9), ErrorCode::NoAuth);
    fails(&mut world, try_remove("/a/none", -1), ErrorCode::NoAuth);
    fails(&mut world, try_remove("/zookeeper", -1), ErrorCode::BadArguments);
    fails(&mut world, try_remove("/none//b", -1), ErrorCode::BadArguments);
}

fn deleted(txn: &Txn) -> Vec<&str> {
    let Txn::Multi(parts) = txn else { panic!("{txn:?}") };
    parts
        .iter()
        .map(|SubTxn(part)| match part {
            Txn::Delete(path) => &**path,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_subtree_that_does_not_fit_one_transaction_is_not_empty() {
    for bytes_max in 100..300 {
        let mut world = World::new();
        world.policy.transaction_bytes_max = usize::MAX;
        for path in ["/a", "/a/b", "/a/c", "/a/d"] {
            world.create(path);
        }
        world.policy.transaction_bytes_max = bytes_max;
        let txn = world.prepare(alone(remove_recursive("/a", 100)));
        let is_right =
            matches!(&txn, Txn::Multi(parts) if parts.len() == 4) || txn == Txn::error(ErrorCode::NotEmpty);
        assert!(is_right, "{bytes_max}: {txn:?}");
    }
}

#[test]
fn remove_recursive_deletes_leaves_first() {
    let mut world = world();
    let txn = world.prepare(alone(remove_recursive("/a", 4)));
    assert_eq!(deleted(&txn), ["/a/b/c", "/a/b", "/a/d", "/a"]);
    world.apply_pending();
    assert!(!world.exists("/a") && world.exists("/x"));
    does_nothing(&mut world, remove_recursive("/a", 4), "/a");
    does_nothing(&mut world, remove_recursive("/a/b", 4), "/a/b");
}

#[test]
fn remove_recursive_fails_in_this_order() {
    let mut world = world();
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/none", "/keeper", "/keeper/config", "/a/"]
    {
        fails(&mut world, remove_recursive(path, 100), ErrorCode::BadArguments);
    }
    // The limit counts the root.
    fails(&mut world, remove_recursive("/a", 3), ErrorCode::NotEmpty);
    fails(&mut world, remove_recursive("/x", 0), ErrorCode::NotEmpty);
    world.ok(set_acl("/a/b", without(Permissions::DELETE), -1));
    fails(&mut world, remove_recursive("/a", 4), ErrorCode::NoAuth);
    fails(&mut world, remove_recursive("/a/b/c", 0), ErrorCode::NoAuth);
    fails(&mut world, remove_recursive("/a/b/none", 0), ErrorCode::NoAuth);
}

#[test]
fn remove_recursive_sees_pending_requests() {
    let mut world = world();
    world.prepare(delete("/a/d"));
    world.prepare(create("/a/b/c/new"));
    world.prepare(create("/a/b/c/new/below"));
    world.prepare(create("/a/b2"));
    let txn = world.prepare(alone(remove_recursive("/a", 6)));
    let paths = deleted(&txn);
    assert_eq!(paths.len(), 6);
    for (index, path) in paths.iter().enumerate() {
        let later = |below: &&&str| below.starts_with(&format!("{path}/"));
        assert_eq!(paths.iter().skip(index).find(later), None, "{path} in {paths:?}");
    }
    assert_eq!(paths.last(), Some(&"/a"));
    world.apply_pending();
    assert!(!world.exists("/a"));
    // A root that is created and removed before anything is applied.
    world.prepare(create("/a"));
    world.prepare(create("/a/b"));
    let txn = world.prepare(alone(remove_recursive("/a", 2)));
    assert_eq!(deleted(&txn), ["/a/b", "/a"]);
    assert_eq!(world.prepare(alone(remove_recursive("/a", 2))), Txn::Multi(vec![no_effect("/a")]));
    world.prepare(create("/a"));
    assert_eq!(deleted(&world.prepare(alone(remove_recursive("/a", 2)))), ["/a"]);
    world.apply_pending();
}

/// The longest transaction fits the default `jute.maxbuffer` of servers of every release.
#[test]
fn remove_recursive_stays_below_the_packet_limit() {
    let mut world = World::new();
    world.create("/a");
    let long = "x".repeat(500);
    for number in 0..1850 {
        world.create(&format!("/a/{number:04}{long}"));
    }
    let txn = world.prepare(alone(remove_recursive("/a", u32::MAX)));
    assert!((900_000..0xf_ffff).contains(&txn.entry_length(None)), "{}", txn.entry_length(None));
    world.pending.clear();
    world.overlay.clear();
    for number in 1850..2100 {
        world.create(&format!("/a/{number:04}{long}"));
    }
    assert_eq!(world.error(alone(remove_recursive("/a", u32::MAX))), ErrorCode::NotEmpty);
}

#[test]
fn check_not_exists_looks_at_the_version() {
    let mut world = world();
    world.ok(set("/a/d", "x"));
    part_passes(&mut world, not_exists("/none", -1), "/none");
    part_passes(&mut world, not_exists("/none/b", 3), "/none/b");
    part_passes(&mut world, not_exists("/a/d", 0), "/a/d");
    part_fails(&mut world, not_exists("/a/d", 1), ErrorCode::NodeExists);
    part_fails(&mut world, not_exists("/a/d", -1), ErrorCode::NodeExists);
    part_fails(&mut world, not_exists("/a/", -1), ErrorCode::BadArguments);
    world.ok(set_acl("/a", without(Permissions::READ), -1));
    part_fails(&mut world, not_exists("/a/d", 0), ErrorCode::NoAuth);
}

#[test]
fn check_stat_compares_each_field() {
    let mut world = world();
    let stat = world.stat("/a/b");
    part_passes(&mut world, check_stat("/a/b", -1, ANY_STAT), "/a/b");
    part_passes(&mut world, check_stat("/a/b", stat.version, stat), "/a/b");
    part_fails(&mut world, check_stat("/none", 9, stat), ErrorCode::NoNode);
    part_fails(&mut world, check_stat("/a/b", 9, stat), ErrorCode::BadVersion);
    for other in [
        Stat { czxid: 99, ..ANY_STAT },
        Stat { mzxid: 99, ..ANY_STAT },
        Stat { ctime: 99, ..ANY_STAT },
        Stat { mtime: 99, ..ANY_STAT },
        Stat { version: 99, ..ANY_STAT },
        Stat { cversion: 99, ..ANY_STAT },
        Stat { aversion: 99, ..ANY_STAT },
        Stat { ephemeral_owner: 99, ..ANY_STAT },
        Stat { data_length: 99, ..ANY_STAT },
        Stat { num_children: 99, ..ANY_STAT },
        Stat { pzxid: 99, ..ANY_STAT },
    ] {
        part_fails(&mut world, check_stat("/a/b", -1, other), ErrorCode::BadVersion);
    }
    world.ok(set_acl("/a/b", without(Permissions::READ), -1));
    part_fails(&mut world, check_stat("/a/b", 9, ANY_STAT), ErrorCode::NoAuth);
}

#[test]
fn a_multi_contains_all_of_them() {
    let mut world = world();
    let ops = vec![
        not_exists("/none", -1),
        write_part(create_if_not_exists("/a/new", 0)),
        write_part(create_if_not_exists("/x", 0)),
        write_part(remove_recursive("/a", 10)),
        write_part(remove_recursive("/a", 10)),
        check_stat("/x", 0, ANY_STAT),
        write_part(try_remove("/x", 5)),
        write_part(try_remove("/x", 0)),
    ];
    let before = world.tree.digest();
    let txn = world.prepare(WriteRequest::Multi(ops.clone()));
    let Txn::Multi(parts) = &txn else { panic!("{txn:?}") };
    // The created node is deleted with its parent.
    assert_eq!(parts.len(), 7 + 5);
    assert_eq!(parts[0], no_effect("/none"));
    assert_eq!(parts[2], no_effect("/x"));
    assert_eq!(parts[7], part(Txn::Delete("/a".into())));
    assert_eq!(parts[8], no_effect("/a"));
    assert_eq!(parts[11], part(Txn::Delete("/x".into())));
    world.apply_pending();
    assert!(!world.exists("/a") && !world.exists("/x"));
    assert_ne!(world.tree.digest(), before);
}

#[test]
fn a_failed_multi_changes_nothing() {
    let mut world = world();
    let before = dump(&world.tree);
    let ops = vec![
        write_part(remove_recursive("/a", 10)),
        write_part(remove_recursive("/zookeeper", 10)),
        write_part(remove_recursive("/x", 10)),
    ];
    let outcome = world.run(WriteRequest::Multi(ops));
    let zero = || TxnOutcome::Error(0);
    let expected = [
        vec![zero(), zero(), zero(), zero()],
        vec![TxnOutcome::error(ErrorCode::BadArguments)],
        vec![TxnOutcome::error(ErrorCode::RuntimeInconsistency)],
    ];
    assert_eq!(outcome, TxnOutcome::Multi(expected.concat()));
    assert_eq!(dump(&world.tree), before);
}

#[test]
fn virtual_nodes_cannot_be_changed() {
    let mut world = world();
    for path in ["/keeper/feature_flags", "/keeper/api_version"] {
        assert_eq!(world.error(create(path)), ErrorCode::BadArguments);
        assert_eq!(world.error(set(path, "x")), ErrorCode::BadArguments);
        assert_eq!(world.error(delete(path)), ErrorCode::BadArguments);
        fails(&mut world, create_if_not_exists(path, 0), ErrorCode::BadArguments);
    }
    world.create("/keeper");
    assert_eq!(world.error(create("/keeper/config")), ErrorCode::BadArguments);
    world.create("/keeper/other");
    world.policy.keeper_nodes = false;
    world.create("/keeper/config");
    // A real node takes precedence.
    world.policy.keeper_nodes = true;
    world.ok(set("/keeper/config", "x"));
    world.ok(delete("/keeper/config"));
}

#[test]
fn a_full_disk_refuses_only_what_creates() {
    let mut world = world();
    let grows = |world: &World, write: KeeperWrite| {
        let multi = WriteRequest::Multi(vec![write_part(write.clone())]);
        let grows = world.tree.grows_by(&world.overlay, &alone(write));
        assert_eq!(world.tree.grows_by(&world.overlay, &multi), grows);
        grows
    };
    assert!(grows(&world, create_if_not_exists("/new", 0)));
    assert!(!grows(&world, create_if_not_exists("/a", 0)));
    assert!(!grows(&world, try_remove("/a", -1)) && !grows(&world, remove_recursive("/a", 1)));
    world.prepare(delete("/x"));
    assert!(grows(&world, create_if_not_exists("/x", 0)));
    world.apply_pending();
    assert!(!world.tree.grows_by(&world.overlay, &WriteRequest::Multi(vec![not_exists("/a", 1)])));
}
