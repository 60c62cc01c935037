//! The lock that is one node.

use std::time::Duration;

use zebu_recipes::{LossReason, Ownership, SimpleLock};

use crate::fault::Fault;
use crate::rig::{BREAKS, Register, Rig, at_every_step, children, client, server, soon, until_children};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let path = format!("{}/lock", rig.path);
        let first = SimpleLock::new(&rig.other, &path).acquire().await.expect("the lock");
        let lock = SimpleLock::new(&rig.victim, &path).identity("victim");
        assert!(lock.try_acquire().await.expect("an answer").is_none());
        let token = first.token();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        first.release().await.expect("released");
        let second = waiting.await.expect("no panic").expect("the lock");
        assert!(second.token() > token);
        assert_eq!(second.verify().await, Ok(()));
        assert_eq!(&rig.other.get(&path).await.expect("a node").data[..], b"victim");
        second.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_while_the_parent_is_made() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let lock = SimpleLock::new(&rig.victim, &format!("{}/lock", rig.path));
        lock.acquire().await.expect("the lock").release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request() {
    at_every_step(&[Fault::Expire], &[""], async |rig: &Rig| {
        let path = format!("{}/lock", rig.path);
        let register = Register::create(&rig.other, &format!("{}-register", rig.path)).await;
        let guard = SimpleLock::new(&rig.victim, &path).acquire().await.expect("the lock");
        register.write(&guard).await;
        // Whatever the first one does now, it must not touch the node of the second.
        let next = SimpleLock::new(&rig.other, &path);
        if let Some(next) = next.try_acquire().await.expect("an answer") {
            assert!(rig.plan.has_fired());
            assert!(!register.write(&guard).await);
            guard.release().await.expect("released");
            assert!(register.write(&next).await);
            assert_eq!(next.verify().await, Ok(()));
            next.release().await.expect("released");
        } else {
            guard.release().await.expect("released");
        }
        register.check();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_may_be_dropped_at_every_request() {
    at_every_step(&[Fault::Hold], &[""], async |rig: &Rig| {
        let lock = SimpleLock::new(&rig.victim, &format!("{}/lock", rig.path));
        let whole = async { lock.acquire().await.expect("the lock").release().await.expect("released") };
        tokio::select! {
            () = whole => {}
            () = rig.plan.fires() => {}
        }
        rig.plan.go_on();
        rig.victim.sync("/").await.expect("the connection lives");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_excludes_contenders_with_only_the_one_node() {
    let server = server().await;
    let client = client(&server).await;
    client.create("/lock").ephemeral().await.expect("created");
    let lock = SimpleLock::new(&client, "/lock");
    assert!(lock.try_acquire().await.expect("an answer").is_none());
    assert!(lock.acquire_within(Duration::from_millis(20)).await.expect("an answer").is_none());
    client.delete("/lock").await.expect("deleted");
    let guard = soon(lock.acquire()).await.expect("the lock");
    client.delete("/lock").await.expect("deleted");
    assert_eq!(soon(guard.lost()).await, LossReason::NodeDeleted);
    drop(guard);
    until_children(&client, "/", 1).await;
    assert_eq!(children(&client, "/").await, ["zookeeper"]);
}
