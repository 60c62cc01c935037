//! No herd: a release wakes one, however many wait. Counted by the events that the server sends and by the
//! watches that it keeps.

use std::sync::Arc;
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{Mutex, Ownership, RwLock};
use zebu_testing::TestServer;

use crate::fault::{Fault, Plan};
use crate::rig::{client, faulty_client, server, soon, until_children};

const WAITERS: usize = 1000;
const SESSIONS: usize = 10;

/// `watch_count` of the word `mntr`.
fn watches(server: &TestServer) -> usize {
    let answer = zebu_testing::four_letter::ask(server.address(), "mntr", Duration::from_secs(10));
    let answer = answer.expect("an answer");
    let line = answer.lines().find_map(|line| line.strip_prefix("zk_watch_count\t")).expect("a count");
    line.trim().parse().expect("a number")
}

async fn connect_clients(server: &TestServer) -> (Vec<Client>, Arc<Plan>) {
    let plan = Plan::new(Fault::CutBefore);
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(faulty_client(server, &plan).await);
    }
    (clients, plan)
}

/// Waits for a later reply on each connection; all events before it have arrived then.
async fn receive_events(clients: &[Client]) {
    for client in clients {
        client.sync("/").await.expect("an answer");
    }
}

async fn until_watches(server: &TestServer, count: usize) {
    soon(async {
        while watches(server) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_one_of_a_thousand() {
    const RELEASES: usize = 100;
    let server = server().await;
    let (clients, plan) = connect_clients(&server).await;
    let other = client(&server).await;
    let first = Mutex::new(&other, "/lock").acquire().await.expect("the lock");
    let (acquired, mut turns) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let (mutex, acquired) = (Mutex::new(&clients[number % SESSIONS], "/lock"), acquired.clone());
        tasks.push(tokio::spawn(async move { acquired.send(mutex.acquire().await.expect("the lock")) }));
    }
    until_children(&other, "/lock", WAITERS + 1).await;
    // Each waiter watches one node, and the holder its own.
    until_watches(&server, WAITERS + 1).await;
    assert_eq!(plan.events(), 0, "no waiter was woken yet");
    let mut last = first.token();
    first.release().await.expect("released");
    for released in 1..=RELEASES {
        let guard = soon(turns.recv()).await.expect("a holder");
        assert!(guard.token() > last, "in the order of coming");
        last = guard.token();
        assert_eq!(guard.verify().await, Ok(()));
        receive_events(&clients).await;
        // One waiter each time; and each holder of the crowd sees its own node go, by the same event if the
        // next one is of the same session.
        let events = plan.events();
        assert!((released..2 * released).contains(&events), "{events} events after {released} releases");
        // All others watch what they did: a server keeps one watch for each path and session.
        let left = WAITERS - released;
        let kept = watches(&server);
        assert!((left..=left + 1).contains(&kept), "{kept} watches for {left} who wait");
        assert!(turns.try_recv().is_err(), "one at a time");
        guard.release().await.expect("released");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(turns);
    until_children(&other, "/lock", 0).await;
    until_watches(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_wakes_one_writer_and_no_reader() {
    const READERS: usize = 100;
    let server = server().await;
    let (clients, plan) = connect_clients(&server).await;
    let other = client(&server).await;
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(RwLock::new(&other, "/lock").read().await.expect("the lock"));
    }
    let waiting = RwLock::new(&clients[0], "/lock");
    let writer = tokio::spawn(async move { waiting.write().await });
    until_children(&other, "/lock", 3).await;
    let mut behind = Vec::new();
    for number in 0..READERS {
        let lock = RwLock::new(&clients[number % SESSIONS], "/lock");
        behind.push(tokio::spawn(async move { lock.read().await }));
    }
    until_children(&other, "/lock", 3 + READERS).await;
    // Two readers watch their own nodes; the writer one; of the others all sessions watch the writer.
    until_watches(&server, 3 + SESSIONS).await;
    // The nearest one is what the writer watches.
    readers.pop().expect("two").release().await.expect("released");
    until_watches(&server, 2 + SESSIONS).await;
    receive_events(&clients).await;
    assert_eq!(plan.events(), 1, "the writer looks again");
    readers.pop().expect("one").release().await.expect("released");
    let writer = soon(writer).await.expect("no panic").expect("the lock");
    receive_events(&clients).await;
    assert_eq!(plan.events(), 2, "the writer has it");
    // Here all wake, because all have it now.
    writer.release().await.expect("released");
    for reader in behind {
        soon(reader).await.expect("no panic").expect("the lock").release().await.expect("released");
    }
    until_children(&other, "/lock", 0).await;
}
