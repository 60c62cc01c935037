//! Caches: equal to the tree in the end, whatever happens on the way, and every change told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zebu_client::{Acl, Client, Compression, ErrorCode, Parents, Permissions, Retry, digest_id};
use zebu_recipes::{
    Cache, CacheChange, CacheChanges, CacheScope, CacheWatchMode, CachedNode, JsonConfig, RecipeError,
};

use crate::rig::{client, server, soon};

const WATCHINGS: [CacheWatchMode; 3] =
    [CacheWatchMode::Feed, CacheWatchMode::Persistent, CacheWatchMode::PerNode];

/// A copy of the cache, built from its changes.
#[derive(Default)]
struct CacheReplica(BTreeMap<String, CachedNode>);

impl CacheReplica {
    fn apply(&mut self, change: CacheChange) {
        match change {
            CacheChange::Created(node) => {
                assert!(self.0.insert(node.path.clone(), (*node).clone()).is_none(), "created twice");
            }
            CacheChange::Updated { old, new } => {
                let before = self.0.insert(new.path.clone(), (*new).clone()).expect("known");
                assert_eq!((before.stat.mzxid, old.stat.czxid), (old.stat.mzxid, new.stat.czxid));
            }
            CacheChange::Deleted(node) => {
                self.0.remove(&node.path).expect("known");
            }
            CacheChange::Stale | CacheChange::Synced => {}
            CacheChange::Missed(_) => panic!("a reader that reads misses nothing"),
        }
    }

    /// Hears changes until these are the nodes.
    async fn until(&mut self, changes: &mut CacheChanges, wanted: &[(&str, &str)]) {
        let wanted: BTreeMap<_, _> = wanted.iter().map(|(path, data)| (*path, data.as_bytes())).collect();
        soon(async {
            loop {
                let now: BTreeMap<_, _> =
                    self.0.iter().map(|(path, node)| (&**path, &node.data[..])).collect();
                if now == wanted {
                    return;
                }
                self.apply(changes.next().await.expect("the cache lives"));
            }
        })
        .await;
    }
}

