//! The order of checks of the four creates, and what they make.

use zebu_proto::client::{CreateOp, CreateRequest, WriteRequest};
use zebu_proto::txn::Txn;
use zebu_proto::{Acl, ErrorCode, Id};
use zebu_tree::{DigestMode, Lifetime, TreeOptions, TtlNodes, TxnOutcome};

use crate::support::*;

fn with(change: impl FnOnce(&mut CreateRequest)) -> WriteRequest {
    let mut request = request(CreateOp::Create, "/missing/x", 0);
    change(&mut request);
    WriteRequest::Create(request)
}

/// Each step mends the first thing that is wrong, and the next check speaks.
#[test]
fn the_order_of_checks() {
    let mut world = World::with(TreeOptions { ttl_nodes: TtlNodes::Disabled, ..options() });
    world.ok(create_acl("/closed", no_permissions()));
    world.create("/open");
    world.create("/open/there");
    world.session_check = Err(ErrorCode::SessionExpired);
    world.ephemeral_check = Err(ErrorCode::EphemeralOnLocalSession);
    let bad = |flags: i32, path: Option<&str>| {
        WriteRequest::Create(CreateRequest {
            path: path.map(Box::from),
            acl: None,
            ..request(CreateOp::Create, "", flags)
        })
    };
    assert_eq!(world.error(bad(7, None)), ErrorCode::BadArguments);
    assert_eq!(world.error(bad(-1, None)), ErrorCode::BadArguments);
    assert_eq!(world.error(bad(5, None)), ErrorCode::Unimplemented);
    assert_eq!(world.error(bad(6, None)), ErrorCode::Unimplemented);
    let ttl = with(|request| request.ttl_ms = 5);
    assert_eq!(world.error(ttl), ErrorCode::BadArguments, "a TTL without its mode");
    assert_eq!(world.error(bad(1, None)), ErrorCode::EphemeralOnLocalSession);
    assert_eq!(world.error(bad(3, None)), ErrorCode::EphemeralOnLocalSession);
    assert_eq!(world.error(bad(0, None)), ErrorCode::SessionExpired);
    assert_eq!(world.error(bad(2, None)), ErrorCode::SessionExpired);
    world.session_check = Ok(());
    assert_eq!(world.error(bad(0, None)), ErrorCode::MarshallingError, "null path");
    assert_eq!(world.error(bad(0, Some("noslash"))), ErrorCode::BadArguments);
    assert_eq!(world.error(bad(0, Some("/missing/\0"))), ErrorCode::BadArguments);
    assert_eq!(world.error(bad(0, Some("/missing//"))), ErrorCode::InvalidAcl);
    assert_eq!(world.error(create("/missing//")), ErrorCode::NoNode);
    assert_eq!(world.error(create("x/y")), ErrorCode::NoNode);
    assert_eq!(world.error(create("/open//x")), ErrorCode::NoNode, "the parent is \"/open/\"");
    assert_eq!(world.error(create("/missing/")), ErrorCode::NoNode);
    assert_eq!(world.error(create("/closed/")), ErrorCode::NoAuth);
    assert_eq!(world.error(create("/open/")), ErrorCode::BadArguments);
    assert_eq!(world.error(create("/open/.")), ErrorCode::BadArguments);
    assert_eq!(world.error(create("//x")), ErrorCode::BadArguments);
    assert_eq!(world.error(create("/open/there")), ErrorCode::NodeExists);
    assert_eq!(world.error(create("/")), ErrorCode::NodeExists);
    world.ephemeral_check = Ok(());
    world.ok(ephemeral("/open/e"));
    assert_eq!(world.error(create("/open/e/x")), ErrorCode::NoChildrenForEphemerals);
}

