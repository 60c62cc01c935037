//! Many contenders on connections that break: never two holders at a time, and each contender gets its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use zebu_recipes::{Fenced, Mutex, Ownership, RwLock, Semaphore, SemaphoreMutex, SimpleLock};

use crate::rig::{Register, client, server, soon, until_children};

/// Checks that a holder is alone, by its own clock and by its token.
#[derive(Clone, Default)]
struct HolderChecker {
    inside: Arc<AtomicUsize>,
    last: Arc<AtomicI64>,
    holds: Arc<AtomicUsize>,
}

impl HolderChecker {
    async fn hold(&self, guard: &impl Ownership) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
        let last = self.last.swap(guard.token().0, Ordering::SeqCst);
        assert!(last < guard.token().0, "{last} before {}", guard.token());
        tokio::task::yield_now().await;
        assert_eq!(guard.check(), Ok(()));
        self.holds.fetch_add(1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn run_contenders<G: Fenced + Send + Sync>(
    leftover: &str,
    acquire: impl AsyncFn(&zebu_client::Client) -> G,
    release: impl AsyncFn(G),
) {
    const CLIENTS: usize = 3;
    const TASKS: usize = 3;
    const ROUNDS: usize = 6;
    const FAULTS: usize = 12;
    let server = server().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&server).await);
    }
    let register = Register::create(&clients[0], "/register").await;
    let holders = HolderChecker::default();
    let visitor = async |number: usize| {
        let client = &clients[number % CLIENTS];
        for _ in 0..ROUNDS {
            let guard = acquire(client).await;
            holders.hold(&guard).await;
            register.write(&guard).await;
            release(guard).await;
        }
    };
    let trouble = async {
        for round in 0..FAULTS {
            let holds = holders.holds.load(Ordering::SeqCst);
            // Not more often than the clients can reconnect.
            while holders.holds.load(Ordering::SeqCst) < holds + 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let session = clients[round % CLIENTS].session().id;
            if round % 2 == 0 { server.cut(session) } else { server.drop_next_reply(session) }
        }
        std::future::pending::<()>().await;
    };
    let visitors = async {
        tokio::join!(
            visitor(0),
            visitor(1),
            visitor(2),
            visitor(3),
            visitor(4),
            visitor(5),
            visitor(6),
            visitor(7),
            visitor(8)
        );
    };
    tokio::select! {
        () = soon(visitors) => {}
        () = trouble => unreachable!("it has no end"),
    }
    assert_eq!(holders.holds.load(Ordering::SeqCst), CLIENTS * TASKS * ROUNDS);
    assert!(register.check() > 0);
    until_children(&clients[0], leftover, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_on_bad_connections() {
    let acquire = async |client: &_| Mutex::new(client, "/lock").acquire().await.expect("the lock");
    run_contenders("/lock", acquire, async |guard| guard.release().await.expect("released")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_on_bad_connections() {
    let acquire = async |client: &_| RwLock::new(client, "/lock").write().await.expect("the lock");
    run_contenders("/lock", acquire, async |guard| guard.release().await.expect("released")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_mutex_on_bad_connections() {
    let acquire = async |client: &_| SemaphoreMutex::new(client, "/lock").acquire().await.expect("the lock");
    run_contenders("/lock/leases", acquire, async |guard| guard.release().await.expect("released")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_lock_on_bad_connections() {
    let acquire = async |client: &_| SimpleLock::new(client, "/a/lock").acquire().await.expect("the lock");
    run_contenders("/a", acquire, async |guard| guard.release().await.expect("released")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_never_has_more_holders_than_permits() {
    const PERMITS: u32 = 3;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let inside = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let semaphore = Semaphore::new(&clients[number % 2], "/limit", PERMITS);
        let (inside, most) = (inside.clone(), most.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..4 {
                let wanted = if (number + round) % 3 == 0 { 2 } else { 1 };
                let permits = semaphore.acquire_many(wanted).await.expect("permits");
                let now = inside.fetch_add(wanted as usize, Ordering::SeqCst) + wanted as usize;
                most.fetch_max(now, Ordering::SeqCst);
                assert!(now <= PERMITS as usize, "{now} permits");
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(wanted as usize, Ordering::SeqCst);
                for permit in permits {
                    permit.release().await.expect("released");
                }
            }
        }));
    }
    let cutter = async {
        for round in 0..10 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.cut(clients[round % 2].session().id);
        }
        std::future::pending().await
    };
    let all = async {
        for task in tasks {
            task.await.expect("no panic");
        }
    };
    tokio::select! {
        () = soon(all) => {}
        () = cutter => unreachable!("it has no end"),
    }
    assert!(most.load(Ordering::SeqCst) > 1, "permits are used at the same time");
    until_children(&clients[0], "/limit/leases", 0).await;
    until_children(&clients[0], "/limit/locks", 0).await;
}
