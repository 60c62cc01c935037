//! Nodes: data, stat, versions, kinds, pages, multis and recursive deletes.

use serde_json::json;

use crate::api::{Api, json, plain_server, refused, server};

#[test]
fn the_api_is_off_by_default_and_can_be_for_reads_only() {
    let off = plain_server().start().unwrap();
    let api = Api::of(&off);
    refused(&api.get("/tree/"), 404, "UNIMPLEMENTED");
    assert!(api.get("/features").text().contains("admin.api.enabled=true"));
    refused(&api.put("/tree/a", b"x"), 404, "UNIMPLEMENTED");
    let reader = server().line("admin.api.readOnly=true").start().unwrap();
    let api = Api::of(&reader);
    assert_eq!(api.get("/tree/zookeeper?children").status, 200);
    assert_eq!(json(&api.get("/features"))["readOnly"], true);
    for answer in [api.put("/tree/a", b"x"), api.delete("/tree/a"), api.post("/multi", b"{}")] {
        refused(&answer, 403, "NOTREADONLY");
    }
}

#[test]
fn data_and_versions() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let data = b"\x00\xffbinary\r\n\r\n";
    let created = api.call("PUT", "/tree/app", &["If-None-Match: *"], data);
    assert_eq!(
        (created.status, created.header("location")),
        (201, Some("/v1/tree/app")),
        "{}",
        created.text()
    );
    let tag = created.header("etag").unwrap().to_owned();
    refused(&api.call("PUT", "/tree/app", &["If-None-Match: *"], b"y"), 409, "NODEEXISTS");
    let read = api.get("/tree/app");
    assert_eq!((read.status, read.body.as_slice()), (200, &data[..]));
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    assert_eq!(read.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(read.header("etag"), Some(tag.as_str()));
    let stat: serde_json::Value = serde_json::from_str(read.header("x-stat").unwrap()).unwrap();
    assert_eq!((&stat["version"], &stat["dataLength"]), (&json!(0), &json!(data.len())));
    assert!(read.header("x-zxid").unwrap().starts_with("0x"));
    let head = api.call("HEAD", "/tree/app", &[], b"");
    assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, Some(tag.as_str())));

    let known = api.call("GET", "/tree/app", &[&format!("If-None-Match: {tag}")], b"");
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(api.call("GET", "/tree/app", &["If-None-Match: \"9\""], b"").status, 200);

    let changed = api.call("PUT", "/tree/app", &[&format!("If-Match: {tag}")], b"two");
    assert_eq!((changed.status, &json(&changed)["stat"]["version"]), (200, &json!(1)));
    let stale = api.call("PUT", "/tree/app", &[&format!("If-Match: {tag}")], b"three");
    refused(&stale, 412, "BADVERSION");
    assert_eq!(json(&stale)["stat"]["version"], 1);
    refused(&api.call("DELETE", "/tree/app", &[&format!("If-Match: {tag}")], b""), 412, "BADVERSION");
    refused(&api.call("PUT", "/tree/app", &["If-Match: \"7\""], b"x"), 412, "BADVERSION");
    refused(&api.call("PUT", "/tree/none", &["If-Match: *"], b"x"), 404, "NONODE");
    assert_eq!(api.call("PUT", "/tree/app", &["If-Match: *"], b"").status, 200);
    assert_eq!(json(&api.get("/tree/app?base64"))["base64"], "");

    // A node that was created again has another tag, although its version is the same.
    let tag = api.get("/tree/app").header("etag").unwrap().to_owned();
    assert_eq!(api.delete("/tree/app").status, 204);
    refused(&api.get("/tree/app"), 404, "NONODE");
    refused(&api.delete("/tree/app"), 404, "NONODE");
    for round in 0..3 {
        assert_eq!(api.put("/tree/app", b"again").status, if round == 0 { 201 } else { 200 });
    }
    assert!(tag.starts_with("\"2."), "{tag}");
    refused(&api.call("PUT", "/tree/app", &[&format!("If-Match: {tag}")], b"x"), 412, "BADVERSION");
    assert_eq!(api.call("DELETE", "/tree/app", &["If-Match: \"2\""], b"").status, 204);
}

