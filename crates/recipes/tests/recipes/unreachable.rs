//! Calls that do not wait for other contenders, while no server can be reached.

use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{
    DistributedQueue, Mutex, QueueOrder, RecipeError, RwLock, Semaphore, SemaphoreLayout, SemaphoreMutex,
    SharedValue, SimpleElection, SimpleLock,
};

use crate::rig::{children, client, server, soon};

fn assert_unreachable<T>(what: &str, result: Result<T, RecipeError>) {
    match result {
        Err(RecipeError::Unreachable { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: there is no server"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_call_fails_without_a_server() {
    let server = server().await;
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let builder = builder.connection_timeout(Duration::from_millis(300));
    let one = builder.session_timeout(Duration::from_secs(30)).connect().await.expect("a session");
    let value = SharedValue::start(&one, "/value", "0").await.expect("a value");
    value.set("1").await.expect("set");
    let known = value.fetch().await.expect("a value");
    let queue = DistributedQueue::new(&one, "/queue", QueueOrder::Simple);
    queue.push("item").await.expect("pushed");
    server.kill().await.expect("killed");
    soon(one.states().wait_for(|status| !status.state.is_connected())).await.expect("a state");

    assert_unreachable("mutex", soon(Mutex::new(&one, "/a").try_acquire()).await);
    assert_unreachable("reader", soon(RwLock::new(&one, "/b").try_read()).await);
    assert_unreachable("writer", soon(RwLock::new(&one, "/b").try_write()).await);
    let kazoo = Semaphore::new(&one, "/d", 1).layout(SemaphoreLayout::Kazoo);
    assert_unreachable("semaphore", soon(Semaphore::new(&one, "/c", 1).try_acquire()).await);
    assert_unreachable("Kazoo's semaphore", soon(kazoo.try_acquire()).await);
    assert_unreachable("semaphore mutex", soon(SemaphoreMutex::new(&one, "/e").try_acquire()).await);
    assert_unreachable("simple lock", soon(SimpleLock::new(&one, "/f").try_acquire()).await);
    assert_unreachable("election", soon(SimpleElection::new(&one, "/g", "x").try_lead()).await);
    assert_unreachable("pop", soon(queue.try_pop()).await);
    assert_unreachable("lease", soon(queue.try_lease()).await);
    assert_unreachable("value", soon(value.try_set(&known, "2")).await);

    // Nothing was changed, and nothing comes of it later.
    server.restart().await.expect("started again");
    let other = client(&server).await;
    soon(one.ready()).await.expect("connected");
    one.sync("/").await.expect("synced");
    assert_eq!(&other.get("/value").await.expect("a node").data[..], b"1");
    assert_eq!(children(&other, "/queue").await.len(), 1);
    let free = Mutex::new(&other, "/a").acquire().await.expect("the lock");
    free.release().await.expect("released");
    assert_eq!(value.fetch().await.expect("a value").value, "1");
    assert!(value.try_set(&known, "2").await.expect("an answer"));
}
