//! reconfig, from the client's request to the config node.

use zebu_proto::client::{EventType, ReconfigRequest};
use zebu_proto::{ErrorCode, Jute, OpCode, ServerId, Zxid};
use zebu_zab::Configuration;

use crate::client::{Ask, Frame, Reply, ask, create, get, get_watch};
use crate::three_nodes::ThreeNodes;

const LIST: &str = "server.1=a:1:2:participant;a:3\nserver.2=b:1:2:participant;b:3\n\
                    server.3=c:1:2:participant;c:3\nversion=0";

fn ensemble() -> ThreeNodes {
    ThreeNodes::changing(&Configuration::parse(LIST).unwrap())
}

fn request(joining: &str, leaving: &str, members: &str, version: i64) -> Ask {
    let text = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Into::into);
    let request = ReconfigRequest {
        joining: text(joining),
        leaving: text(leaving),
        new_members: text(members),
        current_config_id: version,
    };
    ask(OpCode::Reconfig, |out| request.encode(out))
}

fn change(ensemble: &mut ThreeNodes, at: ServerId, ask: Ask) -> Reply {
    let connection = ensemble.client(at, 30_000);
    ensemble.call(at, connection, ask)
}

#[test]
fn granted_through_any_member_and_shown_by_all() {
    let mut ensemble = ensemble();
    for at in [ensemble.leader().unwrap(), ensemble.learners()[0]] {
        let watcher = ensemble.learners()[1];
        let watching = ensemble.client(watcher, 30_000);
        ensemble.call(watcher, watching, get_watch("/zookeeper/config"));
        let joining = "server.4=d:1:2:observer;d:3";
        let reply = change(&mut ensemble, at, request(joining, "", "", -1));
        assert_eq!(reply.error, None);
        let text = reply.data();
        assert!(text.contains("\nserver.4=d:1:2:observer;d:3\n"), "{text}");
        assert!(text.ends_with(&format!("version={:x}", reply.zxid)), "{text}");
        let event = Frame::Event {
            zxid: reply.zxid,
            kind: EventType::NodeDataChanged,
            path: "/zookeeper/config".into(),
        };
        assert_eq!(ensemble.server(watcher).fixture.received(watching), [event]);
        for id in [1, 2, 3].map(ServerId) {
            let connection = ensemble.client(id, 30_000);
            assert_eq!(ensemble.call(id, connection, get("/zookeeper/config")).data(), text);
        }
    }
    ensemble.assert_equal();
}

#[test]
fn what_is_refused_and_how() {
    let mut ensemble = ensemble();
    let leader = ensemble.leader().unwrap();
    let connection = ensemble.client(leader, 30_000);
    let version = Zxid::new(1, 0).0;
    for (ask, error) in [
        (request("", "3", "", version + 1), ErrorCode::BadVersion),
        (request("", "3", "", 0), ErrorCode::BadVersion),
        (request("", "2,3", "", version), ErrorCode::BadArguments),
        (request("server.4=d:1:2", "", "", -1), ErrorCode::BadArguments),
        (request("server.4=a:1:9;d:3", "", "", -1), ErrorCode::BadArguments),
        (request("", "", "server.1=a:1:2,what=1", -1), ErrorCode::BadArguments),
        (request("", "three", "", -1), ErrorCode::MarshallingError),
        (request("", "", "server.4=d:1:2;3,server.5=e:1:2;3", -1), ErrorCode::NewConfigNoQuorum),
        (request("server.4=d:1:2;3,server.5=e:1:2;3", "1,2", "", -1), ErrorCode::NewConfigNoQuorum),
    ] {
        assert_eq!(ensemble.call(leader, connection, ask).error, Some(error));
    }
    assert_eq!(ensemble.call(leader, connection, create("/goes-on", "", 0)).error, None);
    assert_eq!(
        ensemble.call(leader, connection, request("", "", "", version)).error,
        None,
        "a new version of the same"
    );
    assert_eq!(
        ensemble.call(leader, connection, request("", "", "", version)).error,
        Some(ErrorCode::BadVersion)
    );
}

#[test]
fn one_at_a_time() {
    let mut ensemble = ensemble();
    let leader = ensemble.leader().unwrap();
    let connection = ensemble.client(leader, 30_000);
    let first = ensemble.send(leader, connection, request("", "", "", -1));
    let second = ensemble.send(leader, connection, request("", "", "", -1));
    ensemble.settle();
    let errors: Vec<_> = ensemble
        .server(leader)
        .fixture
        .received(connection)
        .into_iter()
        .filter_map(|frame| match frame {
            Frame::Reply(reply) => Some((reply.xid, reply.error)),
            _ => None,
        })
        .collect();
    assert_eq!(errors, [(first, None), (second, Some(ErrorCode::ReconfigInProgress))]);
}

#[test]
fn a_leader_that_is_removed_leaves_a_successor_and_its_client_an_answer() {
    let mut ensemble = ensemble();
    let leader = ensemble.leader().unwrap();
    let reply = change(&mut ensemble, leader, request("", &leader.0.to_string(), "", -1));
    assert_eq!(reply.error, None);
    ensemble.run(3000);
    let next = ensemble.leader().unwrap();
    assert_ne!(next, leader);
    let connection = ensemble.client(next, 30_000);
    assert_eq!(ensemble.call(next, connection, create("/goes-on", "", 0)).error, None);
    ensemble.assert_equal();
}
