//! Every call, against a real server.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::Duration;

use common::{Server, soon};
use zebu_client::{
    Acl, Client, Compression, ConfirmedBy, CreateMode, CreateSpec, ErrorCode, ErrorKind, Parents,
    Permissions, QuotaLimits, Retry, Version, digest_id,
};

#[tokio::test]
async fn nodes_of_every_mode() {
    let server = Server::start().await;
    let client = server.client().await;
    let session = client.session().id.0;

    let plain = client.create("/plain").data("x").await.unwrap();
    assert_eq!((plain.path.as_str(), plain.confirmed_by), ("/plain", ConfirmedBy::Reply));
    assert_eq!((plain.stat.version, plain.stat.data_length, plain.stat.ephemeral_owner), (0, 1, 0));
    assert!(plain.stat.czxid > 0 && plain.stat.czxid == plain.stat.mzxid);

    let ephemeral = client.create("/ephemeral").ephemeral().await.unwrap();
    assert_eq!(ephemeral.stat.ephemeral_owner, session);
    let first = client.create("/n-").sequential().await.unwrap();
    let second = client.create("/n-").sequential().ephemeral().await.unwrap();
    assert_eq!(first.sequence.unwrap() + 1, second.sequence.unwrap());
    assert!(second.path.starts_with("/n-") && second.path.len() == 13, "{}", second.path);
    let nameless = client.create("/plain/").sequential().await.unwrap();
    assert_eq!(nameless.path, "/plain/0000000000");

    let container = client.create("/container").container().await.unwrap();
    assert_eq!(container.stat.ephemeral_owner, 0);
    let ttl = client.create("/ttl").ttl(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(ttl.stat.ephemeral_owner, 0);
    let ttl = client.create("/ttl-").ttl(Duration::from_secs(3600)).sequential().await.unwrap();
    assert!(ttl.sequence.is_some());
    for (number, mode) in [CreateMode::Ephemeral, CreateMode::PersistentSequential].into_iter().enumerate() {
        let made = client.create(&format!("/mode{number}")).mode(mode).await.unwrap();
        assert_eq!(made.stat.ephemeral_owner != 0, mode.is_ephemeral());
        assert_eq!(made.sequence.is_some(), mode.is_sequential());
    }

    let error = client.create("/bad").container().sequential().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidOptions(_)), "{error}");
    let error = client.create("/bad").ttl(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidOptions(_)), "{error}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_node_without_data_is_empty_and_null_only_if_asked_for() {
    let server = Server::start().await;
    let client = server.builder().compression(Compression::Gzip).connect().await.unwrap();
    client.create("/empty").await.unwrap();
    client.create("/null").null_data().await.unwrap();
    client.ensure_path("/made/along").await.unwrap();
    let mut transaction = client.transaction();
    transaction.create("/empty-of-two", CreateSpec::new());
    transaction.create("/null-of-two", CreateSpec::new().null_data());
    transaction.await.unwrap();
    let is_null = async |path| client.get(path).await.unwrap().is_null;
    for path in ["/empty", "/made", "/made/along", "/empty-of-two"] {
        assert!(!is_null(path).await, "{path}");
    }
    for path in ["/null", "/null-of-two"] {
        assert!(is_null(path).await, "{path}");
    }
}

