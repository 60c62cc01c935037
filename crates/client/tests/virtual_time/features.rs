//! Requests that not every server knows, in an ensemble whose servers differ: they are sent to the servers
//! that have announced them, and to no other.

use std::time::Duration;

use zebu_client::{Client, Retry, SessionState};
use zebu_proto::OpCode;

use crate::model::{Fault, Server};
use crate::{builder, client, virtually};

/// Ends the idle connection, and continues on a server with these features.
async fn reconnect(server: &Server, client: &Client, features: Option<&str>) {
    let mut states = client.states();
    states.mark_unchanged();
    server.model().set_features(features);
    server.cut_idle();
    states.wait_for(|status| status.state == SessionState::Suspended).await.unwrap();
    states.wait_for(|status| status.state == SessionState::Reconnected).await.unwrap();
}

async fn reads_linearizable(client: &Client) -> bool {
    match client.get("/").linearizable().retry(Retry::Never).await {
        Ok(_) => true,
        Err(error) if error.is_unsupported_freshness() => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_server_gets_no_request_that_only_the_server_before_has_announced() {
    virtually(async {
        let server = Server::new([]);
        server.model().set_features(Some("linear"));
        let client = client(&server).await;
        assert!(reads_linearizable(&client).await);
        reconnect(&server, &client, None).await;
        server.model().requests.clear();
        let read = client.get("/").linearizable().send();
        let write = client.create("/a").retry(Retry::Never).send();
        assert!(read.await.unwrap_err().is_unsupported_freshness());
        assert!(write.await.is_ok(), "the connection is whole");
        assert!(!server.model().requests.contains(&OpCode::With));
    });
}

#[test]
fn a_server_with_more_features_than_the_one_before_is_discovered() {
    virtually(async {
        let server = Server::new([]);
        let client = client(&server).await;
        assert!(!reads_linearizable(&client).await);
        reconnect(&server, &client, Some("linear")).await;
        assert!(reads_linearizable(&client).await);
    });
}

/// The server keeps its connections, and its next leader is one of Zebu.
#[test]
fn a_feature_that_comes_later_is_found() {
    virtually(async {
        let server = Server::new([]);
        let client = client(&server).await;
        assert!(!reads_linearizable(&client).await);
        server.model().set_features(Some("linear"));
        let asked = |server: &Server| server.model().requests.len();
        let before = asked(&server);
        assert!(!reads_linearizable(&client).await);
        assert_eq!(asked(&server), before, "not before each read");
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(reads_linearizable(&client).await);
    });
}

#[test]
fn a_read_without_a_connection_waits_for_it() {
    virtually(async {
        let server = Server::new([]);
        server.model().set_features(Some("linear"));
        let client = builder().start_with(server.clone());
        assert!(reads_linearizable(&client).await);
        server.model().plan.push_back(Fault::Refuse(2));
        client.get("/").retry(Retry::Never).await.unwrap_err();
        assert!(reads_linearizable(&client).await);
    });
}
