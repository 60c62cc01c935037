//! Feeds against real servers: what a feed shows over restarts, crashes and leader changes is what was
//! committed, in order, each transaction once.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::time::Duration;

use zebu_client::{
    ChangeKind, Client, Compression, CreatedOwner, ErrorCode, Feed, FeedItem, FeedTransaction, Version,
};
use zebu_testing::{TestEnsemble, TestServer};

const TIMEOUT: Duration = Duration::from_secs(60);

async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future).await.expect("it should have happened by now")
}

async fn client_of(servers: &str) -> Client {
    soon(Client::builder(servers).unwrap().session_timeout(TIMEOUT).connect()).await.unwrap()
}

/// The transactions of a feed until one changes this path.
async fn until(feed: &mut Feed, path: &str) -> Vec<FeedTransaction> {
    let mut transactions = Vec::new();
    loop {
        match soon(feed.next()).await.unwrap().unwrap() {
            FeedItem::Change(txn) => {
                let is_last = txn.changes.iter().any(|change| change.path == path);
                transactions.push(txn);
                if is_last {
                    return transactions;
                }
            }
            FeedItem::Progress(zxid) => assert_eq!(feed.position(), Some(zxid)),
            FeedItem::Opened { .. } => panic!("it was not asked for"),
            FeedItem::Purged { oldest } => panic!("purged, {oldest:x}"),
        }
    }
}

fn paths(transactions: &[FeedTransaction]) -> Vec<&str> {
    transactions.iter().flat_map(|txn| &txn.changes).map(|change| change.path.as_str()).collect()
}

fn assert_ordered(transactions: &[FeedTransaction]) {
    assert!(transactions.is_sorted_by(|one, other| one.zxid < other.zxid), "{transactions:?}");
}