#[tokio::test]
async fn data_and_versions() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/a").data("one").await.unwrap();
    let stat = client.set("/a", "two").await.unwrap();
    assert_eq!(stat.version, 1);
    let error = client.set("/a", "no").version(Version::Exactly(0)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    assert_eq!((error.operation(), error.path()), ("set", "/a"));
    assert_eq!(error.server(), Some(server.address().to_string().as_str()));
    assert!(error.to_string().starts_with("set /a: BadVersion (-103) (server 127.0.0.1:"), "{error}");
    client.set("/a", "three").version(Version::Exactly(1)).await.unwrap();
    let node = client.get("/a").await.unwrap();
    assert_eq!((&node.data[..], node.stat.version), (&b"three"[..], 2));

    assert_eq!(client.exists("/a").await.unwrap(), Some(node.stat));
    assert_eq!(client.exists("/missing").await.unwrap(), None);
    assert_eq!(client.get("/missing").await.unwrap_err().code(), Some(ErrorCode::NoNode));
    assert_eq!(client.create("/a").await.unwrap_err().code(), Some(ErrorCode::NodeExists));
    assert_eq!(client.create("/x/y").await.unwrap_err().code(), Some(ErrorCode::NoNode));

    client.create("/a/b").await.unwrap();
    client.create("/a/c").await.unwrap();
    let mut children = client.children("/a").await.unwrap();
    children.names.sort();
    assert_eq!((children.names, children.stat.num_children), (vec!["b".into(), "c".into()], 2));
    assert_eq!(client.delete("/a").await.unwrap_err().code(), Some(ErrorCode::NotEmpty));
    let error = client.delete("/a/b").version(Version::Exactly(5)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    client.delete("/a/b").version(Version::Exactly(0)).await.unwrap();
    assert_eq!(client.delete("/a/b").await.unwrap_err().code(), Some(ErrorCode::NoNode));
    client.delete("/a/b").quiet().await.unwrap();
    client.sync("/a").await.unwrap();
    assert_eq!(client.create("/empty").await.unwrap().stat.data_length, 0);
    assert_eq!(client.get("/empty").await.unwrap().data, "");
    client.create("/zero").data("").await.unwrap();
    client.create("/null").null_data().await.unwrap();
    let is_null = async |path| client.get(path).await.unwrap().is_null;
    assert_eq!((is_null("/zero").await, is_null("/null").await), (false, true));
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_here() {
    let server = Server::start().await;
    let client = server.client().await;
    for path in ["", "a", "/a/", "/a//b", "/a/../b"] {
        let error = client.get(path).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{path}: {error}");
    }
    let error = client.create("/large").data(vec![7; 2 << 20]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    client.create("/large").data(vec![7; 1_000_000]).await.unwrap();
    assert_eq!(client.get("/large").await.unwrap().data.len(), 1_000_000);
}

#[tokio::test]
async fn parents_trees_and_second_thoughts() {
    let server = Server::start().await;
    let client = server.client().await;
    let made = client.create("/a/b/c/d").data("x").parents(Parents::Persistent).await.unwrap();
    assert_eq!(made.path, "/a/b/c/d");
    client.create("/containers/x/y").parents(Parents::Containers).await.unwrap();
    client.ensure_path("/a/b/e/f").await.unwrap();
    client.ensure_path("/a/b/e/f").await.unwrap();

    let set = client.create("/a/b/c/d").data("y").or_set(Version::Any).await.unwrap();
    assert_eq!((set.stat.version, set.confirmed_by), (1, ConfirmedBy::Search));
    let error = client.create("/a/b/c/d").data("y").idempotent().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NodeExists), "the version is 1: somebody else's");
    client.create("/same").data("z").await.unwrap();
    let same = client.create("/same").data("z").idempotent().await.unwrap();
    assert_eq!((same.stat.version, same.confirmed_by), (0, ConfirmedBy::Search));
    client.set("/same", "w").version(Version::Exactly(0)).await.unwrap();
    let again = client.set("/same", "w").version(Version::Exactly(0)).idempotent().await.unwrap();
    assert_eq!(again.version, 1);
    let error = client.set("/same", "v").version(Version::Exactly(0)).idempotent().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));

    let wide: Vec<_> = (0..600).map(|n| client.create(&format!("/a/b/w{n}")).send()).collect();
    for create in wide {
        create.await.unwrap();
    }
    assert!(client.count_descendants("/a").await.unwrap() >= 605);
    client.delete("/a").recursive().await.unwrap();
    assert_eq!(client.exists("/a").await.unwrap(), None);
    assert_eq!(client.delete("/a").recursive().await.unwrap_err().code(), Some(ErrorCode::NoNode));
    client.delete("/a").recursive().quiet().await.unwrap();
}

#[tokio::test]
async fn protected_names_are_curators() {
    let server = Server::start().await;
    let client = server.client().await;
    let lock = client.create("/lock-").ephemeral().sequential().protected().await.unwrap();
    assert!(zebu_client::is_protected(&lock.path), "{}", lock.path);
    assert!(zebu_client::without_protection(&lock.path).starts_with("lock-"), "{}", lock.path);
    let deep = client.create("/p/q/r").protected().parents(Parents::Persistent).await.unwrap();
    assert!(deep.path.starts_with("/p/q/_c_"), "{}", deep.path);
    let report = client.close().await.unwrap();
    assert_eq!((report.confirmed, report.left_behind), (true, 0));
}

