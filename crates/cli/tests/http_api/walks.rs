//! Listings, scans, numbers and roles: the reads that the console needs.

use serde_json::{Value, json};

use crate::api::{Api, json, refused, server};

fn names(value: &Value) -> Vec<String> {
    let items = value["items"].as_array().unwrap().iter();
    items.map(|item| item.get("name").or(item.get("path")).unwrap().as_str().unwrap().to_owned()).collect()
}

fn create(api: &Api, path: &str, data: &[u8]) {
    assert_eq!(api.post(&format!("/tree{path}"), data).status, 201, "{path}");
}

/// A node with this many children keeps its list although it has changed.
const KEPT_ABOVE: usize = 5000;

#[test]
fn a_listing_shows_any_part_of_the_sorted_children() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/p", b"");
    for number in (0..30).rev() {
        create(&api, &format!("/p/n{number:02}"), b"data");
    }
    let page = json(&api.get("/listing/p?offset=10&limit=3"));
    assert_eq!((names(&page), &page["total"]), (vec!["n10".into(), "n11".into(), "n12".into()], &json!(30)));
    assert_eq!((&page["changed"], &page["items"][0]["stat"]["dataLength"]), (&json!(false), &json!(4)));
    let found = json(&api.get("/listing/p?find=n17&limit=5"));
    assert_eq!(
        (&found["found"], &found["offset"], names(&found)[2].as_str()),
        (&json!(17), &json!(15), "n17")
    );
    assert_eq!(json(&api.get("/listing/p?find=none"))["found"], Value::Null);
    let matched = json(&api.get("/listing/p?match=n1*&limit=2"));
    assert_eq!((names(&matched), &matched["total"]), (vec!["n10".into(), "n11".into()], &json!(10)));
    assert_eq!(names(&json(&api.get("/listing/p?offset=1000"))), Vec::<String>::new());
    // A small list is always new.
    create(&api, "/p/n005", b"");
    assert_eq!(json(&api.get("/listing/p"))["total"], 31);
    refused(&api.get("/listing/none"), 404, "NONODE");
    refused(&api.get("/listing/p?limit=1001"), 400, "BADARGUMENTS");
    refused(&api.get("/listing/p?offset=-1"), 400, "BADARGUMENTS");
}

/// Names of Curator begin with a random identifier, so their order says nothing about turns.
#[test]
fn a_listing_by_sequence_begins_with_the_first_contender() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/lock", b"");
    let name =
        |number: usize| format!("_c_{:08x}-2222-3333-4444-555555555555-lock-", 0xffff_ffff_usize - number);
    let contenders: Vec<usize> = (0..1000).collect();
    for part in contenders.chunks(500) {
        let ops: Vec<Value> = part
            .iter()
            .map(|number| json!({ "create": format!("/lock/{}", name(*number)), "mode": "sequential" }))
            .collect();
        assert_eq!(api.post("/multi", json!({ "ops": ops }).to_string().as_bytes()).status, 200);
    }
    create(&api, "/lock/config", b"");
    let page = json(&api.get("/listing/lock?order=sequence&limit=3"));
    let expected: Vec<String> = (0..3).map(|number| format!("{}{number:010}", name(number))).collect();
    assert_eq!((names(&page), &page["sequential"], &page["total"]), (expected, &json!(1000), &json!(1001)));
    // The holder leaves: the list is new at once, and the next one is first.
    assert_eq!(api.delete(&format!("/tree/lock/{}{:010}", name(0), 0)).status, 204);
    let page = json(&api.get("/listing/lock?order=sequence&limit=1"));
    assert_eq!(names(&page), vec![format!("{}{:010}", name(1), 1)]);
    for bad in ["order=time", "order=sequence&offset=1", "order=sequence&find=x"] {
        refused(&api.get(&format!("/listing/lock?{bad}")), 400, "BADARGUMENTS");
    }
}

#[test]
fn the_list_of_a_large_node_is_kept_until_it_is_asked_for_anew() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/p", b"");
    let children: Vec<usize> = (0..KEPT_ABOVE + 10).collect();
    for part in children.chunks(500) {
        let ops: Vec<Value> =
            part.iter().map(|number| json!({"create": format!("/p/n{number:06}")})).collect();
        assert_eq!(api.post("/multi", json!({ "ops": ops }).to_string().as_bytes()).status, 200);
    }
    assert_eq!(json(&api.get("/listing/p?limit=1"))["changed"], false);
    assert_eq!(api.delete("/tree/p/n000000").status, 204);
    let kept = json(&api.get("/listing/p?limit=2"));
    assert_eq!((&kept["changed"], &kept["total"]), (&json!(true), &json!(KEPT_ABOVE + 10)));
    assert_eq!((&kept["items"][0]["gone"], kept["items"][1].get("gone")), (&json!(true), None));
    let fresh = json(&api.get("/listing/p?limit=1&reload"));
    assert_eq!((&fresh["changed"], &fresh["total"]), (&json!(false), &json!(KEPT_ABOVE + 9)));
}