#[tokio::test]
async fn a_feed_goes_on_over_restarts_and_reads_the_log() {
    let server = TestServer::start().await.unwrap();
    let client = client_of(&server.connect_string()).await;
    client.create("/app").data("0").await.unwrap();
    client.create("/other").await.unwrap();
    let mut live = client.feed("/app").with_data();
    assert!(matches!(soon(live.next()).await, Some(Ok(FeedItem::Progress(_)))), "it is open");
    for number in 0..3 {
        client.create(&format!("/app/{number}")).data(number.to_string()).await.unwrap();
        client.set("/other", "x").await.unwrap();
    }
    let mut transaction = client.transaction();
    transaction.set("/app/0", "set", Version::Any);
    transaction.set("/other", "set", Version::Any);
    transaction.delete("/app/1", Version::Any);
    soon(transaction).await.unwrap();
    server.restart().await.unwrap();
    soon(client.sync("/")).await.ok();
    soon(async {
        while client.create("/app/behind").ephemeral().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let shown = until(&mut live, "/app/behind").await;
    assert_eq!(paths(&shown), ["/app/0", "/app/1", "/app/2", "/app/0", "/app/1", "/app/behind"]);
    assert_ordered(&shown);
    let last = &shown[3].changes;
    assert_eq!((last[0].kind, last[0].data.as_deref()), (ChangeKind::DataChanged, Some(&b"set"[..])));
    assert_eq!((last[1].kind, last[1].data.as_deref()), (ChangeKind::Deleted, None));
    assert_eq!(shown[4].changes[0].owner, CreatedOwner::Ephemeral);
    assert_eq!(shown[4].session, client.session().id);
    // The same from the log, which two lives of the server have written, and from any place in between.
    let mut all = client.feed("/app").and("/other").after(0);
    let logged = until(&mut all, "/app/behind").await;
    assert_ordered(&logged);
    assert_eq!(logged.len(), 10);
    assert!(logged.iter().flat_map(|txn| &txn.changes).all(|change| change.data.is_none()));
    for (index, txn) in shown.iter().enumerate().take(4) {
        let mut feed = client.feed("/app").after(txn.zxid).with_data();
        assert_eq!(until(&mut feed, "/app/behind").await, shown[index + 1..]);
    }
    // The feed itself has seen nothing else.
    client.create("/app/end").await.unwrap();
    assert_eq!(paths(&until(&mut live, "/app/end").await), ["/app/end"]);
}

#[tokio::test]
async fn data_that_does_not_decompress_ends_no_feed() {
    const DAMAGED: &[u8] = &[0x1f, 0x8b, 0];
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap().session_timeout(TIMEOUT);
    let client = soon(builder.compression(Compression::Gzip).connect()).await.unwrap();
    client.create("/a").data("good").await.unwrap();
    client.create("/b").data(DAMAGED).compression(Compression::None).await.unwrap();
    client.create("/c").data("behind").await.unwrap();
    let shown = until(&mut client.feed("/").after(0).with_data(), "/c").await;
    let changes: Vec<_> = shown
        .iter()
        .flat_map(|txn| &txn.changes)
        .map(|change| (change.path.as_str(), change.data.as_deref().unwrap(), change.bad_compression))
        .collect();
    assert_eq!(changes, [("/a", &b"good"[..], false), ("/b", DAMAGED, true), ("/c", b"behind", false)]);
}

#[tokio::test]
async fn what_the_log_no_longer_has_is_told() {
    let server = TestServer::start().await.unwrap();
    let client = client_of(&server.connect_string()).await;
    client.create("/a").await.unwrap();
    let version_dir = server.data_dir().join("version-2");
    let logs = || {
        let mut logs: Vec<_> = std::fs::read_dir(&version_dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
            .collect();
        logs.sort();
        logs
    };
    let old = logs();
    server.restart().await.unwrap();
    soon(async {
        while client.create("/b").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(logs().len() > old.len(), "the server begins a log when it starts");
    let kept = client.get("/a").await.unwrap().stat.czxid;
    let whole = until(&mut client.feed("/").after(0), "/b").await;
    assert_eq!(whole.first().unwrap().zxid, kept);
    old.iter().for_each(|log| std::fs::remove_file(log).unwrap());
    let mut feed = client.feed("/").after(0);
    let Some(Ok(FeedItem::Purged { oldest })) = soon(feed.next()).await else { panic!("purged") };
    assert!(oldest > kept);
    assert!(soon(feed.next()).await.is_none());
    // Behind what is there, a feed goes on.
    let now = client.get("/b").await.unwrap().stat.czxid;
    client.create("/c").await.unwrap();
    assert_eq!(paths(&until(&mut client.feed("/").after(now), "/c").await), ["/c"]);
}

#[tokio::test]
async fn feeds_need_a_reader_and_a_place() {
    let server = TestServer::builder().line("feed.max=2").start().await.unwrap();
    let client = client_of(&server.connect_string()).await;
    let mut feeds = [client.feed("/"), client.feed("/")];
    for feed in &mut feeds {
        assert!(matches!(soon(feed.next()).await, Some(Ok(FeedItem::Progress(_)))));
    }
    let mut third = client.feed("/");
    assert_eq!(soon(third.next()).await.unwrap().unwrap_err().code(), Some(ErrorCode::TooManyFeeds));
    assert!(soon(third.next()).await.is_none());
    // A feed that is dropped makes room.
    drop(feeds);
    soon(async {
        while soon(client.feed("/").next()).await.unwrap().is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let closed = TestServer::builder().line("feed.readers=ip:10.9.9.9").start().await.unwrap();
    let client = client_of(&closed.connect_string()).await;
    let refused = soon(client.feed("/").next()).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NoAuth));
    let off = TestServer::builder().line("feed.max=0").start().await.unwrap();
    let client = client_of(&off.connect_string()).await;
    let refused = soon(client.feed("/").next()).await.unwrap().unwrap_err();
    assert!(refused.is_unsupported_freshness(), "{refused}");
}

/// A client that reads slowly gets everything, and the server holds little of it meanwhile.
#[tokio::test]
async fn a_slow_reader_gets_everything() {
    const NODES: usize = 300;
    let server = TestServer::start().await.unwrap();
    let client = client_of(&server.connect_string()).await;
    let mut feed = client.feed("/").with_data();
    assert!(matches!(soon(feed.next()).await, Some(Ok(FeedItem::Progress(_)))));
    // Several times the credit, the batch, and the transactions in memory.
    let data = vec![b'x'; 64 << 10];
    for number in 0..NODES {
        client.create(&format!("/{number}")).data(data.clone()).await.unwrap();
    }
    let shown = until(&mut feed, &format!("/{}", NODES - 1)).await;
    let expected: Vec<String> = (0..NODES).map(|number| format!("/{number}")).collect();
    assert_eq!(paths(&shown), expected);
    assert!(shown.iter().all(|txn| txn.changes[0].data.as_ref().unwrap().len() == data.len()));
}

#[tokio::test]
async fn a_feed_survives_the_loss_of_its_leader() {
    const WRITES: usize = 60;
    let ensemble = TestEnsemble::start(3).await.unwrap();
    let leader = ensemble.wait_for_leader().await.unwrap();
    let reader = client_of(&ensemble.address(leader).to_string()).await;
    reader.update_servers(&ensemble.connect_string()).unwrap();
    let mut feed = reader.feed("/").with_data();
    assert!(matches!(soon(feed.next()).await, Some(Ok(FeedItem::Progress(_)))));
    let writer = client_of(&ensemble.connect_string()).await;
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0..WRITES {
            // An unknown outcome may be a node: the name is never used again.
            let path = format!("/{number:03}");
            if soon(writer.create(&path)).await.is_ok() {
                acknowledged.push(path);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while soon(writer.create("/last"))
            .await
            .is_err_and(|error| error.code() != Some(ErrorCode::NodeExists))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        writer
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensemble.kill(leader).await.unwrap();
    let shown = until(&mut feed, "/last").await;
    assert_ordered(&shown);
    let writer = soon(writing).await.unwrap();
    // Each node of the tree was shown exactly once, in the order of its creation.
    soon(writer.sync("/")).await.unwrap();
    let mut created = Vec::new();
    for name in soon(writer.children("/")).await.unwrap().names {
        if name != "zookeeper" {
            let path = format!("/{name}");
            created.push((soon(writer.get(&path)).await.unwrap().stat.czxid, path));
        }
    }
    created.sort();
    let expected: Vec<&str> = created.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths(&shown), expected);
    // Any other server goes on from any place.
    let place = shown[shown.len() / 2].zxid;
    for member in (0..3).filter(|&member| member != leader) {
        let client = client_of(&ensemble.address(member).to_string()).await;
        let rest = until(&mut client.feed("/").with_data().after(place), "/last").await;
        assert_eq!(rest, shown[shown.len() / 2 + 1..]);
    }
}