#[tokio::test]
async fn transactions() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/a").await.unwrap();
    let mut transaction = client.transaction();
    let check = transaction.check("/a", Version::Exactly(0));
    let created =
        transaction.create("/b-", CreateSpec::new().data("x").mode(CreateMode::PersistentSequential));
    let container = transaction.create("/c", CreateSpec::new().mode(CreateMode::Container));
    let set = transaction.set("/a", "new", Version::Exactly(0));
    let delete = transaction.delete("/a", Version::Exactly(1));
    assert_eq!(transaction.len(), 5);
    let results = transaction.await.unwrap();
    let () = *results.get(check);
    let () = *results.get(delete);
    assert_eq!(results.get(set).version, 1);
    assert_eq!(results.get(created).path.len(), "/b-0000000000".len());
    assert_eq!(results.get(container).path, "/c");
    assert_eq!(client.get(&results.get(created).path).await.unwrap().data, "x");
    assert_eq!(client.exists("/a").await.unwrap(), None);

    let mut failing = client.transaction();
    failing.create("/d", CreateSpec::new());
    failing.delete("/missing", Version::Any);
    failing.create("/e", CreateSpec::new());
    let error = failing.await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Transaction { index: 1, code: ErrorCode::NoNode });
    assert_eq!((error.code(), error.path()), (Some(ErrorCode::NoNode), "/missing"));
    assert_eq!(client.exists("/d").await.unwrap(), None);
    assert!(client.transaction().await.unwrap().is_empty());
    let mut bad = client.transaction();
    bad.delete("nonsense", Version::Any);
    assert!(matches!(bad.await.unwrap_err().kind(), ErrorKind::InvalidPath(_)));
}

#[tokio::test]
async fn several_reads_in_one() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/a").data("x").await.unwrap();
    client.create("/a/b").await.unwrap();
    let mut reads = client.multi_read();
    let data = reads.get("/a");
    let missing = reads.get("/missing");
    let children = reads.children("/a");
    let no_children = reads.children("/missing");
    let results = reads.await.unwrap();
    assert_eq!(results.data(data).unwrap().data, "x");
    assert_eq!(results.children(children).unwrap(), ["b"]);
    let error = results.data(missing).unwrap_err();
    assert_eq!((error.code(), error.path()), (Some(ErrorCode::NoNode), "/missing"));
    assert_eq!(results.children(no_children).unwrap_err().code(), Some(ErrorCode::NoNode));
}

#[tokio::test]
async fn access_is_controlled() {
    let server = Server::start().await;
    let owner = server.client().await;
    owner.add_auth("digest", "user:secret").await.unwrap();
    let identities = owner.who_am_i().await.unwrap();
    let digest = identities.iter().find(|identity| identity.scheme == "digest").expect("the credential");
    assert_eq!(digest.user, "user");

    let acl = vec![Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))];
    owner.create("/secret").data("x").acl(acl.clone()).await.unwrap();
    let read = owner.get_acl("/secret").await.unwrap();
    assert_eq!((read.entries, read.stat.aversion), (acl, 0));

    let stranger = server.builder().connect().await.unwrap().namespaced(owner.root()).unwrap();
    let error = stranger.get("/secret").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoAuth));
    let known = server.builder().auth("digest", "user:secret").connect().await.unwrap();
    let known = known.namespaced(owner.root()).unwrap();
    assert_eq!(known.get("/secret").await.unwrap().data, "x");

    let stat = owner.set_acl("/secret", Acl::read_only()).version(Version::Exactly(0)).await.unwrap();
    assert_eq!(stat.aversion, 1);
    assert_eq!(stranger.get("/secret").await.unwrap().data, "x");
    let error = stranger.set("/secret", "y").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoAuth));
}

#[tokio::test]
async fn chroots_hide_what_is_outside() {
    let server = Server::start().await;
    let outside = server.client().await;
    outside.create("/inner").await.unwrap();
    let root = format!("{}/inner", outside.root());
    let text = format!("{}{root}", server.address());
    let inside = Client::connect(&text).await.unwrap();
    assert_eq!(inside.root(), root);
    let made = inside.create("/x").ephemeral().data("y").await.unwrap();
    assert_eq!(made.path, "/x");
    assert_eq!(outside.get("/inner/x").await.unwrap().data, "y");
    assert_eq!(inside.children("/").await.unwrap().names, ["x"]);
    assert_eq!(inside.ephemerals("/").await.unwrap(), ["/x"]);
    assert!(outside.ephemerals("/").await.unwrap().is_empty());
    assert_eq!(inside.get("/missing").await.unwrap_err().path(), "/missing");
    let (_, changed) = inside.get("/x").watched().await.unwrap();
    outside.set("/inner/x", "z").await.unwrap();
    assert_eq!(&*soon(changed).await.path, "/x");
    let mut transaction = inside.transaction();
    let created = transaction.create("/t", CreateSpec::new());
    assert_eq!(transaction.await.unwrap().get(created).path, "/t");
    let deeper = inside.namespaced("/t").unwrap();
    deeper.create("/u").await.unwrap();
    assert!(outside.exists("/inner/t/u").await.unwrap().is_some());
    assert!(inside.config().await.is_ok(), "the configuration is outside of every chroot");
}

