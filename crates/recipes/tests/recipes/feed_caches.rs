//! Caches that follow a change feed: a reconnect reads nothing again, nothing is lost or doubled, and servers
//! without a feed for the client are followed by watches.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use zebu_client::{
    Acl, Client, Connector, CreateSpec, ErrorCode, Permissions, ServerAddress, Version, digest_id,
};
use zebu_recipes::{Cache, CacheChange, CacheChanges, CacheScope, CacheWatchMode, CachedNode};
use zebu_testing::{TestEnsemble, TestServer, four_letter};

use crate::rig::{TIME_LIMIT, client, server, soon};

/// Connects and counts the bytes that servers send.
struct CountingConnector(Arc<AtomicU64>);

impl Connector for CountingConnector {
    type Stream = DuplexStream;

    async fn connect(&self, server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
        let server = TcpStream::connect((&*server.host, server.port)).await?;
        server.set_nodelay(true)?;
        let (near, far) = tokio::io::duplex(1 << 20);
        let received = self.0.clone();
        tokio::spawn(async move {
            let (mut from_server, mut to_server) = server.into_split();
            let (mut from_client, mut to_client) = tokio::io::split(far);
            let answers = async {
                let mut bytes = vec![0; 64 << 10];
                loop {
                    let length = from_server.read(&mut bytes).await?;
                    if length == 0 {
                        return io::Result::Ok(());
                    }
                    received.fetch_add(length as u64, Ordering::SeqCst);
                    to_client.write_all(&bytes[..length]).await?;
                }
            };
            tokio::select! {
                _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                _ = answers => {}
            }
        });
        Ok(near)
    }
}

/// A number of `mntr`.
async fn metric(server: &TestServer, name: &str) -> u64 {
    let address = server.address();
    let ask = move || four_letter::ask(address, "mntr", TIME_LIMIT);
    let text = tokio::task::spawn_blocking(ask).await.expect("asked").expect("answered");
    let value = |line: &str| line.strip_prefix(&format!("zk_{name}\t")).map(str::to_owned);
    text.lines().find_map(value).unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

/// The tree below a node, as the client reads it: data, czxid, mzxid and version.
type Tree = BTreeMap<String, (Vec<u8>, i64, i64, i32)>;

async fn tree(client: &Client, root: &str) -> Tree {
    let mut todo = vec![root.to_owned()];
    let mut tree = Tree::new();
    while let Some(path) = todo.pop() {
        match client.get(&path).await {
            Ok(node) => {
                let list = client.children(&path).await.expect("there");
                todo.extend(list.names.iter().map(|name| format!("{path}/{name}")));
                let stat = node.stat;
                tree.insert(path, (node.data.to_vec(), stat.czxid, stat.mzxid, stat.version));
            }
            Err(error) if error.code() == Some(ErrorCode::NoAuth) => {}
            Err(error) => panic!("{error}"),
        }
    }
    tree
}

fn shown<'a>(nodes: impl IntoIterator<Item = &'a CachedNode>) -> Tree {
    let entry = |node: &CachedNode| {
        let stat = node.stat;
        assert_eq!(usize::try_from(stat.data_length), Ok(node.data.len()), "{node:?}");
        (node.path.clone(), (node.data.to_vec(), stat.czxid, stat.mzxid, stat.version))
    };
    nodes.into_iter().map(entry).collect()
}

/// A copy that is built from the changes of a cache. Each must fit the one before.
#[derive(Default)]
struct Replica {
    nodes: BTreeMap<String, CachedNode>,
    is_stale: bool,
    stales: usize,
    /// The data of this node after each change.
    counted: Vec<String>,
}

const COUNTER: &str = "/r/counter";

impl Replica {
    fn of(cache: &Cache) -> (Replica, CacheChanges) {
        let (nodes, changes) = cache.snapshot_and_changes();
        let nodes = nodes.iter().map(|node| (node.path.clone(), (**node).clone())).collect();
        (Replica { nodes, ..Replica::default() }, changes)
    }