async fn make(client: &Client, nodes: &[(&str, &str)]) {
    for (path, data) in nodes {
        client.create(path).data(data.to_string()).await.expect("created");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_follows_the_tree_as_far_as_it_reaches() {
    for watching in WATCHINGS {
        for (reach, seen) in [(CacheScope::Node, 1), (CacheScope::Children, 3), (CacheScope::Tree, 4)] {
            let server = server().await;
            let (one, two) = (client(&server).await, client(&server).await);
            make(&two, &[("/r", "0"), ("/r/a", "1"), ("/r/b", "2"), ("/r/a/x", "3"), ("/other", "9")]).await;
            let cache = Cache::start_with(&one, "/r", reach, watching);
            soon(cache.synced()).await.expect("synced");
            assert!(cache.is_synced());
            let (nodes, mut changes) = cache.snapshot_and_changes();
            assert_eq!(nodes.len(), seen, "{reach:?}");
            let mut told = CacheReplica::default();
            nodes.into_iter().for_each(|node| told.apply(CacheChange::Created(node)));
            two.set("/r", "0'").await.expect("set");
            two.set("/r/a/x", "3'").await.expect("set");
            two.create("/r/c").data("4").await.expect("created");
            two.set("/r/c", "5").await.expect("set");
            two.delete("/r/b").await.expect("deleted");
            two.create("/r/c/y").data("6").await.expect("created");
            let all = [("/r", "0'"), ("/r/a", "1"), ("/r/c", "5"), ("/r/a/x", "3'"), ("/r/c/y", "6")];
            let wanted = match reach {
                CacheScope::Node => &all[..1],
                CacheScope::Children => &all[..3],
                CacheScope::Tree => &all[..],
            };
            told.until(&mut changes, wanted).await;
            let children: Vec<_> = cache.children("/r").iter().map(|node| node.path.clone()).collect();
            assert_eq!(children, if reach == CacheScope::Node { &[][..] } else { &["/r/a", "/r/c"] });
            assert_eq!(cache.get("/r").expect("there").data, "0'");
            assert_eq!(cache.snapshot().len(), wanted.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_changes_are_published_after_every_kind_of_loss() {
    for watching in WATCHINGS {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        make(&two, &[("/r", ""), ("/r/kept", "1"), ("/r/changed", "1"), ("/r/gone", "1"), ("/r/again", "1")])
            .await;
        let cache = Cache::start_with(&one, "/r", CacheScope::Tree, watching);
        soon(cache.synced()).await.expect("synced");
        let (nodes, mut changes) = cache.snapshot_and_changes();
        let mut told = CacheReplica::default();
        nodes.into_iter().for_each(|node| told.apply(CacheChange::Created(node)));
        for (round, loss) in ["cut", "expire", "kill"].into_iter().enumerate() {
            let mark = format!("{loss}-{round}");
            // Written while the cache hears nothing.
            server.pause(one.session().id).await;
            two.set("/r/changed", mark.clone()).await.expect("set");
            two.delete("/r/again").await.expect("deleted");
            two.create("/r/again").data("1").await.expect("created");
            two.delete("/r/gone").await.expect("deleted");
            two.create("/r/gone").data(mark.clone()).await.expect("created");
            match loss {
                "cut" => server.cut(one.session().id),
                "expire" => server.expire(one.session().id).await.expect("expired"),
                _ => {
                    server.kill().await.expect("killed");
                    server.restart().await.expect("started again");
                }
            }
            server.resume(one.session().id).await;
            let again = told.0["/r/again"].stat.czxid;
            let wanted = [
                ("/r", ""),
                ("/r/again", "1"),
                ("/r/changed", &*mark),
                ("/r/gone", &*mark),
                ("/r/kept", "1"),
            ];
            told.until(&mut changes, &wanted).await;
            // The same data under the same version, and still another node.
            soon(async {
                while told.0["/r/again"].stat.czxid == again {
                    let change = changes.next().await.expect("the cache lives");
                    told.apply(change);
                    if !told.0.contains_key("/r/again") {
                        told.apply(changes.next().await.expect("the cache lives"));
                    }
                }
            })
            .await;
            soon(cache.synced()).await.expect("synced again");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_yields_stale_and_a_reconnect_synced() {
    for watching in WATCHINGS {
        let server = server().await;
        let one = client(&server).await;
        make(&one, &[("/r", "")]).await;
        let cache = Cache::start_with(&one, "/r", CacheScope::Tree, watching);
        soon(cache.synced()).await.expect("synced");
        let mut changes = cache.changes();
        server.kill().await.expect("killed");
        assert_eq!(soon(changes.next()).await, Some(CacheChange::Stale));
        assert!(!cache.is_synced() && cache.get("/r").is_some());
        server.restart().await.expect("started again");
        assert_eq!(soon(changes.next()).await, Some(CacheChange::Synced));
        one.close().await.expect("closed");
        soon(async { while changes.next().await.is_some() {} }).await;
        assert!(matches!(cache.failure(), Some(RecipeError::Client(_))));
        assert!(cache.synced().await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_may_be_missing_and_come_and_go() {
    for watching in WATCHINGS {
        let server = server().await;
        let one = client(&server).await;
        let cache = Cache::start_with(&one, "/r", CacheScope::Tree, watching);
        soon(cache.synced()).await.expect("nothing is complete too");
        let (nodes, mut changes) = cache.snapshot_and_changes();
        assert!(nodes.is_empty());
        let mut told = CacheReplica::default();
        for round in ["1", "2"] {
            make(&one, &[("/r", round), ("/r/a", ""), ("/r/a/b", round)]).await;
            told.until(&mut changes, &[("/r", round), ("/r/a", ""), ("/r/a/b", round)]).await;
            one.delete("/r").recursive().await.expect("deleted");
            told.until(&mut changes, &[]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_equal_to_the_tree_after_a_storm() {
    for watching in WATCHINGS {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        make(&two, &[("/r", "")]).await;
        let cache = Cache::start_with(&one, "/r", CacheScope::Tree, watching);
        let mut state = 7_u32;
        for round in 0..300 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let node = format!("/r/{}", (state >> 16) % 6);
            let child = format!("{node}/{}", (state >> 24) % 3);
            // Some of them fail: there is no parent, or there is one already.
            let _ = match (state >> 8) % 5 {
                0 => two.create(&node).await.map(drop),
                1 => two.create(&child).data(round.to_string()).await.map(drop),
                2 => two.set(&child, round.to_string()).await.map(drop),
                3 => two.delete(&child).await,
                _ => two.delete(&node).recursive().await,
            };
            if round % 60 == 30 {
                server.cut(one.session().id);
            }
        }
        two.create("/r/end").await.expect("created");
        soon(async {
            while cache.get("/r/end").is_none() || !cache.is_synced() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let mut todo = vec!["/r".to_owned()];
        let mut real = BTreeMap::new();
        while let Some(path) = todo.pop() {
            let node = two.get(&path).await.expect("there");
            let list = two.children(&path).await.expect("there");
            todo.extend(list.names.iter().map(|name| format!("{path}/{name}")));
            real.insert(path, (node.data, node.stat.czxid, node.stat.mzxid));
        }
        let seen: BTreeMap<_, _> = cache
            .snapshot()
            .iter()
            .map(|node| (node.path.clone(), (node.data.clone(), node.stat.czxid, node.stat.mzxid)))
            .collect();
        assert_eq!(seen, real, "{watching:?}");
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Settings {
    workers: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_keeps_the_last_good_value() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let config = JsonConfig::start(&one, "/c/settings", &Settings { workers: 1 }).await.expect("started");
    let same = JsonConfig::start(&two, "/c/settings", &Settings { workers: 99 }).await.expect("started");
    assert_eq!(same.current().value.value.workers, 1);
    let mut readings = config.states();
    let (left, right) = tokio::join!(
        async {
            for _ in 0..5 {
                config.update(|settings| settings.workers += 1).await.expect("updated");
            }
        },
        async {
            for _ in 0..5 {
                same.update(|settings| settings.workers += 1).await.expect("updated");
            }
        }
    );
    let ((), ()) = (left, right);
    soon(readings.wait_for(|reading| reading.value.value.workers == 11)).await.expect("followed");
    two.set("/c/settings", r#"{"workers":"many"}"#).await.expect("set");
    soon(readings.wait_for(|reading| reading.error.is_some())).await.expect("followed");
    assert_eq!(config.current().value.value, Settings { workers: 11 });
    assert!(matches!(config.update(|_| ()).await, Err(RecipeError::Invalid(_))), "nothing to begin with");
    let refused = JsonConfig::<Settings>::start(&two, "/c/settings", &Settings { workers: 1 }).await;
    assert!(matches!(refused, Err(RecipeError::Invalid(_))));
    server.expire(one.session().id).await.expect("expired");
    two.set("/c/settings", r#"{"workers":3}"#).await.expect("set");
    soon(readings.wait_for(|reading| reading.value.value.workers == 3)).await.expect("followed");
    assert!(config.current().error.is_none() && config.failure().is_none());
}

/// Creates nodes, one of which only its owner may read.
async fn with_a_secret(owner: &Client) {
    owner.create("/dir/a").data("1").parents(Parents::Persistent).await.expect("created");
    owner.create("/dir/z").data("1").await.expect("created");
    owner.add_auth("digest", "user:secret").await.expect("authenticated");
    let acl = [Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))];
    owner.create("/dir/secret").data("x").acl(acl.clone()).await.expect("created");
    owner.create("/dir/secret/below").data("x").acl(acl).await.expect("created");
}

fn paths(cache: &Cache) -> Vec<String> {
    cache.snapshot().iter().map(|node| node.path.clone()).collect()
}

async fn until_paths(cache: &Cache, wanted: &[&str]) {
    soon(async {
        while paths(cache) != wanted {
            assert!(cache.failure().is_none(), "{:?}", cache.failure());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_may_not_be_read_are_left_out_and_the_others_are_followed() {
    for watching in WATCHINGS {
        for reach in [CacheScope::Children, CacheScope::Tree] {
            let server = server().await;
            let (one, owner) = (client(&server).await, client(&server).await);
            with_a_secret(&owner).await;
            let cache = Cache::start_with(&one, "/dir", reach, watching);
            soon(cache.synced()).await.expect("complete");
            assert_eq!(paths(&cache), ["/dir", "/dir/a", "/dir/z"]);
            assert_eq!(cache.unreadable(), ["/dir/secret"]);
            owner.create("/dir/b").await.expect("created");
            until_paths(&cache, &["/dir", "/dir/a", "/dir/b", "/dir/z"]).await;
            // Also after a reconnect, when everything is read again.
            server.kill().await.expect("killed");
            server.restart().await.expect("started again");
            let connected = async |client: &Client| client.ready().await.map(drop).expect("connected");
            soon(async { tokio::join!(connected(&one), connected(&owner)) }).await;
            owner.create("/dir/c").retry(Retry::default()).await.expect("created");
            until_paths(&cache, &["/dir", "/dir/a", "/dir/b", "/dir/c", "/dir/z"]).await;
            assert_eq!(cache.unreadable(), ["/dir/secret"]);
            owner.delete("/dir/secret").recursive().await.expect("deleted");
            owner.create("/dir/secret").data("open").await.expect("created");
            until_paths(&cache, &["/dir", "/dir/a", "/dir/b", "/dir/c", "/dir/secret", "/dir/z"]).await;
            assert_eq!(cache.unreadable(), [""; 0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_compressed_data_is_damaged_is_left_out() {
    let server = server().await;
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let one = builder.compression(Compression::Gzip).connect().await.expect("a session");
    one.create("/dir/good").data("1").parents(Parents::Persistent).await.expect("created");
    let damaged = one.create("/dir/damaged").data(&[0x1f, 0x8b, 0, 0][..]);
    damaged.compression(Compression::None).await.expect("created");
    let cache = Cache::start(&one, "/dir", CacheScope::Children);
    soon(cache.synced()).await.expect("complete");
    // What the client itself would read.
    assert_eq!(cache.get("/dir/good").expect("there").data, "1");
    assert_eq!(cache.unreadable(), ["/dir/damaged"]);
    one.set("/dir/damaged", "2").await.expect("set");
    until_paths(&cache, &["/dir", "/dir/damaged", "/dir/good"]).await;
    assert_eq!(cache.unreadable(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_may_not_be_read_ends_the_cache() {
    let server = server().await;
    let (one, owner) = (client(&server).await, client(&server).await);
    with_a_secret(&owner).await;
    let cache = Cache::start(&one, "/dir/secret", CacheScope::Tree);
    let failed = soon(cache.synced()).await;
    assert!(
        matches!(&failed, Err(RecipeError::Client(error)) if error.code() == Some(ErrorCode::NoAuth)),
        "{failed:?}"
    );
}
