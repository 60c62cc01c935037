//! Nodes that are kept, groups, parties and partitioners: there whenever they should be, gone afterwards.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::{Acl, Client, ErrorCode, Permissions, SessionId};
use zebu_recipes::{
    AcquiredPartition, GroupMember, IfOwnedByOther, Partitioner, Party, PartyLayout, PersistentNode,
    PersistentNodeMode, RecipeError, TtlNode,
};
use zebu_testing::TestServer;

use crate::fault::Fault;
use crate::rig::{Rig, at_every_step, children, client, server, soon, until_children};

const FAULTS: [Fault; 4] = [Fault::CutBefore, Fault::CutAfter, Fault::Kill, Fault::Expire];

async fn until_data(client: &Client, path: &str, data: &str) {
    soon(async {
        loop {
            match client.get(path).await {
                Ok(node) if node.data == data => return,
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_kept_node() {
    for kind in [PersistentNodeMode::Ephemeral, PersistentNodeMode::Persistent] {
        at_every_step(&FAULTS, &[""], async |rig: &Rig| {
            let path = format!("{}/{kind:?}", rig.path);
            let node = PersistentNode::start_with(&rig.victim, &path, "1", kind, IfOwnedByOther::Wait);
            node.wait_present().await.expect("there");
            until_data(&rig.other, &path, "1").await;
            node.set("2").await.expect("set");
            until_data(&rig.other, &path, "2").await;
            let delete = rig.other.delete(&path).quiet().await;
            delete.expect("deleted by somebody else");
            until_data(&rig.other, &path, "2").await;
            node.remove().await.expect("removed");
            if kind == PersistentNodeMode::Persistent {
                assert!(rig.other.exists(&path).await.expect("an answer").is_none());
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_node_belongs_to_the_present_session() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let node = PersistentNode::start(&one, "/g/m", "1");
    node.wait_present().await.expect("there");
    for _ in 0..3 {
        let former = one.session().id;
        server.expire(former).await.expect("expired");
        soon(async {
            loop {
                let stat = two.exists("/g/m").await.expect("an answer");
                if stat.is_some_and(|stat| SessionId(stat.ephemeral_owner) == one.session().id)
                    && one.session().id != former
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
    server.kill().await.expect("killed");
    server.restart().await.expect("started again");
    node.set("2").await.expect("set");
    until_data(&two, "/g/m", "2").await;
    drop(node);
    until_children(&two, "/g", 0).await;
    one.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_waited_for_or_replaced_once() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = PersistentNode::start(&one, "/g/m", "first");
    first.wait_present().await.expect("there");
    let second = PersistentNode::start_with(
        &two,
        "/g/m",
        "second",
        PersistentNodeMode::Ephemeral,
        IfOwnedByOther::Replace,
    );
    second.wait_present().await.expect("there");
    until_data(&one, "/g/m", "second").await;
    // The first one knows, and does not fight for it.
    soon(first.wait_missing()).await.expect("an answer");
    assert!(!first.is_present());
    second.remove().await.expect("removed");
    soon(first.wait_present()).await.expect("there again");
    until_data(&two, "/g/m", "first").await;
    let third = PersistentNode::start(&two, "/g/m", "third");
    assert!(tokio::time::timeout(Duration::from_millis(50), third.wait_present()).await.is_err());
    first.remove().await.expect("removed");
    soon(third.wait_present()).await.expect("there");
    third.remove().await.expect("removed");
    until_children(&one, "/g", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_a_closed_client_are_reported() {
    let server = server().await;
    let one = client(&server).await;
    one.create("/e").ephemeral().await.expect("created");
    let node = PersistentNode::start(&one, "/e/below-an-ephemeral", "");
    assert!(matches!(soon(node.wait_present()).await, Err(RecipeError::Client(_))));
    assert!(node.failure().is_some());
    let node = PersistentNode::start(&one, "/n", "");
    node.wait_present().await.expect("there");
    one.close().await.expect("closed");
    soon(async {
        while node.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_node_is_touched_and_comes_back() {
    let server = TestServer::builder()
        .property("znode.container.checkIntervalMs", "50")
        .start()
        .await
        .expect("a server");
    let (one, two) = (client(&server).await, client(&server).await);
    let node = TtlNode::start(&one, "/t/node", Duration::from_millis(100), "x");
    node.wait_present().await.expect("there");
    let touched = async |at_least: i32| {
        soon(async {
            loop {
                let stat = two.exists("/t/node/touch").await.expect("an answer");
                if stat.is_some_and(|stat| stat.version >= at_least) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    };
    touched(3).await;
    server.cut(one.session().id);
    server.expire(one.session().id).await.expect("expired");
    two.delete("/t/node").recursive().await.expect("deleted");
    touched(3).await;
    until_data(&two, "/t/node", "x").await;
    node.set("y").await.expect("set");
    until_data(&two, "/t/node", "y").await;
    // It outlives its keeper, and not for ever.
    drop(node);
    until_children(&two, "/t", 0).await;
    let node = TtlNode::start(&one, "/t/node", Duration::from_secs(600), "x");
    node.wait_present().await.expect("there");
    node.remove().await.expect("removed");
    assert!(children(&two, "/t").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_member() {
    at_every_step(&FAULTS, &["/group"], async |rig: &Rig| {
        let path = format!("{}/group", rig.path);
        let other = GroupMember::join(&rig.other, &path, "other", "1").await.expect("a member");
        let victim = GroupMember::join(&rig.victim, &path, "victim", "1").await.expect("a member");
        let names = |member: &GroupMember| member.members().into_keys().collect::<Vec<_>>();
        let until = async |member: &GroupMember, wanted: &[&str]| {
            while names(member) != wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        until(&other, &["other", "victim"]).await;
        until(&victim, &["other", "victim"]).await;
        victim.set("2").await.expect("set");
        while other.members().get("victim").is_none_or(|data| data != "2") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        victim.leave().await.expect("left");
        until(&other, &["other"]).await;
        other.leave().await.expect("left");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_party() {
    for layout in [PartyLayout::Full, PartyLayout::Shallow] {
        at_every_step(&FAULTS, &["/party"], async |rig: &Rig| {
            let path = format!("{}/party", rig.path);
            let party = Party::new(&rig.victim, &path).layout(layout);
            let (one, two) = (party.join("a").await, party.join("b-c").await);
            let (one, two) = (one.expect("a member"), two.expect("a member"));
            // After a lost session they come back one after the other.
            loop {
                let mut members = party.members().await.expect("members");
                members.sort();
                if members == ["a", "b-c"] && party.count().await.expect("a count") == 2 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            one.leave().await.expect("left");
            drop(two);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parties_of_two_layouts_are_refused() {
    let server = server().await;
    let one = client(&server).await;
    let full = Party::new(&one, "/party");
    let member = full.join("a").await.expect("a member");
    let shallow = Party::new(&one, "/party").layout(PartyLayout::Shallow);
    assert!(matches!(shallow.members().await, Err(RecipeError::LayoutConflict { .. })));
    assert!(matches!(shallow.join("b").await, Err(RecipeError::LayoutConflict { .. })));
    member.leave().await.expect("left");
    assert!(matches!(shallow.join("b/c").await, Err(RecipeError::Invalid(_))));
    let member = shallow.join("b").await.expect("a member");
    assert!(matches!(full.count().await, Err(RecipeError::LayoutConflict { .. })));
    drop(member);
    until_children(&one, "/party", 0).await;
}

const ITEMS: [&str; 5] = ["a", "b", "c", "d", "e"];

async fn partitioner(client: &Client, path: &str, name: &str) -> Partitioner {
    let joined = Partitioner::join(client, path, name, ITEMS).await.expect("joined");
    joined.time_boundary(Duration::from_millis(30))
}

/// Takes shares and gives them back when they change, until everything has an owner.
async fn keep(partitioner: &Partitioner, own: usize, held: &[AtomicUsize; 2]) -> AcquiredPartition {
    loop {
        let share = partitioner.acquire().await.expect("a share");
        held[own].store(share.items().len(), Ordering::SeqCst);
        let all_held = async {
            let count = |at: usize| held[at].load(Ordering::SeqCst);
            while count(0) == 0 || count(1) == 0 || count(0) + count(1) != ITEMS.len() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            biased;
            () = share.changed() => held[own].store(0, Ordering::SeqCst),
            () = all_held => return share,
        }
        share.release().await.expect("released");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_partitioner() {
    at_every_step(&FAULTS, &["/p/party", "/p/locks/a", "/p/locks/b"], async |rig: &Rig| {
        let path = format!("{}/p", rig.path);
        let other = partitioner(&rig.other, &path, "x").await;
        let all = other.acquire().await.expect("a share");
        assert_eq!(all.items(), ITEMS);
        let victim = partitioner(&rig.victim, &path, "y").await;
        all.changed().await;
        all.release().await.expect("released");
        // Both ask until both hold what adds up to everything.
        let held = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let (left, right) = tokio::join!(keep(&other, 0, &held), keep(&victim, 1, &held));
        let whole: BTreeSet<&String> = left.items().iter().chain(right.items()).collect();
        assert_eq!(whole.len(), ITEMS.len(), "nothing is shared");
        victim.leave().await.expect("left");
        other.leave().await.expect("left");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_session_held_goes_to_the_others() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (left, right) = (partitioner(&one, "/p", "x").await, partitioner(&two, "/p", "y").await);
    let (first, second) = tokio::join!(soon(left.acquire()), soon(right.acquire()));
    let (first, second) = (first.expect("a share"), second.expect("a share"));
    assert_eq!((first.items().len(), second.items().len()), (3, 2));
    server.pause(one.session().id).await;
    server.expire(one.session().id).await.expect("expired");
    // A share may also change because its client had to connect again on a busy machine.
    let mut all = second;
    while all.items() != ITEMS {
        soon(all.changed()).await;
        all.release().await.expect("released");
        all = soon(right.acquire()).await.expect("a share");
    }
    server.resume(one.session().id).await;
    soon(first.changed()).await;
    drop(first);
    // The lost one is back.
    soon(all.changed()).await;
    drop(all);
    let (first, second) = tokio::join!(soon(left.acquire()), soon(right.acquire()));
    let (first, second) = (first.expect("a share"), second.expect("a share"));
    assert_eq!((first.items().len(), second.items().len()), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_node_that_cannot_be_touched_says_so() {
    let server = TestServer::builder()
        .property("znode.container.checkIntervalMs", "50")
        .start()
        .await
        .expect("a server");
    let other = client(&server).await;
    other.ensure_path("/reports").await.expect("created");
    let acl = [Acl::new(Permissions::READ | Permissions::WRITE, "world", "anyone")];
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let one = builder.default_acl(acl).connect().await.expect("a session");
    let node = TtlNode::start(&one, "/reports/a", Duration::from_millis(200), "x");
    soon(async {
        while node.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let is_refused = |result: &Result<(), RecipeError>| matches!(result, Err(RecipeError::Client(error)) if error.code() == Some(ErrorCode::NoAuth));
    let there = soon(node.wait_present()).await;
    assert!(is_refused(&there), "{there:?}");
    let set = soon(node.set("y")).await;
    assert!(is_refused(&set), "{set:?}");
    // It goes after its TTL, and does not come back.
    soon(async {
        while node.is_present() || other.exists("/reports/a").await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_identifiers_are_counted_as_kazoo_counts_them() {
    let server = server().await;
    let one = client(&server).await;
    let items = ["a", "b", "c", "d", "e"];
    let settle = Duration::from_millis(50);
    let join = async |name: &str| {
        Partitioner::join(&one, "/shards", name, items).await.expect("joined").time_boundary(settle)
    };
    let (_first, _second, third) = (join("x").await, join("x").await, join("y").await);
    let share = soon(third.acquire()).await.expect("a share");
    assert_eq!(share.items(), ["c"]);
    share.release().await.expect("released");
}