    fn apply(&mut self, change: CacheChange) {
        match change {
            CacheChange::Created(node) => {
                assert_eq!(self.nodes.insert(node.path.clone(), (*node).clone()), None, "created twice");
            }
            CacheChange::Updated { old, new } => {
                if new.path == COUNTER {
                    self.counted.push(String::from_utf8_lossy(&new.data).into_owned());
                }
                assert!(old.stat.mzxid < new.stat.mzxid && old.stat.czxid == new.stat.czxid, "{old:?}");
                let before = self.nodes.insert(new.path.clone(), (*new).clone());
                assert_eq!(before.expect("known").stat.mzxid, old.stat.mzxid, "{new:?}");
            }
            CacheChange::Deleted(node) => {
                let before = self.nodes.remove(&node.path);
                assert_eq!(before.expect("known").stat.czxid, node.stat.czxid);
            }
            CacheChange::Stale => {
                assert!(!std::mem::replace(&mut self.is_stale, true), "stale twice");
                self.stales += 1;
            }
            CacheChange::Synced => {
                assert!(std::mem::take(&mut self.is_stale), "synced without a stale before");
            }
            CacheChange::Missed(_) => panic!("a reader that reads misses nothing"),
        }
    }

    /// Applies changes until a node has this data.
    async fn until(&mut self, changes: &mut CacheChanges, path: &str, data: &str) {
        soon(async {
            while self.nodes.get(path).is_none_or(|node| node.data != data) {
                self.apply(changes.next().await.expect("the cache lives"));
            }
        })
        .await;
    }
}