/// Walks to the end in pages.
fn walk(api: &Api, query: &str) -> (Vec<String>, u64) {
    let (mut found, mut visited, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = json(&api.get(&format!("{query}{after}")));
        found.extend(names(&page));
        visited += page["visited"].as_u64().unwrap();
        assert_eq!(page["jumped"], false);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (found, visited),
        }
    }
}

#[test]
fn a_scan_finds_nodes_by_name_data_and_size_in_pages() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/s", b"");
    for parent in ["/s/a", "/s/b"] {
        create(&api, parent, b"parent");
        for number in 0..10 {
            create(&api, &format!("{parent}/job-{number}"), format!("host-{number}").as_bytes());
        }
    }
    let (all, visited) = walk(&api, "/scan/s?visit=4");
    assert_eq!((all.len(), visited), (23, 23));
    assert_eq!(all[..3], ["/s", "/s/a", "/s/a/job-0"], "parents come first");
    for limit in [1, 2, 7] {
        assert_eq!(walk(&api, &format!("/scan/s?limit={limit}")).0, all);
    }
    assert_eq!(walk(&api, "/scan/s?name=job-7").0, ["/s/a/job-7", "/s/b/job-7"]);
    assert_eq!(walk(&api, "/scan/s?data=st-3&visit=5").0, ["/s/a/job-3", "/s/b/job-3"]);
    assert_eq!(walk(&api, "/scan/s?larger=5&name=?").0, ["/s/a", "/s/b"]);
    let page = json(&api.get("/scan/s/a/job-1?base64&acl"));
    assert_eq!(page["items"][0]["base64"], "aG9zdC0x");
    assert_eq!(page["items"][0]["acl"], json!([{"scheme": "world", "id": "anyone", "perms": "cdrwa"}]));
    assert_eq!((&page["bytes"], &page["next"]), (&json!(6), &Value::Null));
    refused(&api.get("/scan/none"), 404, "NONODE");
}

#[test]
fn a_scan_goes_on_where_its_place_was_deleted() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/s", b"");
    for name in ["a", "b", "c", "d"] {
        create(&api, &format!("/s/{name}"), b"");
    }
    let first = json(&api.get("/scan/s?visit=3"));
    assert_eq!(first["next"], "/s/b");
    assert_eq!(api.delete("/tree/s/b").status, 204);
    let second = json(&api.get("/scan/s?after=/s/b"));
    assert_eq!(
        (&second["jumped"], names(&second)),
        (&json!(true), vec!["/s/a".into(), "/s/c".into(), "/s/d".into()])
    );
}

#[test]
fn a_scan_hides_what_its_caller_may_not_read() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/s", b"");
    let alice = "Authorization: Basic YWxpY2U6c2VjcmV0";
    assert_eq!(api.call("POST", "/tree/s/mine?acl=auth::cdrwa", &[alice], b"mine").status, 201);
    assert_eq!(api.call("POST", "/tree/s/mine/deep", &[alice], b"deep").status, 201);
    let seen = json(&api.get("/scan/s"));
    assert_eq!((names(&seen), &seen["hidden"]), (vec!["/s".into()], &json!(1)));
    let all = json(&api.call("GET", "/scan/s", &[alice], b""));
    assert_eq!((names(&all).len(), &all["hidden"]), (3, &json!(0)));
    let root = json(&api.get("/scan/s/mine"));
    assert_eq!((&root["hidden"], &root["bytes"]), (&json!(1), &json!(0)));
}

#[test]
fn groups_are_parents_of_sequential_children() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    for path in ["/q", "/plain", "/plain/x"] {
        create(&api, path, b"");
    }
    for _ in 0..3 {
        create(&api, "/q/item-?mode=sequential", b"");
    }
    let page = json(&api.get("/scan/?groups"));
    let group = json!({"path": "/q", "sequential": 3, "ephemeral": 0, "sample": "item-0000000000"});
    assert_eq!((&page["groups"], &page["items"]), (&json!([group]), &json!([])));
}

#[test]
fn numbers_and_roles_of_the_server() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    create(&api, "/a", b"");
    let stats = json(&api.get("/stats"));
    assert_eq!((&stats["role"], &stats["epoch"]), (&json!("standalone"), &Value::Null));
    assert!(stats["nodes"].as_u64().unwrap() >= 1 && stats["zxid"].as_str().unwrap().starts_with("0x"));
    assert!(stats["values"]["znode_count"].is_u64(), "{stats}");
    crate::admin_common::eventually("the role is recorded", || {
        let roles = json(&api.get("/roles"));
        roles["changes"].as_array().unwrap().iter().any(|change| change["role"] == "standalone")
    });
}
