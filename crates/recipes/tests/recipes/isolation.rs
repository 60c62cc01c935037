//! A server that is cut off from its leader goes on to answer its clients. What it says keeps nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zebu_client::{Client, Retry};
use zebu_recipes::{LossReason, Mutex, Ownership};
use zebu_testing::TestEnsemble;

use crate::rig::{soon, until_children};

/// Shorter than it takes a member to find out that it is cut off, and long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(3);

async fn client_of(ensemble: &TestEnsemble, member: usize) -> Client {
    let builder = Client::builder(&ensemble.address(member).to_string()).expect("an address");
    soon(builder.session_timeout(TIMEOUT).connect()).await.expect("a session")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_on_a_server_that_is_cut_off_lets_go_before_another_holds() {
    let ensemble = Arc::new(TestEnsemble::start(3).await.expect("an ensemble"));
    let leader = ensemble.wait_for_all().await.expect("a leader");
    let follower = (leader + 1) % 3;
    let client = client_of(&ensemble, follower).await;
    let other = client_of(&ensemble, leader).await;
    let holder = soon(Mutex::new(&client, "/lock").acquire()).await.expect("the lock");
    let rival = Mutex::new(&other, "/lock");
    let rival = tokio::spawn(async move {
        let guard = rival.acquire().await.expect("the lock");
        (Instant::now(), guard)
    });
    until_children(&other, "/lock", 2).await;

    // Every answer would be a reason to believe.
    let reader = client.clone();
    let reading = tokio::spawn(async move {
        let mut answers = 0;
        loop {
            answers += usize::from(reader.exists("/lock").retry(Retry::Never).await.is_ok());
            tokio::time::sleep(Duration::from_millis(20)).await;
            if answers > 100_000 {
                return;
            }
        }
    });
    ensemble.isolate(follower);
    let (acquired, guard) = soon(rival).await.expect("no panic");
    // The two answers are in the client's hands, whatever the machine does meanwhile: both know the end by
    // the clock.
    let (held, lease) = (holder.check(), client.lease_deadline());
    assert!(held.is_err(), "two hold the lock; the lease lasts until {lease:?}, it is {acquired:?}");
    assert!(lease.is_none_or(|lease| lease <= acquired), "{:?}", lease.map(|lease| lease - acquired));
    assert_eq!(soon(holder.lost()).await, held.unwrap_err());
    assert_ne!(soon(holder.lost()).await, LossReason::Released);
    reading.abort();

    ensemble.heal();
    assert_eq!(soon(guard.verify()).await, Ok(()), "the rival's is real");
}
