//! The TTL node exists without a gap while its handle lives, across lost connections and sessions, and is
//! deleted soon after.

use std::time::Duration;

use tokio::time::Instant;
use zebu_recipes::TtlNode;

use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::{FaultKinds, Server};

/// Half of it lies between two touches; no fault of a connection lasts that long.
const TTL: Duration = Duration::from_secs(240);

/// The longest delay of the deletion after the TTL: a touch may be in flight when the handle is dropped.
const LATE: Duration = Duration::from_secs(40);

/// The czxid of a node.
fn czxid(server: &Server, path: &str) -> Option<i64> {
    server.state().tree.node(path).map(|node| node.persisted().czxid)
}

#[test]
fn a_ttl_node_stays_while_it_is_kept_and_goes_afterwards() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let mut nodes = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let path = format!("/reports/{number}");
            let node = TtlNode::start(client, &path, TTL, "1");
            node.wait_present().await.expect("there");
            nodes.push((czxid(server, &path), node));
        }
        for round in 0..40 {
            for (created, node) in &nodes {
                // A write renews the node too, so there is none for more than two TTLs.
                if round % 36 == 0 {
                    node.set(round.to_string()).await.expect("set");
                }
                assert_eq!(czxid(server, node.path()), *created, "the first node");
                assert!(node.failure().is_none());
            }
            tokio::time::sleep(TTL / 16).await;
        }
        let mut kept = nodes.into_iter().map(|(_, node)| node);
        let (removed, dropped, crashed) = (kept.next(), kept.next(), kept.next());
        removed.expect("a node").remove().await.expect("removed");
        assert_eq!(czxid(server, "/reports/0"), None);
        drop((dropped, crashed));
        let since = Instant::now();
        tokio::time::sleep(TTL / 8).await;
        assert!(czxid(server, "/reports/1").is_some() && czxid(server, "/reports/2").is_some());
        assert_eq!(czxid(server, "/reports/0"), None, "it is not created again");
        while !server.children("/reports").is_empty() {
            assert!(since.elapsed() < TTL + LATE, "{:?} are left", server.children("/reports"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        until_empty(server, "/reports").await;
    });
}