async fn until_equal(cache: &Cache, client: &Client) {
    soon(client.sync("/")).await.expect("synced");
    let expected = tree(client, "/r").await;
    let wait = async {
        while shown(cache.snapshot().iter().map(|node| &**node)) != expected || !cache.is_synced() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(TIME_LIMIT, wait).await.is_err() {
        assert_eq!(shown(cache.snapshot().iter().map(|node| &**node)), expected);
        panic!("the cache is not synced, or has ended: {:?}", cache.failure());
    }
}

/// Writes while the client hears nothing, and cuts its connection.
async fn missed(server: &TestServer, client: &Client, writes: impl AsyncFnOnce() -> ()) {
    server.pause(client.session().id).await;
    writes().await;
    server.cut(client.session().id);
    server.resume(client.session().id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconnect_costs_what_was_missed() {
    const NODES: usize = 2000;
    let server = server().await;
    let writer = client(&server).await;
    writer.create("/r").await.expect("created");
    for number in 0..NODES {
        writer.create(&format!("/r/{number}")).data(vec![b'x'; 200]).await.expect("created");
    }
    let mut spent = BTreeMap::new();
    for mode in [CacheWatchMode::Feed, CacheWatchMode::Persistent] {
        let received = Arc::new(AtomicU64::new(0));
        let builder = Client::builder(&server.connect_string()).expect("an address");
        let connector = CountingConnector(received.clone());
        let one = builder.session_timeout(TIME_LIMIT).connect_with(connector).await.expect("a session");
        let cache = Cache::start_with(&one, "/r", CacheScope::Tree, mode);
        soon(cache.synced()).await.expect("synced");
        assert_eq!(cache.snapshot().len(), NODES + 1);
        let first = received.swap(0, Ordering::SeqCst);
        let (mut replica, mut changes) = Replica::of(&cache);
        let mark = format!("{mode:?}");
        missed(&server, &one, async || {
            for number in 0..5 {
                writer.set(&format!("/r/{number}"), mark.clone()).await.expect("set");
            }
        })
        .await;
        replica.until(&mut changes, "/r/4", &mark).await;
        soon(async {
            while replica.is_stale || replica.stales == 0 {
                replica.apply(changes.next().await.expect("the cache lives"));
            }
        })
        .await;
        spent.insert(mark, (first, received.load(Ordering::SeqCst)));
    }
    let (first, again) = spent["Feed"];
    assert!(first > 200 * NODES as u64 && again * 100 < first, "{spent:?}");
    let (_, again) = spent["Persistent"];
    assert!(again > 200 * NODES as u64, "{spent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_a_feed_for_the_client_are_followed_by_watches() {
    for line in ["feed.max=0", "feed.readers=ip:10.9.9.9", "zebu.privateRequests=false"] {
        let server = TestServer::builder().line(line).start().await.expect("a server");
        let (one, two) = (client(&server).await, client(&server).await);
        two.create("/r").await.expect("created");
        let cache = Cache::start(&one, "/r", CacheScope::Tree);
        soon(cache.synced()).await.expect("synced");
        let (mut replica, mut changes) = Replica::of(&cache);
        two.create("/r/a").data("1").await.expect("created");
        replica.until(&mut changes, "/r/a", "1").await;
        missed(&server, &one, async || {
            two.set("/r/a", "2").await.expect("set");
        })
        .await;
        replica.until(&mut changes, "/r/a", "2").await;
        two.set("/r/a", "3").await.expect("set");
        replica.until(&mut changes, "/r/a", "3").await;
        until_equal(&cache, &two).await;
        assert_eq!(metric(&server, "feeds_opened").await, 0, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_becomes_free_is_taken_with_the_next_connection() {
    let server = TestServer::builder().line("feed.max=1").start().await.expect("a server");
    let (one, two) = (client(&server).await, client(&server).await);
    two.create("/r").await.expect("created");
    let first = Cache::start(&one, "/r", CacheScope::Tree);
    soon(first.synced()).await.expect("synced");
    let second = Cache::start(&two, "/r", CacheScope::Tree);
    soon(second.synced()).await.expect("synced");
    one.create("/r/a").await.expect("created");
    until_equal(&first, &one).await;
    until_equal(&second, &one).await;
    assert_eq!(metric(&server, "feeds_opened").await, 1);
    drop(first);
    soon(async {
        while metric(&server, "feeds_opened").await == 1 {
            server.cut(two.session().id);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    one.create("/r/b").await.expect("created");
    until_equal(&second, &one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_no_longer_has_is_scanned() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    for path in ["/r", "/r/kept", "/r/gone", "/r/gone/too", "/r/again", "/r/changed"] {
        two.create(path).data("1").await.expect("created");
    }
    let cache = Cache::start(&one, "/r", CacheScope::Tree);
    soon(cache.synced()).await.expect("synced");
    let (mut replica, mut changes) = Replica::of(&cache);
    server.pause(one.session().id).await;
    two.delete("/r/gone").recursive().await.expect("deleted");
    two.delete("/r/again").await.expect("deleted");
    two.create("/r/again").data("1").await.expect("created");
    two.set("/r/changed", "2").await.expect("set");
    let logs = || {
        let all = std::fs::read_dir(server.data_dir().join("version-2")).expect("a directory");
        let all = all.map(|entry| entry.expect("an entry").path());
        let is_log = |path: &std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
        };
        all.filter(is_log).collect::<Vec<_>>()
    };
    let old = logs();
    server.restart().await.expect("started again");
    soon(async {
        while two
            .create("/r/last")
            .data("1")
            .await
            .is_err_and(|error| error.code() != Some(ErrorCode::NodeExists))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(logs().len() > old.len(), "the server begins a log when it starts");
    old.iter().for_each(|log| std::fs::remove_file(log).expect("removed"));
    server.resume(one.session().id).await;
    replica.until(&mut changes, "/r/last", "1").await;
    until_equal(&cache, &two).await;
    assert_eq!(metric(&server, "feeds_purged").await, 1);
    two.set("/r/last", "2").await.expect("set");
    replica.until(&mut changes, "/r/last", "2").await;
    assert_eq!(shown(replica.nodes.values()), tree(&two, "/r").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_that_change_are_noticed_at_once() {
    let server = server().await;
    let (one, owner) = (client(&server).await, client(&server).await);
    owner.add_auth("digest", "user:secret").await.expect("authenticated");
    let secret = [Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))];
    let open = [Acl::new(Permissions::ALL, "world", "anyone")];
    for path in ["/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/z"] {
        owner.create(path).data("1").await.expect("created");
    }
    for scope in [CacheScope::Tree, CacheScope::Children] {
        let cache = Cache::start(&one, "/r", scope);
        soon(cache.synced()).await.expect("synced");
        let paths = || cache.snapshot().iter().map(|node| node.path.clone()).collect::<Vec<_>>();
        let all = paths();
        let (mut replica, mut changes) = Replica::of(&cache);
        owner.set_acl("/r/a", secret.clone()).await.expect("set");
        owner.set("/r/a/b/c", "hidden").await.expect("set");
        owner.create("/r/a/new").data("hidden").await.expect("created");
        owner.set("/r/z", "after").await.expect("set");
        replica.until(&mut changes, "/r/z", "after").await;
        assert_eq!((paths(), cache.unreadable()), (vec!["/r".into(), "/r/z".into()], vec!["/r/a".into()]));
        owner.set_acl("/r/a", open.clone()).await.expect("set");
        owner.set("/r/z", "again").await.expect("set");
        replica.until(&mut changes, "/r/z", "again").await;
        owner.delete("/r/a/new").await.expect("deleted");
        owner.set("/r/z", "end").await.expect("set");
        replica.until(&mut changes, "/r/z", "end").await;
        assert_eq!((paths(), cache.unreadable()), (all, Vec::new()));
        let replica: Vec<String> = replica.nodes.into_keys().collect();
        assert_eq!(replica, paths());
    }
    // The root itself.
    let cache = Cache::start(&one, "/r", CacheScope::Tree);
    soon(cache.synced()).await.expect("synced");
    owner.set_acl("/r", secret).await.expect("set");
    soon(async {
        while cache.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Unreadable children are found among others, on several pages of the scan too.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_finds_the_nodes_that_it_leaves_out() {
    let server = TestServer::builder().line("scan.maxBytes=2000").start().await.expect("a server");
    let (one, owner) = (client(&server).await, client(&server).await);
    owner.add_auth("digest", "user:secret").await.expect("authenticated");
    let secret = [Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))];
    owner.create("/r").await.expect("created");
    let mut expected = Vec::new();
    for number in 0..60 {
        let path = format!("/r/{number:02}");
        owner.create(&path).data("1").await.expect("created");
        owner.create(&format!("{path}/below")).data("1").await.expect("created");
        if number % 7 == 3 {
            owner.set_acl(&path, secret.clone()).await.expect("set");
            expected.push(path);
        }
    }
    owner.set_acl("/r/11/below", secret.clone()).await.expect("set");
    let below = [expected.clone(), vec!["/r/11/below".into()]].concat();
    let readable = 60 - expected.len();
    for (scope, nodes, mut unreadable) in
        [(CacheScope::Tree, 2 * readable, below), (CacheScope::Children, 1 + readable, expected)]
    {
        unreadable.sort();
        let cache = Cache::start(&one, "/r", scope);
        soon(cache.synced()).await.expect("synced");
        assert_eq!((cache.unreadable(), cache.snapshot().len()), (unreadable, nodes));
    }
}

/// Numbers that are not random enough for anything else.
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % end
    }
}

/// One random change. Its outcome does not matter.
async fn random_write(client: &Client, numbers: &mut Numbers) {
    let parent = format!("/r/{}", numbers.below(5));
    let child = format!("{parent}/{}", numbers.below(3));
    let data = numbers.below(1 << 20).to_string();
    let acl = |readable| {
        let scheme = if readable { ("world", "anyone".to_owned()) } else { ("digest", digest_id("a", "b")) };
        [Acl::new(Permissions::ALL, "world", "anyone"), Acl::new(Permissions::ALL, scheme.0, scheme.1)]
            [usize::from(!readable)..]
            .to_vec()
    };
    let _ = match numbers.below(9) {
        0 | 1 => client.create(&parent).data(data).await.map(drop),
        2 => client.create(&child).data(data).await.map(drop),
        3 => client.create(&child).ephemeral().data(data).await.map(drop),
        4 => client.set(&child, data).await.map(drop),
        5 => client.delete(&child).await,
        6 => client.delete(&parent).recursive().await,
        7 => client.set_acl(&child, acl(numbers.below(2) == 0)).await.map(drop),
        _ => {
            let mut transaction = client.transaction();
            transaction.set(&parent, data.clone(), Version::Any);
            transaction.create(&child, CreateSpec::new().data(data));
            transaction.await.map(drop)
        }
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_equal_to_the_tree_after_any_writes() {
    for seed in 1..=4 {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        two.create("/r").await.expect("created");
        let cache = Cache::start(&one, "/r", CacheScope::Tree);
        let (mut replica, mut changes) = Replica::of(&cache);
        // Before the first synced there was no stale.
        replica.is_stale = true;
        let mut numbers = Numbers(seed);
        for round in 0..400 {
            random_write(&two, &mut numbers).await;
            if round % 70 == 40 {
                server.cut(one.session().id);
            }
            if round % 160 == 150 {
                server.expire(one.session().id).await.expect("expired");
            }
        }
        two.create("/r/last").data("1").await.expect("created");
        replica.until(&mut changes, "/r/last", "1").await;
        until_equal(&cache, &two).await;
        assert_eq!(shown(replica.nodes.values()), tree(&two, "/r").await, "seed {seed}");
    }
}

/// Three servers are restarted one after the other, and the leader is killed, while two clients write. The
/// cache shows each value of a counter once, and reads the tree once.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_over_a_rolling_restart() {
    const NODES: usize = 1500;
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    let connect = async || {
        let builder = Client::builder(&ensemble.connect_string()).expect("an address");
        builder.session_timeout(TIME_LIMIT).connect().await.expect("a session")
    };
    let writer = connect().await;
    writer.create("/r").await.expect("created");
    writer.create(COUNTER).data("0").await.expect("created");
    writer.create("/r/many").await.expect("created");
    for number in 0..NODES {
        writer.create(&format!("/r/many/{number}")).data(vec![b'x'; 1000]).await.expect("created");
    }
    let received = Arc::new(AtomicU64::new(0));
    let builder = Client::builder(&ensemble.connect_string()).expect("an address");
    let connector = CountingConnector(received.clone());
    let one = builder.session_timeout(TIME_LIMIT).connect_with(connector).await.expect("a session");
    let cache = Cache::start(&one, "/r", CacheScope::Tree);
    soon(cache.synced()).await.expect("synced");
    let first = received.swap(0, Ordering::SeqCst);
    let (mut replica, mut changes) = Replica::of(&cache);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let counting = tokio::spawn({
        let (writer, stopped) = (writer.clone(), stopped.clone());
        async move {
            let mut count = 0;
            while !*stopped.borrow() {
                // A lost reply of an attempt shows as a conflict of the next one.
                let set = writer.set(COUNTER, (count + 1).to_string()).version(Version::Exactly(count)).await;
                if set.is_ok() || set.is_err_and(|error| error.code() == Some(ErrorCode::BadVersion)) {
                    count += 1;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            count
        }
    });
    let other = connect().await;
    let mixing = tokio::spawn(async move {
        let mut numbers = Numbers(11);
        while !*stopped.borrow() {
            random_write(&other, &mut numbers).await;
        }
    });
    for member in 0..3 {
        ensemble.restart(member).await.expect("started again");
        soon(ensemble.wait_for_all()).await.expect("all serve");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let leader = soon(ensemble.wait_for_leader()).await.expect("a leader");
    ensemble.kill(leader).await.expect("killed");
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensemble.restart(leader).await.expect("started again");
    soon(ensemble.wait_for_all()).await.expect("all serve");
    stop.send_replace(true);
    let count = soon(counting).await.expect("counted");
    soon(mixing).await.expect("written");
    replica.until(&mut changes, COUNTER, &count.to_string()).await;
    assert_eq!(replica.counted, (1..=count).map(|number| number.to_string()).collect::<Vec<_>>());
    until_equal(&cache, &writer).await;
    soon(async {
        while shown(replica.nodes.values()) != tree(&writer, "/r").await {
            replica.apply(changes.next().await.expect("the cache lives"));
        }
    })
    .await;
    assert!(replica.stales >= 1, "a rolling restart reaches every server");
    // Watches would have read all nodes again after each loss. The changes themselves are far less.
    let since = received.load(Ordering::SeqCst);
    println!("{first} bytes at first, {since} since, {} losses", replica.stales);
    assert!(since < first, "{since} bytes after {first}");
}
