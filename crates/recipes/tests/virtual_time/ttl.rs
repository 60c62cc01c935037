//! The TTL node: there without a gap for as long as it is kept, whatever becomes of connections and sessions,
//! and gone soon after.

use std::time::Duration;

use tokio::time::Instant;
use zebu_recipes::TtlNode;

use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::{Server, Ways};

/// Longer than any trouble with a connection lasts, with half of it between two touches.
const TTL: Duration = Duration::from_secs(240);

/// How much later than its TTL a node may go: what is still on its way when it is dropped may arrive.
const LATE: Duration = Duration::from_secs(40);

/// The transaction that made the node.
fn made(server: &Server, path: &str) -> Option<i64> {
    server.state().tree.node(path).map(|node| node.persisted().czxid)
}

#[test]
fn a_ttl_node_stays_while_it_is_kept_and_goes_afterwards() {
    for_each_seed(Ways::Expiry, async |server, clients| {
        let mut nodes = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let path = format!("/reports/{number}");
            let node = TtlNode::start(client, &path, TTL, "1");
            node.wait_present().await.expect("there");
            nodes.push((made(server, &path), node));
        }
        for round in 0..40 {
            for (made_at, node) in &nodes {
                // Setting the data renews it too: not for more than two TTLs.
                if round % 36 == 0 {
                    node.set(round.to_string()).await.expect("set");
                }
                assert_eq!(made(server, node.path()), *made_at, "the same one as at first");
                assert!(node.failure().is_none());
            }
            tokio::time::sleep(TTL / 16).await;
        }
        let mut kept = nodes.into_iter().map(|(_, node)| node);
        let (removed, dropped, crashed) = (kept.next(), kept.next(), kept.next());
        removed.expect("a node").remove().await.expect("removed");
        assert_eq!(made(server, "/reports/0"), None);
        drop((dropped, crashed));
        let since = Instant::now();
        tokio::time::sleep(TTL / 8).await;
        assert!(made(server, "/reports/1").is_some() && made(server, "/reports/2").is_some());
        assert_eq!(made(server, "/reports/0"), None, "nobody makes it again");
        while !server.children("/reports").is_empty() {
            assert!(since.elapsed() < TTL + LATE, "{:?} are left", server.children("/reports"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        until_empty(server, "/reports").await;
    });
}
