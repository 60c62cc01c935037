//! Sessions, watches and the server's own values.

use serde_json::{Value, json};
use zebu_proto::OpCode;

use crate::admin_common::{AS_SUPER, call, eventually};
use crate::api::{Api, json, refused, server};
use crate::common::{create_body, open, path_and_watch};

#[test]
fn sessions_are_listed_and_the_super_user_closes_them() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let (mut client, session) = open(&server);
    let (_other, _) = open(&server);
    call(&mut client, OpCode::Create, create_body("/mine", b"", zebu_proto::Acl::open(), 1));
    call(&mut client, OpCode::GetData, path_and_watch("/mine", true));
    let id = format!("{:#x}", session.id.0);
    let mut listed = Vec::new();
    let mut after = String::new();
    loop {
        let page = json(&api.get(&format!("/sessions?limit=1{after}")));
        assert_eq!(page["total"], 2);
        listed.extend(page["sessions"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(listed.len(), 2);
    let row = listed.iter().find(|row| row["id"] == json!(id)).unwrap();
    assert_eq!((&row["ephemerals"], &row["isLocal"]), (&json!(1), &json!(false)));
    assert!(row["connection"]["remote"].as_str().unwrap().starts_with("127.0.0.1:"));
    let detail = json(&api.get(&format!("/sessions/{id}")));
    assert_eq!((&detail["ephemeralPaths"], &detail["watchedPaths"]), (&json!(["/mine"]), &json!(["/mine"])));
    let watches = json(&api.get("/watches?by=path"));
    assert_eq!(watches["byPath"], json!([{"path": "/mine", "sessions": [id]}]));
    assert_eq!(json(&api.get("/watches?by=session"))["bySession"], json!([{"id": id, "paths": ["/mine"]}]));
    assert_eq!(json(&api.get("/watches"))["watches"], 1);

    let upper = id.to_uppercase();
    let found = json(&api.get(&format!("/sessions?match={}&order=received&limit=1", upper)));
    assert_eq!((&found["sessions"][0]["id"], &found["matched"]), (&json!(id), &json!(1)));
    let found = json(&api.get("/sessions?order=ephemerals&limit=1"));
    assert_eq!((&found["sessions"][0]["id"], &found["sessions"].as_array().unwrap().len()), (&json!(id), &1));
    assert_eq!(found["matched"].as_u64().unwrap(), found["total"].as_u64().unwrap());

    let path = format!("/sessions/{id}");
    refused(&api.delete(&path), 401, "NOAUTH");
    refused(&api.call("DELETE", &path, &["Authorization: digest a:b"], b""), 403, "NOAUTH");
    let as_super = format!("Authorization: {AS_SUPER}");
    let closed = api.call("DELETE", &path, &[&as_super], b"");
    assert_eq!((closed.status, &json(&closed)["closed"]), (200, &json!(id)), "{}", closed.text());
    refused(&api.get("/tree/mine"), 404, "NONODE");
    refused(&api.get(&path), 404, "UNKNOWNSESSION");
    refused(&api.call("DELETE", &path, &[&as_super], b""), 404, "UNKNOWNSESSION");
    for bad in [
        "/sessions?order=age",
        "/sessions?order=received&after=0x1",
        "/sessions/7",
        "/sessions/0xzz",
        "/sessions?after=x",
        "/watches?by=all",
    ] {
        refused(&api.get(bad), 400, "BADARGUMENTS");
    }
}

#[test]
fn the_server_describes_itself() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let ensemble = json(&api.get("/ensemble"));
    assert_eq!((&ensemble["role"], &ensemble["config"]), (&json!("standalone"), &Value::Null));
    for number in 0..150 {
        assert!(api.put("/tree/d", number.to_string().as_bytes()).status < 300);
    }
    let digest = json(&api.get("/digest"));
    assert!(digest["digest"].as_str().unwrap().starts_with("0x") && digest["digestVersion"] == 2);
    assert_eq!(digest["history"].as_array().unwrap().len(), 1, "{digest}");
    let features = json(&api.get("/features"));
    assert!(features["features"].as_array().unwrap().contains(&json!("tree")));
    // Every route of the document that takes no argument answers, and a stream does not end. Two routes are
    // for ensembles.
    let document = json(&api.get("/openapi.json"));
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if item.get("get").is_some() && !path.contains('{') && path != "/v1/feed" {
            let as_super = format!("Authorization: {AS_SUPER}");
            let answer = api.call("GET", path.strip_prefix("/v1").unwrap(), &[&as_super], b"");
            if ["/v1/digests", "/v1/reconfig"].contains(&path.as_str()) {
                refused(&answer, 501, "UNIMPLEMENTED");
                continue;
            }
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            refused(&api.get(&format!("{}?unknown", path.strip_prefix("/v1").unwrap())), 400, "BADARGUMENTS");
            asked += 1;
        }
    }
    assert_eq!(asked, 10);
    refused(&api.get("/nothing"), 404, "UNIMPLEMENTED");
    for (method, path, allow) in [
        ("PATCH", "/tree/a", "GET, HEAD, PUT, POST, DELETE"),
        ("POST", "/acl/a", "GET, HEAD, PUT"),
        ("GET", "/multi", "POST"),
        ("PUT", "/sessions/0x1", "GET, HEAD, DELETE"),
        ("DELETE", "/ensemble", "GET, HEAD"),
    ] {
        let answer = api.call(method, path, &[], b"");
        refused(&answer, 405, "UNIMPLEMENTED");
        assert_eq!(answer.header("allow"), Some(allow));
    }
}