#[test]
fn kinds_of_nodes() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(api.post("/tree/app", b"").status, 201);
    refused(&api.post("/tree/app", b""), 409, "NODEEXISTS");
    refused(&api.post("/tree/no/parent", b""), 404, "NONODE");
    refused(&api.put("/tree/no/parent", b""), 404, "NONODE");
    for number in 0..2 {
        let created = api.post("/tree/app/job-?mode=sequential", b"x");
        let path = format!("/app/job-{number:010}");
        assert_eq!((created.status, &json(&created)["path"]), (201, &json!(path)));
        assert_eq!(created.header("location"), Some(format!("/v1/tree{path}").as_str()));
    }
    let lifetime = |path: &str| json(&api.get(&format!("/tree{path}?stat")))["lifetime"].clone();
    assert_eq!(api.call("PUT", "/tree/app/c?mode=container", &["If-None-Match: *"], b"").status, 201);
    assert_eq!(api.post("/tree/app/t?ttl=30s", b"").status, 201);
    assert_eq!(
        (lifetime("/app"), lifetime("/app/c"), lifetime("/app/t")),
        (json!("persistent"), json!("container"), json!("ttl"))
    );
    assert_eq!(json(&api.get("/tree/app/t?stat"))["ttlMs"], 30_000);
    let timed = api.post("/tree/app/s-?ttl=1h&mode=sequential", b"");
    assert_eq!(lifetime(json(&timed)["path"].as_str().unwrap()), "ttl");
    for bad in ["mode=ephemeral", "mode=other", "mode=container&ttl=1s", "ttl=soon", "ttl=0", "acl=world"] {
        refused(&api.post(&format!("/tree/app/bad?{bad}"), b""), 400, "BADARGUMENTS");
    }
    refused(&api.put("/tree/app?ttl=30s", b""), 400, "BADARGUMENTS");

    assert_eq!(api.post("/tree/app/b64?base64", b"/wAx\n").status, 201);
    assert_eq!(api.get("/tree/app/b64").body, b"\xff\x001");
    assert_eq!(json(&api.get("/tree/app/b64?base64"))["base64"], "/wAx");
    refused(&api.post("/tree/app/bad?base64", b"?"), 400, "BADARGUMENTS");
    let names = "/tree/app/a%20b%2B%25%C3%A4%3F%23";
    let created = api.post(names, b"odd");
    assert_eq!((created.status, json(&created)["path"].as_str()), (201, Some("/app/a b+%ä?#")));
    assert_eq!(created.header("location"), Some(format!("/v1{names}").as_str()));
    assert_eq!(api.get(names).body, b"odd");
    refused(&api.delete("/tree/zookeeper"), 400, "BADARGUMENTS");
    refused(&api.delete("/tree/"), 400, "BADARGUMENTS");
}

