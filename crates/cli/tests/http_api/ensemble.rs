//! The API of an ensemble: writes through every role, a lost leader, and no quorum.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use zebu_testing::port;

use crate::admin_common::{SUPER_DIGEST, eventually};
use crate::api::{Api, json, refused};
use crate::events::Events;
use crate::processes::{Ensemble, TIME_LIMIT};

/// Three voters and an observer with the API.
fn start(roles: &[&'static str]) -> (Ensemble, Vec<Api>) {
    let line = format!(
        "initLimit=20\nzebu.electionGrace=60000\nreconfigEnabled=true\n\
         DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"
    );
    let mut ensemble = Ensemble::prepare_as(roles, &line);
    let addresses: Vec<SocketAddr> = roles.iter().map(|_| port::free_address().unwrap()).collect();
    for (index, address) in addresses.iter().enumerate() {
        let path = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = std::fs::read_to_string(&path).unwrap();
        let admin = format!("admin.serverPort={}\nadmin.api.enabled=true", address.port());
        std::fs::write(&path, text.replace("admin.enableServer=false", &admin)).unwrap();
        ensemble.run(index);
    }
    let apis = addresses.into_iter().map(|address| Api { address }).collect();
    (ensemble, apis)
}

#[test]
fn writes_through_every_role_are_seen_by_all() {
    let (ensemble, apis) = start(&["participant", "participant", "participant", "observer"]);
    let leader = ensemble.await_leader(4);
    for (index, api) in apis.iter().enumerate() {
        let created = api.put(&format!("/tree/from-{index}"), b"x");
        assert_eq!(created.status, 201, "{}", created.text());
        // The server that took the write shows it at once.
        assert_eq!(api.get(&format!("/tree/from-{index}")).body, b"x");
    }
    for api in &apis {
        for index in 0..4 {
            assert_eq!(api.get(&format!("/tree/from-{index}?fresh=sync")).body, b"x");
        }
        let ensemble = json(&api.get("/ensemble"));
        assert_eq!(
            (&ensemble["leader"], ensemble["config"]["servers"].as_array().unwrap().len()),
            (&json!(leader + 1), 4)
        );
        let leaders: Vec<_> = ensemble["config"]["servers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|server| server["isLeader"] == true)
            .collect();
        assert_eq!(leaders.len(), 1);
    }
    let roles: Vec<String> =
        apis.iter().map(|api| json(&api.get("/ensemble"))["role"].as_str().unwrap().to_owned()).collect();
    assert_eq!((roles[leader].as_str(), roles[3].as_str()), ("leader", "observer"));
    assert_eq!(json(&apis[leader].get("/ensemble"))["learners"].as_array().unwrap().len(), 3);
    // A tag of one server is good at another one, also if that one is behind.
    let tag = apis[leader].put("/tree/from-0", b"y").header("etag").unwrap().to_owned();
    let follower = if leader == 0 { 1 } else { 0 };
    let changed = apis[follower].call("PUT", "/tree/from-0", &[&format!("If-Match: {tag}")], b"z");
    assert_eq!(changed.status, 200, "{}", changed.text());
    refused(&apis[3].call("PUT", "/tree/from-0", &[&format!("If-Match: {tag}")], b"z"), 412, "BADVERSION");
}

/// Writes one node after the other until told to stop, and notes the status of each.
fn write_until(api: Api, prefix: String, stop: Arc<AtomicBool>) -> BTreeMap<String, u16> {
    let mut results = BTreeMap::new();
    let deadline = Instant::now() + TIME_LIMIT;
    for number in 0.. {
        if stop.load(Ordering::Acquire) || Instant::now() > deadline {
            break;
        }
        let name = format!("{prefix}-{number:06}");
        let path = format!("/tree/w/{name}");
        let status = std::panic::catch_unwind(|| api.post(&path, b"x").status);
        // A server that was killed answers nothing.
        results.insert(name, status.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    results
}

#[test]
fn a_lost_leader_leaves_no_doubt_but_where_it_is_said() {
    let (mut ensemble, apis) = start(&["participant"; 3]);
    let leader = ensemble.await_leader(3);
    let followers: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    assert_eq!(apis[leader].put("/tree/w", b"").status, 201);
    let mut events = Events::open(apis[followers[0]], "/tree/w?watch", &[]);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = followers
        .iter()
        .map(|&index| {
            let (api, stop) = (apis[index], stop.clone());
            std::thread::spawn(move || write_until(api, index.to_string(), stop))
        })
        .collect();
    let count = || json(&apis[followers[0]].get("/tree/w?stat"))["stat"]["numChildren"].as_u64();
    eventually("writes before", || count() > Some(50));
    ensemble.kill(leader);
    ensemble.await_leader(2);
    let before =
        followers.iter().map(|&index| apis[index].get("/tree/w?stat&fresh=sync")).find(|it| it.status == 200);
    let before = before.map_or(0, |answer| json(&answer)["stat"]["numChildren"].as_u64().unwrap());
    eventually("writes after", || count().is_some_and(|now| now > before + 20));
    stop.store(true, Ordering::Release);
    // The stream goes on over the change of the leader.
    eventually("a change of the data", || apis[followers[1]].put("/tree/w", b"after").status == 200);
    events.wait_for("event: NodeDataChanged\n");
    let results: BTreeMap<String, u16> =
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    let mut unknown = 0;
    for (name, status) in &results {
        let now = apis[followers[1]].get(&format!("/tree/w/{name}?stat&fresh=sync")).status;
        match status {
            201 => assert_eq!(now, 200, "{name} was acknowledged"),
            503 => assert_eq!(now, 404, "{name} was refused"),
            504 => unknown += 1,
            other => panic!("{name}: {other}"),
        }
    }
    assert!(unknown <= 2, "one request of each writer at most can be in doubt: {unknown}");
}

#[test]
fn without_a_quorum_writes_and_reads_are_refused() {
    let (mut ensemble, apis) = start(&["participant"; 3]);
    let leader = ensemble.await_leader(3);
    assert_eq!(apis[leader].put("/tree/a", b"").status, 201);
    for index in (0..3).filter(|index| *index != 0) {
        ensemble.kill(index);
    }
    eventually("the last server stops serving", || apis[0].get("/tree/a").status == 503);
    for answer in [apis[0].get("/tree/a"), apis[0].put("/tree/a", b"x"), apis[0].get("/tree/a?watch")] {
        refused(&answer, 503, "NOTSERVING");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let view = json(&apis[0].get("/ensemble"));
    assert_eq!(view["role"], json!(null));
    assert_eq!(apis[0].get("/features").status, 200);
    ensemble.run(1);
    ensemble.await_leader(2);
    eventually("writes go on", || apis[0].put("/tree/a", b"x").status == 200);
}

/// The super user.
const AS_SUPER: &str = "Authorization: digest super:secret";

#[test]
fn an_operator_asks_a_leader_to_hand_over() {
    let (ensemble, apis) = start(&["participant"; 3]);
    let leader = ensemble.await_leader(3);
    let follower = (0..3).find(|index| *index != leader).unwrap();
    for route in ["/snapshot", "/hand-over", "/drain"] {
        refused(&apis[leader].post(route, b""), 401, "NOAUTH");
        let as_alice = ["Authorization: digest alice:secret"];
        refused(&apis[leader].call("POST", route, &as_alice, b""), 403, "NOAUTH");
        assert_eq!(apis[leader].get(route).status, 405);
    }
    refused(&apis[leader].get("/digests"), 401, "NOAUTH");
    refused(&apis[leader].get("/history/"), 401, "NOAUTH");
    refused(&apis[follower].call("POST", "/hand-over", &[AS_SUPER], b""), 409, "BADARGUMENTS");
    for number in 0..300 {
        let status = apis[leader].put("/tree/a", format!("{number}").as_bytes()).status;
        assert!(status == 201 || status == 200, "{status}");
    }
    // The servers share a host, and this config does not tell their client ports: no server asks itself.
    let compared = json(&apis[follower].call("GET", "/digests", &[AS_SUPER], b""));
    assert_eq!(compared["common"]["servers"], 1, "{compared}");
    let errors = compared["servers"].as_array().unwrap().iter().filter(|server| server["error"].is_string());
    assert_eq!(errors.count(), 2, "{compared}");
    let answer = apis[leader].call("POST", "/hand-over", &[AS_SUPER], b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    eventually("another leader", || ensemble.mode(leader).as_deref() == Some("follower"));
    assert_ne!(ensemble.await_leader(3), leader);
    // The history goes over the change of the leader, on every server.
    for api in &apis {
        eventually("the last version", || {
            let history = json(&api.call("GET", "/history/a", &[AS_SUPER], b""));
            history["versions"].as_array().unwrap().len() == 300 && history["next"] == json!(null)
        });
    }
}

#[test]
fn a_reconfig_needs_the_version_that_was_read() {
    let (ensemble, apis) = start(&["participant"; 3]);
    let leader = ensemble.await_leader(3);
    let preview = json(&apis[leader].get(&format!("/reconfig?leaving={}", (leader + 1) % 3 + 1)));
    assert_eq!((&preview["changes"], &preview["new"]["needed"]), (&json!(true), &json!(2)), "{preview}");
    assert_eq!(
        (&preview["old"]["toleratedLosses"], &preview["new"]["toleratedLosses"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(preview["new"]["critical"].as_array().unwrap().len(), 2);
    // A follower does not know who is synchronized.
    let follower = (leader + 1) % 3;
    let unknown = json(&apis[follower].get("/reconfig?leaving=3"));
    assert_eq!((&unknown["new"]["hasQuorum"], &unknown["new"]["critical"]), (&json!(null), &json!(null)));
    refused(&apis[leader].get("/reconfig?leaving=x"), 400, "BADARGUMENTS");
    let body = |from: &str| format!(r#"{{"leaving":"{}","from":"{from}"}}"#, follower + 1);
    let version = preview["version"].as_str().unwrap();
    refused(&apis[leader].post("/reconfig", body(version).as_bytes()), 401, "NOAUTH");
    let reconfig = |from: &str| apis[leader].call("POST", "/reconfig", &[AS_SUPER], body(from).as_bytes());
    refused(&reconfig("0x7"), 412, "BADVERSION");
    let changed = reconfig(version);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_ne!(json(&changed)["version"], preview["version"]);
    let servers = json(&apis[leader].get("/ensemble"))["config"]["servers"].as_array().unwrap().len();
    assert_eq!(servers, 2);
}