/// A session of the API ends when it was not used; until then one session serves all writes of a caller.
#[test]
fn one_session_serves_all_writes_of_a_caller() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    for number in 0..20 {
        assert!(api.put("/tree/w", number.to_string().as_bytes()).status < 300);
    }
    assert_eq!(json(&api.get("/sessions"))["total"], 1);
    assert!(api.call("PUT", "/tree/w", &["Authorization: digest a:b"], b"x").status < 300);
    assert_eq!(json(&api.get("/sessions"))["total"], 2);
    // Identities beyond the limit take the place of idle ones, whose sessions end.
    for number in 0..80 {
        let line = format!("Authorization: digest user{number}:x");
        let answer = api.call("PUT", "/tree/w", &[&line], b"x");
        // A connection of an identity that made room may not have ended yet (maxClientCnxns).
        assert!(answer.status < 300 || answer.status == 503, "{}", answer.text());
    }
    eventually("sessions end", || json(&api.get("/sessions"))["total"].as_u64().unwrap() <= 64);
}

/// The sketches see each request here. Rates are estimates, so only the order counts.
#[test]
fn the_super_user_sees_hot_paths_and_large_nodes() {
    let server = server().line("zebu.top.sampling=1").start().unwrap();
    let api = Api::of(&server);
    let (mut client, _) = open(&server);
    call(&mut client, OpCode::Create, create_body("/hot", b"", zebu_proto::Acl::open(), 0));
    call(&mut client, OpCode::Create, create_body("/large", &[0; 5000], zebu_proto::Acl::open(), 0));
    (0..50).for_each(|_| {
        call(&mut client, OpCode::GetData, path_and_watch("/hot", false));
    });
    refused(&api.get("/top"), 401, "NOAUTH");
    refused(&api.call("GET", "/top", &["Authorization: digest a:b"], b""), 403, "NOAUTH");
    let as_super = format!("Authorization: {AS_SUPER}");
    let top = |query: &str| api.call("GET", &format!("/top{query}"), &[&as_super], b"");
    eventually("the hottest path", || {
        let reads = &json(&top("?by=reads&limit=1"))["by"]["reads"];
        let lists = reads.as_object().unwrap().values();
        lists.flat_map(|list| list.as_array().unwrap()).any(|entry| entry["key"] == "/hot")
    });
    let nodes = json(&top("?by=nodes&limit=1"));
    assert_eq!((&nodes["complete"], &nodes["bySize"][0]["path"]), (&json!(true), &json!("/large")));
    for bad in ["?by=size", "?limit=0", "?limit=51", "?depth=1"] {
        refused(&top(bad), 400, "BADARGUMENTS");
    }
}
