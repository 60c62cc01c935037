//! Random faults for every kind of recipe: never two holders by their own clocks, rising tokens, no lost or
//! repeated item beyond the guarantee, no waiter without an end, no node left.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{
    AtomicLong, CommitCoordinator, CommitDecision, CommitParticipant, CommitProtocol, CommitVote,
    DistributedQueue, DoubleBarrier, GroupMember, LeaderLatch, LeaderSelector, Leadership, LockLayout, Mutex,
    Ownership, PersistentNode, QueueOrder, RecipeError, RwLock, Semaphore, SemaphoreLayout, SimpleLock,
};

use crate::checks::{HolderChecker, run_contenders, until_empty};
use crate::for_each_seed;
use crate::server::{FaultKinds, TIMEOUT};

#[test]
fn a_mutex_has_one_holder() {
    for layout in [LockLayout::Curator, LockLayout::Kazoo, LockLayout::Go] {
        for_each_seed(FaultKinds::Silence, async |server, clients| {
            let holders = HolderChecker::default();
            run_contenders(clients, async |client, _| {
                let guard = Mutex::new(client, "/lock").layout(layout).acquire().await.expect("the lock");
                holders.hold(client, &guard, 1).await;
                guard.release().await.expect("released");
            })
            .await;
            holders.check_tokens();
            until_empty(server, "/lock").await;
        });
    }
}

#[test]
fn a_timeout_leaves_no_node() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let holders = HolderChecker::default();
        run_contenders(clients, async |client, number| {
            let timeout = Duration::from_secs(1 + number as u64);
            let mutex = Mutex::new(client, "/lock");
            if let Some(guard) = mutex.acquire_within(timeout).await.expect("an answer") {
                holders.hold(client, &guard, 1).await;
                // Dropped, not released.
            }
        })
        .await;
        until_empty(server, "/lock").await;
    });
}

#[test]
fn writers_are_alone_and_may_go_on_as_readers() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let writers = HolderChecker::default();
        run_contenders(clients, async |client, number| {
            let lock = RwLock::new(client, "/lock");
            if number % 2 == 0 {
                let reader = lock.read().await.expect("the lock");
                if reader.check().is_ok() {
                    writers.check(0);
                }
                reader.release().await.expect("released");
                return;
            }
            let writer = lock.write().await.expect("the lock");
            writers.hold(client, &writer, 1).await;
            match writer.downgrade().await {
                Ok(reader) => reader.release().await.expect("released"),
                Err(RecipeError::Lost { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        })
        .await;
        writers.check_tokens();
        until_empty(server, "/lock").await;
    });
}

#[test]
fn a_semaphore_has_as_many_holders_as_permits() {
    for (layout, leases) in [(SemaphoreLayout::Curator, "/limit/leases"), (SemaphoreLayout::Kazoo, "/limit")]
    {
        for_each_seed(FaultKinds::Silence, async |server, clients| {
            let holders = HolderChecker::default();
            run_contenders(clients, async |client, _| {
                let semaphore = Semaphore::new(client, "/limit", 2).layout(layout);
                let permit = semaphore.acquire().await.expect("a permit");
                holders.hold(client, &permit, 2).await;
                permit.release().await.expect("released");
            })
            .await;
            until_empty(server, leases).await;
        });
    }
}

#[test]
fn a_simple_lock_has_one_holder() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let holders = HolderChecker::default();
        run_contenders(clients, async |client, _| {
            let guard = SimpleLock::new(client, "/locks/one").acquire().await.expect("the lock");
            holders.hold(client, &guard, 1).await;
            guard.release().await.expect("released");
        })
        .await;
        holders.check_tokens();
        until_empty(server, "/locks").await;
    });
}

#[test]
fn an_election_has_one_leader() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let holders = HolderChecker::default();
        run_contenders(clients, async |client, number| {
            let latch = LeaderLatch::join(client, "/election", number.to_string());
            let leadership = latch.lead().await.expect("leads");
            holders.hold(client, &leadership, 1).await;
            latch.leave().await.expect("left");
        })
        .await;
        holders.check_tokens();
        until_empty(server, "/election").await;
    });
}

#[test]
fn a_selector_that_is_dropped_leaves_neither_its_place_nor_its_acknowledgement() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let holders = HolderChecker::default();
        run_contenders(clients, async |client, number| {
            let selector = LeaderSelector::new(client, "/jobs/leader", number.to_string());
            let work = |leadership: Leadership| {
                let holders = holders.clone();
                async move {
                    holders.record(&leadership);
                    holders.check(1);
                    // The leadership may end at the same moment.
                    let _ = leadership.acknowledge().await;
                    holders.check(1);
                    std::future::pending::<ControlFlow<()>>().await
                }
            };
            let limit = Duration::from_millis(400 * (number as u64 + 1));
            assert!(tokio::time::timeout(limit, selector.run(work)).await.is_err());
        })
        .await;
        server.stop_faults();
        while server.state().tree.node("/jobs/leader-leader").is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        until_empty(server, "/jobs").await;
    });
}

#[test]
fn members_of_a_double_barrier_get_through() {
    for_each_seed(FaultKinds::Cuts, async |server, clients| {
        let member = async |client: &Client| {
            let barrier = DoubleBarrier::new(client, "/round", NonZeroU32::new(3).expect("three"));
            let entered = barrier.enter().await.expect("entered");
            tokio::time::sleep(Duration::from_millis(100)).await;
            entered.leave().await.expect("left");
        };
        tokio::join!(member(&clients[0]), member(&clients[1]), member(&clients[2]));
        server.stop_faults();
        while server.children("/round").iter().any(|name| name != "ready") {
            tokio::time::sleep(TIMEOUT).await;
        }
    });
}