#[test]
fn null_ids_in_the_acl() {
    let mut world = World::new();
    let null = Acl { perms: 31, id: Id { scheme: Some("digest".into()), id: None } };
    assert_eq!(world.error(create_acl("/a", vec![null])), ErrorCode::MarshallingError);
    assert_eq!(world.error(create_acl("/a", vec![])), ErrorCode::InvalidAcl);
    assert_eq!(world.error(create_acl("/a", vec![Acl::new(31, "auth", "")])), ErrorCode::InvalidAcl);
    world.authenticate("bob:hash");
    world.ok(create_acl("/a", vec![Acl::new(31, "auth", "")]));
    assert_eq!(**world.tree.node("/a").unwrap().acl(), [Acl::new(31, "digest", "bob:hash")]);
}

/// Which node each operation code makes of each flag.
#[test]
fn operations_and_flags() {
    use CreateOp::{Container, Create, Create2, Ttl};
    let session = Lifetime::Session(SESSION);
    let rows = [
        (Create, 0, Ok((Lifetime::Persistent, false))),
        (Create, 1, Ok((session, false))),
        (Create, 2, Ok((Lifetime::Persistent, true))),
        (Create2, 3, Ok((session, true))),
        (Create, 4, Ok((Lifetime::Persistent, false))),
        (Create2, 4, Ok((Lifetime::Persistent, false))),
        (Create, 5, Err(ErrorCode::BadArguments)),
        (Create2, 6, Err(ErrorCode::BadArguments)),
        (Container, 0, Ok((Lifetime::Container, false))),
        (Container, 1, Ok((Lifetime::Container, false))),
        (Container, 2, Ok((Lifetime::Container, true))),
        (Container, 3, Ok((Lifetime::Container, true))),
        (Container, 4, Ok((Lifetime::Container, false))),
        (Container, 5, Err(ErrorCode::BadArguments)),
        (Ttl, 0, Err(ErrorCode::BadArguments)),
        (Ttl, 1, Err(ErrorCode::BadArguments)),
        (Ttl, 4, Err(ErrorCode::BadArguments)),
        (Ttl, 5, Ok((Lifetime::Ttl(1000), false))),
        (Ttl, 6, Ok((Lifetime::Ttl(1000), true))),
    ];
    for (op, flags, expected) in rows {
        let mut world = World::new();
        let request = create_with(op, "/n", flags);
        match expected {
            Err(code) => assert_eq!(world.error(request), code, "{op:?} {flags}"),
            Ok((lifetime, suffix)) => {
                let TxnOutcome::Created { stat } = world.ok(request) else { panic!("{op:?} {flags}") };
                let path = if suffix { "/n0000000000" } else { "/n" };
                assert_eq!(world.tree.node(path).unwrap().lifetime(), lifetime, "{op:?} {flags}");
                assert_eq!(stat.ephemeral_owner, if lifetime == session { SESSION.0 } else { 0 });
                assert_eq!(stat, world.stat(path));
            }
        }
    }
}

#[test]
fn a_ttl_operation_with_other_flags_is_always_refused() {
    for flags in 0..=4 {
        for ttl_ms in [-1, 0, 1, i64::MIN] {
            let request = CreateRequest { ttl_ms, ..request(CreateOp::Ttl, "/n", flags) };
            let mut world = World::new();
            assert_eq!(
                world.error(WriteRequest::Create(request)),
                ErrorCode::BadArguments,
                "{flags} {ttl_ms}"
            );
        }
    }
}

#[test]
fn the_range_of_a_ttl() {
    for (ttl_ms, valid) in
        [(0, false), (-1, false), (1, true), (0xff_ffff_ffff, true), (0x100_0000_0000, false)]
    {
        let request = CreateRequest { ttl_ms, ..request(CreateOp::Ttl, "/n", 5) };
        let outcome = World::new().run(WriteRequest::Create(request));
        assert_eq!(!matches!(outcome, TxnOutcome::Error(_)), valid, "{ttl_ms}");
    }
}

