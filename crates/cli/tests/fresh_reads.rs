//! Reads that state their freshness, on real server processes: linearizable reads through every member, also
//! after the loss of a leader; paths that are linearizable for every client; the shell.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::process::Command;
use std::time::Duration;

use processes::{Ensemble, TIME_LIMIT, block_on};
use zebu_client::{Client, ErrorCode};
use zebu_testing::four_letter;

const ROUNDS: usize = 30;

fn metric(ensemble: &Ensemble, index: usize, key: &str) -> i64 {
    let monitor = four_letter::ask(ensemble.clients[index], "mntr", TIME_LIMIT).unwrap();
    let line = monitor.lines().find_map(|line| line.strip_prefix(&format!("zk_{key}\t")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {key} in {monitor}"))
}

/// Writes through one member after another; each read through each other member shows the last write.
async fn write_and_read(clients: &[Client], rounds: usize) {
    for round in 0..rounds {
        let value = format!("{round}");
        clients[round % clients.len()].set("/a", value.clone()).await.unwrap();
        for client in clients {
            let node = client.get("/a").linearizable().await.unwrap();
            assert_eq!(node.data.as_ref(), value.as_bytes());
        }
    }
}

#[test]
fn linearizable_reads_through_every_member_also_after_the_loss_of_the_leader() {
    let mut ensemble =
        Ensemble::start_as(&["participant", "participant", "participant", "observer"], "initLimit=20");
    let leader = ensemble.await_leader(4);
    block_on(async {
        let mut clients = Vec::new();
        for index in 0..4 {
            clients.push(ensemble.client(&[index]).await);
        }
        clients[0].create("/a").await.unwrap();
        write_and_read(&clients, ROUNDS).await;
        let near = clients[3].get("/a").fresher_than(Duration::from_secs(600)).await.unwrap();
        assert_eq!(near.data.as_ref(), format!("{}", ROUNDS - 1).as_bytes());
        for client in clients {
            client.close().await.unwrap();
        }
    });
    assert!((0..4).all(|index| metric(&ensemble, index, "fenced_reads") >= ROUNDS as i64));
    ensemble.kill(leader);
    ensemble.await_leader(3);
    block_on(async {
        let mut clients = Vec::new();
        for index in (0..4).filter(|index| *index != leader) {
            clients.push(ensemble.client(&[index]).await);
        }
        write_and_read(&clients, ROUNDS).await;
        for client in clients {
            client.close().await.unwrap();
        }
    });
}

#[test]
fn a_read_waits_for_the_zxid_that_a_writer_has_told() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    block_on(async {
        let writer = ensemble.client(&[0]).await;
        let reader = ensemble.client(&[1]).await;
        writer.create("/a").await.unwrap();
        for round in 0..ROUNDS {
            let stat = writer.set("/a", format!("{round}")).await.unwrap();
            let node = reader.get("/a").at_least(stat.mzxid).await.unwrap();
            assert!(node.stat.mzxid >= stat.mzxid);
        }
        let never = i64::MAX;
        let error = reader.get("/a").at_least(never).retry(zebu_client::Retry::Never).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::OperationTimeout));
        reader.close().await.unwrap();
        writer.close().await.unwrap();
    });
}

#[test]
fn paths_in_the_configuration_are_linearizable_for_every_client() {
    let ensemble = Ensemble::start_with(3, "initLimit=20\nlinearizable.paths=/locks,/config");
    let leader = ensemble.await_leader(3);
    let follower = (leader + 1) % 3;
    block_on(async {
        let writer = ensemble.client(&[leader]).await;
        let reader = ensemble.client(&[follower]).await;
        writer.create("/config").await.unwrap();
        for round in 0..ROUNDS {
            let value = format!("{round}");
            writer.set("/config", value.clone()).await.unwrap();
            // A plain getData, as every client sends it.
            assert_eq!(reader.get("/config").await.unwrap().data.as_ref(), value.as_bytes());
        }
        reader.close().await.unwrap();
        writer.close().await.unwrap();
    });
    assert!(metric(&ensemble, follower, "fenced_reads") >= ROUNDS as i64);
}

#[test]
fn the_shell_reads_with_the_flag() {
    let ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let server = ensemble.clients[(leader + 1) % 3].to_string();
    let shell = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["shell", "--server", &server])
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    shell(&["create", "/a", "hello"]);
    assert!(shell(&["get", "-l", "/a"]).contains("hello"));
    assert!(shell(&["ls", "-l", "/"]).contains("[a, zookeeper]"));
    assert!(shell(&["get", "/zookeeper/zebu"]).contains("features=min_zxid,linear,max_age"));
}