#[test]
fn a_counter_counts_once() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let (sure, unknown) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run_contenders(clients, async |client, _| {
            let counter = AtomicLong::new(client, "/counter").attempts(1000);
            match counter.increment().await {
                Ok(_) => sure.fetch_add(1, Ordering::SeqCst),
                Err(RecipeError::Unknown { .. }) => unknown.fetch_add(1, Ordering::SeqCst),
                Err(error) => panic!("{error}"),
            };
        })
        .await;
        server.stop_faults();
        let value = AtomicLong::new(&clients[0], "/counter").get().await.expect("a number");
        let (sure, unknown) = (sure.into_inner(), unknown.into_inner());
        let value = usize::try_from(value).expect("not negative");
        assert!((sure..=sure + unknown).contains(&value), "{sure} sure, {unknown} unknown, {value} counted");
    });
}

#[test]
fn a_queue_loses_and_doubles_nothing() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let (pushed, doubtful) = (StdMutex::new(BTreeSet::new()), StdMutex::new(BTreeSet::new()));
        let next = AtomicUsize::new(0);
        run_contenders(clients, async |client, _| {
            let item = format!("{}", next.fetch_add(1, Ordering::SeqCst));
            let queue = DistributedQueue::new(client, "/queue", QueueOrder::Fifo);
            match queue.push(item.clone()).await {
                Ok(()) => pushed.lock().expect("not poisoned").insert(item),
                Err(RecipeError::Unknown { .. }) => doubtful.lock().expect("not poisoned").insert(item),
                Err(error) => panic!("{error}"),
            };
        })
        .await;
        let (pushed, doubtful) = (pushed.into_inner().expect("fine"), doubtful.into_inner().expect("fine"));
        let finished = StdMutex::new(Vec::new());
        let lost_pops = AtomicUsize::new(0);
        let consume = async |client: &Client, lease: bool| {
            let queue = DistributedQueue::new(client, "/queue", QueueOrder::Fifo);
            while !server.children("/queue").is_empty() {
                let wait = Duration::from_secs(30);
                if !lease {
                    match queue.pop_within(wait).await {
                        Ok(Some(entry)) => finished.lock().expect("not poisoned").push(entry.data()),
                        Ok(None) => {}
                        Err(RecipeError::Unknown { .. }) => {
                            lost_pops.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    continue;
                }
                let Some(delivery) = queue.lease_within(wait).await.expect("an answer") else { continue };
                let data = delivery.item().data();
                match delivery.finish().await {
                    Ok(()) => finished.lock().expect("not poisoned").push(data),
                    Err(RecipeError::Lost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        // All consumers lease, or none does: the two kinds do not exclude each other.
        let lease = clients[0].session().id.0 % 2 == 0;
        tokio::join!(consume(&clients[0], lease), consume(&clients[1], lease), consume(&clients[2], lease));
        let finished: Vec<String> = finished
            .into_inner()
            .expect("fine")
            .iter()
            .map(|data| String::from_utf8_lossy(data).into_owned())
            .collect();
        let once: BTreeSet<String> = finished.iter().cloned().collect();
        // Two consumers may both report a leased item as finished, if a session ends with the reply.
        assert!(lease || once.len() == finished.len(), "nothing twice");
        assert!(once.iter().all(|item| pushed.contains(item) || doubtful.contains(item)));
        let missing = pushed.difference(&once).count();
        assert!(missing <= lost_pops.into_inner(), "{missing} lost");
    });
}

#[test]
fn what_is_kept_is_there_in_the_end() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let mut nodes = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let member = GroupMember::join(client, "/group", &number.to_string(), "1").await.expect("joined");
            nodes.push((member, PersistentNode::start(client, &format!("/kept/{number}"), "1")));
        }
        for round in 2..6 {
            for (member, node) in &nodes {
                member.set(round.to_string()).await.expect("set");
                node.set(round.to_string()).await.expect("set");
            }
        }
        server.stop_faults();
        for (member, node) in &nodes {
            // The nodes are created again after the last lost session.
            while member.members().len() < 3 || !member.is_synced() || server.children("/kept").len() < 3 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            node.wait_present().await.expect("there");
            assert!(member.failure().is_none());
        }
        for (member, node) in nodes {
            member.leave().await.expect("left");
            node.remove().await.expect("removed");
        }
        until_empty(server, "/group").await;
        until_empty(server, "/kept").await;
    });
}

#[test]
fn all_sites_hear_the_same_decision() {
    const SITES: [&str; 3] = ["a", "b", "c"];
    for form in
        [CommitProtocol::AllWatchVotes, CommitProtocol::CoordinatorAnnounces, CommitProtocol::EphemeralVotes]
    {
        for_each_seed(FaultKinds::Expiry, async |server, clients| {
            let timeout = Duration::from_secs(60);
            let proposed = CommitCoordinator::propose(&clients[0], "/app/tx", form, &SITES, "").await;
            let coordinator = proposed.expect("proposed");
            let site = async |number: usize| {
                let joined = CommitParticipant::join(&clients[number], "/app/tx", SITES[number]).await;
                let site = joined.expect("joined").vote_timeout(timeout);
                site.vote(CommitVote::Commit).await.expect("voted");
                let decision = site.decision().await.expect("told");
                site.acknowledge().await.expect("acknowledged");
                decision
            };
            let (decided, a, b, c) =
                tokio::join!(coordinator.decide_within(timeout), site(0), site(1), site(2));
            let decided: CommitDecision = decided.expect("decided");
            assert_eq!([a, b, c], [decided; 3]);
            coordinator.finish().await.expect("cleared away");
            until_empty(server, "/app").await;
        });
    }
}
