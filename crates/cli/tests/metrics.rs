//! The values of `mntr` move with the events that they measure, in real server processes.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;
#[path = "common/ensemble.rs"]
mod processes;

use std::time::{Duration, Instant};

use common::{auth_body, create, done, monitored, open, path_and_watch, refused, server, set_data_body};
use processes::{Ensemble, TIME_LIMIT, block_on};
use zebu_proto::{ErrorCode, OpCode};
use zebu_testing::four_letter;

#[test]
fn requests_watches_namespaces_and_failures_are_counted() {
    let server = server().start().unwrap();
    let (mut client, _) = open(&server);
    create(&mut client, "/app", b"12345");
    done(&mut client, OpCode::GetData, path_and_watch("/app", true));
    done(&mut client, OpCode::SetData, set_data_body("/app", b"123", -1));
    for (key, least) in [
        ("cnt_updatelatency", 2),
        ("cnt_readlatency", 1),
        ("cnt_fsynctime", 3),
        ("commit_count", 3),
        ("sync_processor_request_queued", 3),
        ("cnt_propagation_latency", 3),
        ("cnt_prep_processor_queue_time_ms", 2),
        ("outstanding_changes_queued", 2),
        ("sum_node_changed_watch_count", 1),
        ("watch_bytes", 30),
        ("response_bytes", 60),
        ("cnt_dbinittime", 1),
    ] {
        assert!(monitored(&server, key) >= least, "{key}: {}", monitored(&server, key));
    }
    assert_eq!(monitored(&server, "sum_app_write_per_namespace"), 4 + 5 + 4 + 3);
    assert_eq!(monitored(&server, "sum_app_read_per_namespace"), 4 + 5);
    assert_eq!(monitored(&server, "looking_count"), 0);
    assert_eq!(refused(&mut client, OpCode::Auth, auth_body("nonsense", b"x")), Some(ErrorCode::AuthFailed));
    assert_eq!(monitored(&server, "auth_failed_count"), 1);
    four_letter::ask(server.address(), "srst", TIME_LIMIT).unwrap();
    assert_eq!(monitored(&server, "cnt_updatelatency"), 0);
}

#[test]
fn elections_acks_and_learners_are_counted() {
    let ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[leader]).await;
        client.create("/x").await.unwrap();
        client.close().await.unwrap();
    });
    let value = |server: usize, key: &str| -> f64 {
        let text = four_letter::ask(ensemble.clients[server], "mntr", TIME_LIMIT).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
        line.unwrap_or_else(|| panic!("mntr has no {key}:\n{text}")).parse().unwrap()
    };
    let follower = (0..3).find(|server| *server != leader).unwrap();
    for server in [leader, follower] {
        assert!(value(server, "looking_count") >= 1.0);
        assert!(value(server, "cnt_election_time") >= 1.0);
        assert!(value(server, "cnt_unavailable_time") >= 1.0);
    }
    assert!(value(leader, "cnt_quorum_ack_latency") >= 1.0);
    assert!(value(leader, "proposal_count") >= 1.0);
    assert!(value(follower, "cnt_follower_sync_time") >= 1.0);
    // The other follower may have made the quorum of the write alone.
    let deadline = Instant::now() + TIME_LIMIT;
    let ack_latency = format!("cnt_{}_ack_latency", follower + 1);
    for (server, key) in [
        (follower, "learner_proposal_received_count"),
        (follower, "cnt_commit_propagation_latency"),
        (leader, &ack_latency),
    ] {
        while value(server, key) < 1.0 {
            assert!(Instant::now() < deadline, "{key} of server {server} stays 0");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // collectd looks no further.
    let text = four_letter::ask(ensemble.clients[leader], "mntr", TIME_LIMIT).unwrap();
    let (first, _) = text.split_at(4096);
    for key in [
        "synced_followers",
        "pending_syncs",
        "last_proposal_size",
        "max_file_descriptor_count",
        "quorum_size",
    ] {
        assert!(first.contains(&format!("zk_{key}\t")), "{key} is not among the first values:\n{text}");
    }
}