#[test]
fn pages_of_children() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let create = |name: u32| json!({"create": format!("/p/{name:03}"), "data": "x"});
    let mut ops = vec![json!({"create": "/p"})];
    ops.extend((0..250).map(|number| create(number * 7 % 250)));
    assert_eq!(api.post("/multi", json!({ "ops": ops }).to_string().as_bytes()).status, 200);
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = json(&api.get(&format!("/tree/p?children&limit=40&after={after}")));
        assert_eq!((&page["oneState"], &page["stat"]["numChildren"]), (&json!(true), &json!(250)));
        let part = page["children"].as_array().unwrap();
        assert!(part.len() <= 40 && part[0].get("stat").is_none());
        names.extend(part.iter().map(|child| child["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names, (0..250).map(|name| format!("{name:03}")).collect::<Vec<_>>());
    let page = json(&api.get("/tree/p?children&limit=1&stat&after=100&fresh=sync"));
    let child = &page["children"][0];
    assert_eq!(
        (&child["name"], &child["stat"]["dataLength"], &child["lifetime"]),
        (&json!("101"), &json!(1), &json!("persistent"))
    );
    assert_eq!(json(&api.get("/tree/?children"))["children"][0]["name"], "p");
    assert_eq!(json(&api.get("/tree/p/000?children"))["children"], json!([]));
    for bad in ["limit=0", "limit=1001", "limit=x", "base64", "stat=maybe", "fresh=now"] {
        refused(&api.get(&format!("/tree/p?children&{bad}")), 400, "BADARGUMENTS");
    }
    refused(&api.get("/tree/none?children"), 404, "NONODE");
}

#[test]
fn a_recursive_delete_is_bounded() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let mut ops = vec![json!({"create": "/top"})];
    for parent in 0..4 {
        ops.push(json!({"create": format!("/top/{parent}")}));
        ops.extend((0..300).map(|child| json!({"create": format!("/top/{parent}/{child}")})));
    }
    let total = ops.len();
    assert_eq!(api.post("/multi", json!({ "ops": ops }).to_string().as_bytes()).status, 200);
    refused(&api.delete("/tree/top"), 409, "NOTEMPTY");
    let mut deleted = 0;
    let mut rounds = 0;
    loop {
        let answer = json(&api.delete("/tree/top?recursive&max=500"));
        deleted += answer["deleted"].as_u64().unwrap() as usize;
        rounds += 1;
        if answer["more"] == false {
            break;
        }
        assert_eq!(answer["deleted"], 500);
    }
    assert_eq!((deleted, rounds), (total, 3));
    refused(&api.get("/tree/top"), 404, "NONODE");
    refused(&api.delete("/tree/top?recursive"), 404, "NONODE");
    refused(&api.delete("/tree/?recursive"), 400, "BADARGUMENTS");
    refused(&api.delete("/tree/zookeeper?recursive"), 400, "BADARGUMENTS");
    refused(&api.delete("/tree/top?recusive"), 400, "BADARGUMENTS");
    refused(&api.call("DELETE", "/tree/x?recursive", &["If-Match: \"1\""], b""), 400, "BADARGUMENTS");
}

#[test]
fn a_multi_is_one_transaction() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let multi = |ops: serde_json::Value| api.post("/multi", json!({ "ops": ops }).to_string().as_bytes());
    let done = multi(json!([
        {"create": "/m", "data": "one"},
        {"set": "/m", "base64": "/w==", "version": 0},
        {"check": "/m", "version": 1},
        {"create": "/m/s-", "mode": "sequential", "acl": [{"scheme": "world", "id": "anyone", "perms": "r"}]},
        {"delete": "/m/s-0000000000", "version": 0},
    ]));
    assert_eq!(done.status, 200, "{}", done.text());
    let results = json(&done)["results"].clone();
    assert_eq!(results[0]["created"], "/m");
    assert_eq!((&results[1]["set"], &results[1]["stat"]["version"]), (&json!("/m"), &json!(1)));
    assert_eq!(
        (&results[2]["checked"], &results[3]["created"], &results[4]["deleted"]),
        (&json!("/m"), &json!("/m/s-0000000000"), &json!("/m/s-0000000000"))
    );
    assert_eq!(api.get("/tree/m").body, [255]);
    let failed = multi(json!([{"set": "/m", "data": "x"}, {"check": "/m", "version": 9}, {"delete": "/m"}]));
    refused(&failed, 412, "BADVERSION");
    let failed = json(&failed);
    assert_eq!((&failed["failed"], &failed["path"]), (&json!(1), &json!("/m")));
    let codes: Vec<_> = failed["results"].as_array().unwrap().iter().map(|result| &result["code"]).collect();
    assert_eq!(codes, ["OK", "BADVERSION", "RUNTIMEINCONSISTENCY"]);
    assert_eq!(api.get("/tree/m").body, [255]);
    refused(&multi(json!([{"create": "/m"}])), 409, "NODEEXISTS");
    refused(&multi(json!([{"create": "/x", "mode": "ephemeral"}])), 400, "BADARGUMENTS");
    assert_eq!(json(&multi(json!([])))["results"], json!([]));
    for body in ["", "{", "[]", "{\"ops\":1}", "{\"ops\":[{\"check\":\"/m\",\"vresion\":1}]}"] {
        refused(&api.post("/multi", body.as_bytes()), 400, "BADARGUMENTS");
    }
}
