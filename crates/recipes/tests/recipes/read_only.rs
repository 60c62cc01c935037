//! A server that takes no writes keeps nothing that is held: for recipes it is as good as none.

use std::time::Duration;

use zebu_client::{Client, ReadOnlyServers, SessionState};
use zebu_recipes::{Cache, CacheScope, LossReason, Mutex, Ownership};
use zebu_testing::TestEnsemble;

use crate::rig::soon;

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_extends_no_lease_and_completes_no_cache() {
    let ensemble = TestEnsemble::builder(3).line("readonlymode.enabled=true").start().await.expect("started");
    let builder = Client::builder(&ensemble.connect_string()).expect("addresses");
    let builder = builder.read_only(ReadOnlyServers::Accept).session_timeout(Duration::from_secs(8));
    let client = soon(builder.connect()).await.expect("a session");
    let state = async |wanted: SessionState| {
        soon(client.states().wait_for(|status| status.state == wanted)).await.expect("a client that lives");
    };
    let cache = Cache::start(&client, "/lock", CacheScope::Tree);
    let holder = soon(Mutex::new(&client, "/lock").acquire()).await.expect("the lock");
    soon(cache.synced()).await.expect("everything");
    ensemble.kill(0).await.expect("killed");
    ensemble.kill(1).await.expect("killed");
    state(SessionState::ReadOnly).await;
    assert_eq!(soon(holder.lost()).await, LossReason::LeaseEnded);
    assert_eq!(client.state(), SessionState::ReadOnly, "the server still answers");
    assert!(!cache.is_synced() && !cache.snapshot().is_empty());

    ensemble.restart(0).await.expect("started again");
    state(SessionState::Reconnected).await;
    soon(cache.synced()).await.expect("everything");
    // The session did not expire, and its node can be released.
    soon(holder.release()).await.expect("released");
    let again = soon(Mutex::new(&client, "/lock").acquire()).await.expect("the lock");
    assert_eq!(soon(again.verify()).await, Ok(()));
}