#[test]
fn a_container_with_an_ephemeral_flag_needs_a_global_session() {
    let mut world = World::new();
    world.ephemeral_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(create_with(CreateOp::Container, "/n", 1)), ErrorCode::SessionExpired);
    world.session_check = Err(ErrorCode::SessionMoved);
    assert_eq!(world.error(create_with(CreateOp::Container, "/n", 0)), ErrorCode::SessionMoved);
}

#[test]
fn containers_and_ttl_nodes_may_have_children() {
    let mut world = World::new();
    world.ok(create_with(CreateOp::Container, "/c", 4));
    world.ok(create_with(CreateOp::Ttl, "/t", 5));
    world.create("/c/x");
    world.create("/t/x");
}

#[test]
fn sequential_names() {
    let mut world = World::new();
    world.create("/p");
    world.create("/p/plain");
    world.ok(sequential("/p/n-"));
    world.ok(delete("/p/plain"));
    world.ok(sequential("/p/"));
    assert_eq!(world.tree.node("/p").unwrap().children().collect::<Vec<_>>(), ["n-0000000001", "0000000002"]);
    world.ok(sequential("/"));
    assert!(world.exists("/0000000001"), "the system nodes are not counted");
    world.ok(delete("/p/n-0000000001"));
    world.ok(delete("/p/0000000002"));
    world.ok(delete("/p"));
    world.create("/p");
    world.ok(sequential("/p/n-"));
    assert!(world.exists("/p/n-0000000000"), "a new parent counts from zero");
}

#[test]
fn the_counter_does_not_go_back_when_it_is_used_up() {
    let mut world = World::new();
    world.create("/p");
    let last = Txn::Create(zebu_proto::txn::CreateTxn {
        path: "/p/first".into(),
        data: None,
        acl: None,
        ephemeral: false,
        parent_cversion: i32::MAX,
    });
    world.zxid += 1;
    apply(&mut world.tree, world.zxid, &last);
    world.prepare(sequential("/p/n-"));
    assert_eq!(world.prepare(sequential("/p/n-")), Txn::error(ErrorCode::NodeExists), "also while pending");
    world.apply_pending();
    assert!(world.exists("/p/n-2147483647"));
    assert_eq!(world.tree.node("/p").unwrap().persisted().cversion, i32::MAX);
    assert_eq!(world.error(sequential("/p/n-")), ErrorCode::NodeExists);
}

#[test]
fn a_negative_counter_is_padded_behind_its_sign() {
    let mut world = World::new();
    let mut loader = zebu_tree::TreeLoader::new(options());
    let stat = zebu_proto::StatPersisted { cversion: -1, ..Default::default() };
    loader.node("", None, -1, &Default::default()).unwrap();
    loader.node("/p", None, -1, &stat).unwrap();
    world.tree = loader.finish(zebu_proto::Zxid(0));
    world.ok(sequential("/p/n"));
    assert!(world.exists("/p/n-000000001"));
}

#[test]
fn without_digests_nothing_is_computed() {
    let mut world = World::with(TreeOptions { digest: DigestMode::Off, ..options() });
    world.zxid += 1;
    let context = zebu_tree::PrepareContext {
        header: header(world.zxid),
        credentials: &world.credentials,
        session: Ok(()),
        ephemeral_session: Ok(()),
        policy: &world.policy,
        reconfig: zebu_tree::Reconfig::Disabled,
    };
    let prepared = world.tree.prepare(&mut world.overlay, create("/a"), &context);
    assert_eq!(prepared.digest, None);
    apply(&mut world.tree, 1, &prepared.txn);
    assert_eq!(world.tree.digest(), 0);
}

#[test]
fn the_digest_vectors() {
    let mut world = World::new();
    assert_eq!(world.tree.digest(), 1_371_985_504);
    world.zxid = 1;
    world.ok(create_data("/a", "hello"));
    assert_eq!(world.tree.digest(), 4_124_795_797);
}
