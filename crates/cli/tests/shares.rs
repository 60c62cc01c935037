//! Which member has which clients: a leader without any, and members that send some to the others.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::process::Command;
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use zebu_client::Client;
use zebu_testing::four_letter;

fn until<T>(ensemble: &Ensemble, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sessions that are connected to a member.
fn connected(ensemble: &Ensemble, index: usize) -> usize {
    let text = four_letter::ask(ensemble.clients[index], "cons", TIME_LIMIT).unwrap();
    text.lines().filter(|line| line.contains("sid=0x")).count()
}

#[test]
fn a_leader_that_does_not_serve_leaves_its_clients_to_the_others() {
    let ensemble = Ensemble::start_with(3, "initLimit=20\nleaderServes=no");
    let leader = ensemble.await_leader(3);
    let list: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    block_on(async {
        let mut clients = Vec::new();
        for number in 0..6 {
            let client = Client::connect(&list.join(",")).await.unwrap();
            client.create(&format!("/{number}")).await.unwrap();
            clients.push(client);
        }
        assert_eq!(connected(&ensemble, leader), 0);
        let others: usize = (0..3).map(|index| connected(&ensemble, index)).sum();
        assert_eq!(others, 6);
        let address = ensemble.clients[leader].to_string();
        let alone = tokio::time::timeout(Duration::from_secs(2), Client::connect(&address)).await;
        assert!(!matches!(alone, Ok(Ok(_))), "the leader took a client");
    });
}

#[test]
fn crowded_members_send_clients_to_the_others() {
    const CLIENTS: usize = 30;
    let mut ensemble = Ensemble::start_with(3, "initLimit=20\n4lw.commands.whitelist=srvr,mntr,cons,shed");
    ensemble.await_leader(3);
    let list: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    let rebalance = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        let output =
            command.args(["rebalance", "--json"]).args(arguments).arg(list.join(",")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    block_on(async {
        // The last one is restarted: its clients are at the others, and stay there.
        ensemble.kill(2);
        ensemble.await_leader(2);
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let client = Client::connect(&list.join(",")).await.unwrap();
            client.create(&format!("/{number}")).ephemeral().await.unwrap();
            clients.push(client);
        }
        ensemble.run(2);
        ensemble.await_leader(3);
        let sessions: Vec<_> = clients.iter().map(|client| client.session().id).collect();
        assert_eq!(
            (connected(&ensemble, 0) + connected(&ensemble, 1), connected(&ensemble, 2)),
            (CLIENTS, 0)
        );
        let planned = rebalance(&["--dry-run"]);
        assert!((0..2).any(|index| planned["servers"][index]["percentage"] != 0), "{planned}");
        assert_eq!(connected(&ensemble, 2), 0, "a dry run does nothing");
        until(&ensemble, || {
            let report = rebalance(&[]);
            let crowded = (0..3).any(|index| report["servers"][index]["percentage"] != 0);
            (!crowded).then_some(())
        });
        for index in 0..3 {
            let count = until(&ensemble, || Some(connected(&ensemble, index)).filter(|count| *count > 0));
            assert!(count <= 12, "{count} clients at {index}");
        }
        for (number, client) in clients.iter().enumerate() {
            assert!(client.exists(&format!("/{number}")).await.unwrap().is_some(), "ephemeral {number}");
        }
        assert_eq!(clients.iter().map(|client| client.session().id).collect::<Vec<_>>(), sessions);
    });
}