#[tokio::test]
async fn compressed_data_is_gzip() {
    let server = Server::start().await;
    let client = server.client().await;
    let text = "word ".repeat(1000);
    client.create("/a").data(text.clone()).compression(Compression::Gzip).await.unwrap();
    let stored = client.get("/a").await.unwrap();
    assert!(stored.data.starts_with(&[0x1f, 0x8b]) && stored.data.len() < 200);
    assert_eq!(client.get("/a").compression(Compression::Gzip).await.unwrap().data, text);
    client.set("/a", "plain").await.unwrap();
    assert_eq!(client.get("/a").compression(Compression::Gzip).await.unwrap().data, "plain");
    let always = server.builder().compression(Compression::Gzip).connect().await.unwrap();
    let always = always.namespaced(client.root()).unwrap();
    always.set("/a", text.clone()).await.unwrap();
    assert_eq!(always.get("/a").await.unwrap().data, text);
    client.set("/a", vec![0x1f, 0x8b, 0, 0]).await.unwrap();
    let error = always.get("/a").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BadCompression(_)), "{error}");
}

#[tokio::test]
async fn quotas_are_kept_as_zookeepers_tools_keep_them() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/q").data("12345").await.unwrap();
    client.create("/q/r").data("67").await.unwrap();
    assert_eq!(client.quota("/q").await.unwrap(), None);
    let limits = QuotaLimits { count: Some(10), bytes_hard: Some(1000), ..QuotaLimits::default() };
    client.set_quota("/q", limits).await.unwrap();
    let quota = client.quota("/q").await.unwrap().expect("a quota");
    assert_eq!((quota.limits, quota.usage.count, quota.usage.bytes), (limits, 2, 7));
    let other = QuotaLimits { bytes: Some(5), ..QuotaLimits::default() };
    client.set_quota("/q", other).await.unwrap();
    assert_eq!(client.quota("/q").await.unwrap().map(|quota| quota.limits), Some(other));
    client.delete_quota("/q").await.unwrap();
    client.delete_quota("/q").await.unwrap();
    assert_eq!(client.quota("/q").await.unwrap(), None);
}

#[tokio::test]
async fn a_standalone_server_has_a_configuration_and_no_reconfiguration() {
    let server = Server::start().await;
    let client = server.client().await;
    let config = client.config().await.unwrap();
    assert_eq!(config.connection_string(), None);
    let error = client.reconfigure().leave(1).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ReconfigDisabled));
    let error = client.reconfigure().leave(1).member("server.1=a:1:2;3").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidOptions(_)), "{error}");
}

/// A node that may only be read: with its ACL, no parent could have a child.
#[tokio::test]
async fn parents_are_made_with_the_default_acl_of_the_client() {
    let server = Server::start().await;
    let client = server.client().await;
    let narrow = vec![Acl::new(Permissions::READ, "world", "anyone")];
    client.create("/p/q/r").acl(narrow.clone()).parents(Parents::Persistent).await.unwrap();
    assert_eq!(client.get_acl("/p/q/r").await.unwrap().entries, narrow);
    for parent in ["/p", "/p/q"] {
        assert_eq!(client.get_acl(parent).await.unwrap().entries, Acl::open(), "{parent}");
    }
}

#[tokio::test]
async fn thousands_of_calls_in_flight_are_answered_in_order() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/counter").data("").await.unwrap();
    let sets: Vec<_> = (0..5000).map(|n| client.set("/counter", n.to_string()).send()).collect();
    let read = client.get("/counter").send();
    for (number, set) in sets.into_iter().enumerate() {
        assert_eq!(set.await.unwrap().version, number as i32 + 1);
    }
    assert_eq!(read.await.unwrap().data, "4999");

    // A limit of one call at a time still lets all of them through.
    let narrow = server.builder().in_flight_limit(1).connect().await.unwrap();
    let narrow = narrow.namespaced(client.root()).unwrap();
    let calls: Vec<_> = (0..100).map(|_| tokio::spawn(narrow.get("/counter").into_future())).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().data, "4999");
    }
}

#[tokio::test]
async fn dropped_futures_do_no_harm() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/a").data("x").await.unwrap();
    for round in 0..200 {
        let calls: Vec<_> = (0..10).map(|_| client.get("/a").watched().send()).collect();
        drop(calls);
        if round % 10 == 0 {
            assert_eq!(client.get("/a").await.unwrap().data, "x");
        }
    }
    // A protected create whose future is dropped leaves no node.
    for _ in 0..10 {
        drop(client.create("/orphan-").sequential().protected().send());
    }
    let late = client.create("/late").retry(Retry::Never).send();
    late.await.unwrap();
    let root = client.root().to_owned();
    let report = client.close().await.unwrap();
    assert_eq!(report.left_behind, 0);
    let after = server.builder().connect().await.unwrap().namespaced(&root).unwrap();
    let mut names = after.children("/").await.unwrap().names;
    names.sort();
    assert_eq!(names, ["a", "late"]);
}
