//! Recipes with a client that compresses: their nodes are shared with programs that do not.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use zebu_client::{Client, Compression, Version};
use zebu_recipes::{
    AtomicLong, AtomicValue, CommitCoordinator, CommitDecision, CommitParticipant, CommitProtocol,
    CommitVote, DistributedQueue, DoubleBarrier, Fenced, GroupMember, JsonConfig, LeaderLatch,
    LeaderSelector, Mutex, Party, PersistentNode, QueueOrder, RwLock, Semaphore, ServiceDiscovery,
    ServiceInstance, SharedCount, SharedValue, SimpleLock, TtlNode,
};

use crate::rig::{client, server, soon};

/// Long enough for compression to make a difference.
fn text() -> String {
    "word ".repeat(100)
}

/// Every node below a path, with its data as it is stored.
async fn assert_plain(plain: &Client, path: &str) {
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        let node = plain.get(&path).await.expect("a node");
        assert!(!node.data.starts_with(&[0x1f, 0x8b]), "{path} is compressed");
        let below = plain.children(&path).await.expect("a node").names;
        todo.extend(below.iter().map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_recipes_are_never_compressed() {
    let server = server().await;
    let plain = client(&server).await;
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let packed = builder.compression(Compression::Gzip).connect().await.expect("a session");

    let mutex = Mutex::new(&packed, "/mutex").identity(text()).acquire().await.expect("the lock");
    let writer = RwLock::new(&packed, "/rw").identity(text()).write().await.expect("the lock");
    let reader = writer.downgrade().await.expect("a reader");
    let permit = Semaphore::new(&packed, "/limit", 1).identity(text()).acquire().await.expect("a permit");
    let simple = SimpleLock::new(&packed, "/simple").identity(text());
    let held = simple.acquire().await.expect("the lock");
    assert_eq!(simple.holder().await.expect("an answer").expect("held"), text());
    let latch = LeaderLatch::join(&packed, "/latch", text());
    soon(latch.lead()).await.expect("leads").acknowledge().await.expect("acknowledged");
    assert_eq!(latch.acknowledged().await.expect("an answer"), Some(text()));
    let barrier = DoubleBarrier::new(&packed, "/round", NonZeroU32::MIN).enter().await.expect("entered");
    let value = SharedValue::start(&packed, "/value", text()).await.expect("a value");
    value.set(text()).await.expect("set");
    assert!(value.try_set(&value.fetch().await.expect("a value"), text()).await.expect("an answer"));
    let count = SharedCount::start(&packed, "/count", 1).await.expect("a number");
    count.set(2).await.expect("set");
    let atomic = AtomicValue::new(&packed, "/atomic");
    atomic.set(text()).await.expect("set");
    let long = AtomicLong::new(&packed, "/long");
    long.add(2).await.expect("added");
    let config = JsonConfig::start(&packed, "/config", &text()).await.expect("a value");
    config.update(|value| value.push('x')).await.expect("updated");
    for (path, order) in [("/simple-queue", QueueOrder::Simple), ("/framed-queue", QueueOrder::Fifo)] {
        DistributedQueue::new(&packed, path, order).push(text()).await.expect("pushed");
    }
    let leased =
        DistributedQueue::new(&packed, "/simple-queue", QueueOrder::Simple).lease().await.expect("an item");
    let kept = PersistentNode::start(&packed, "/kept", text());
    kept.wait_present().await.expect("there");
    let member = GroupMember::join(&packed, "/group", "a", text()).await.expect("joined");
    let party = Party::new(&packed, "/party").join(&text()).await.expect("joined");
    let ttl = TtlNode::start(&packed, "/ttl", Duration::from_secs(60), text());
    ttl.wait_present().await.expect("there");
    let services = ServiceDiscovery::<String>::new(&packed, "/services");
    // Ours takes the place of an older one.
    plain.ensure_path("/services/shop").await.expect("created");
    plain.create("/services/shop/1").data("old").ephemeral().await.expect("created");
    let registered = services.register(ServiceInstance::new("shop").id("1").payload(text())).await;
    let registered = registered.expect("registered");
    let form = CommitProtocol::EphemeralVotes;
    let proposed = CommitCoordinator::propose(&packed, "/tx", form, &["a"], text()).await;
    let coordinator = proposed.expect("proposed");
    let site = CommitParticipant::join(&packed, "/tx", "a").await.expect("joined");
    assert_eq!(site.body(), &text());
    site.vote(CommitVote::Commit).await.expect("voted");
    assert_eq!(soon(coordinator.decide()).await.expect("decided"), CommitDecision::Commit);

    assert_plain(&plain, "/").await;
    drop((mutex, reader, permit, held, latch, barrier, leased, kept, member, party, ttl, registered, site));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_holder_compresses_as_its_client_does() {
    let server = server().await;
    let plain = client(&server).await;
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let packed = builder.compression(Compression::Gzip).connect().await.expect("a session");
    packed.create("/report").await.expect("created");
    let selector = LeaderSelector::new(&packed, "/election", "a");
    let work = |leadership: zebu_recipes::Leadership| async move {
        let mut transaction = leadership.transaction();
        transaction.set("/report", text(), Version::Any);
        transaction.await.expect("written");
        ControlFlow::Break(())
    };
    soon(selector.run(work)).await.expect("led");
    assert!(plain.get("/report").await.expect("a node").data.starts_with(&[0x1f, 0x8b]));
    assert_eq!(packed.get("/report").await.expect("a node").data, text());
}
