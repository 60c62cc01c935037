//! Servers that start with a proposed configuration in their files: real server processes, files made by
//! hand.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod ensemble;

use std::fs;
use std::time::{Duration, Instant};

use ensemble::{Ensemble, TIME_LIMIT, block_on};

impl Ensemble {
    fn voter(&self, index: usize) -> String {
        let ([quorum, election], client) = (self.ports[index], self.clients[index]);
        format!("server.{}=127.0.0.1:{quorum}:{election}:participant;{client}", index + 1)
    }

    fn propose_by_hand(&self, index: usize, voters: &[usize], version: &str) {
        let lines: Vec<String> = voters.iter().map(|&voter| self.voter(voter)).collect();
        let text = format!("{}\nversion={version}\n", lines.join("\n"));
        fs::write(self.home.path().join(format!("zoo{index}.cfg.dynamic.next")), text).unwrap();
    }

    fn has_files_of_version(&self, index: usize, version: &str) -> bool {
        let text = fs::read_to_string(self.home.path().join(format!("zoo{index}.cfg"))).unwrap();
        text.lines().any(|line| line.starts_with("dynamicConfigFile=") && line.ends_with(version))
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + TIME_LIMIT;
        while !holds() {
            assert!(Instant::now() < deadline, "{what} did not happen\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Voters 1 and 2 and observer 3; the proposed configuration has the voters 3 and 4.
#[test]
fn an_observer_is_a_voter_of_the_proposed_configuration() {
    let roles = ["participant", "participant", "observer", "participant"];
    let mut ensemble = Ensemble::prepare_as(&roles, "initLimit=6\nreconfigEnabled=true\nskipACL=yes");
    (0..3).for_each(|index| ensemble.configure(index, &[0, 1, 2]));
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[0, 1]).await;
        client.create("/kept").data(&b"1"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    for index in 0..3 {
        ensemble.until("the first version", || ensemble.has_files_of_version(index, ".100000000"));
        ensemble.kill(index);
        ensemble.propose_by_hand(index, &[2, 3], "200000000");
    }
    (0..4).for_each(|index| ensemble.run(index));
    for index in 0..4 {
        ensemble.until("the proposed version", || ensemble.has_files_of_version(index, ".200000000"));
    }
    ensemble.until("service of all four", || (0..4).all(|index| ensemble.mode(index).is_some()));
    let leads = |index| ensemble.mode(index).as_deref() == Some("leader");
    ensemble
        .until("a leader among the new voters", || [2, 3].iter().filter(|&&index| leads(index)).count() == 1);
    block_on(async {
        let client = ensemble.client(&[2, 3]).await;
        assert_eq!(client.get("/kept").await.unwrap().data.as_ref(), b"1");
        client.set("/kept", &b"2"[..]).await.unwrap();
        client.close().await.unwrap();
    });
}
