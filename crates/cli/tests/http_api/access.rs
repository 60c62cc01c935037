//! Identities, ACLs, other origins, and the audit log.

use serde_json::json;

use crate::admin_common::{AS_SUPER, admin_port, eventually, exchange};
use crate::api::{Api, json, refused, request, server};
use crate::tls_common;

/// `a:secret` and `b:secret` as Basic.
const AS_A: &str = "Authorization: Basic YTpzZWNyZXQ=";
const AS_B: &str = "Authorization: Basic YjpzZWNyZXQ=";

#[test]
fn acls_hold_for_the_digest_identity() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    let created = api.call("POST", "/tree/mine?acl=auth::cdrwa&acl=world:anyone:", &[AS_A], b"hidden");
    assert_eq!(created.status, 201, "{}", created.text());
    let anonymous = api.get("/tree/mine");
    refused(&anonymous, 401, "NOAUTH");
    assert!(anonymous.header("www-authenticate").unwrap().starts_with("Basic"));
    refused(&api.call("GET", "/tree/mine", &[AS_B], b""), 403, "NOAUTH");
    refused(&api.call("GET", "/tree/mine?stat", &[AS_B], b""), 403, "NOAUTH");
    refused(&api.call("GET", "/tree/mine?children", &[AS_B], b""), 403, "NOAUTH");
    refused(&api.call("PUT", "/tree/mine", &[AS_B], b"x"), 403, "NOAUTH");
    refused(&api.call("POST", "/tree/mine/x", &[AS_B], b"x"), 403, "NOAUTH");
    refused(&api.put("/tree/mine", b"x"), 401, "NOAUTH");
    assert_eq!(api.call("GET", "/tree/mine", &[AS_A], b"").body, b"hidden");
    assert_eq!(api.call("GET", "/tree/mine", &["Authorization: digest a:secret"], b"").body, b"hidden");
    let as_super = format!("Authorization: {AS_SUPER}");
    assert_eq!(api.call("GET", "/tree/mine", &[&as_super], b"").body, b"hidden");
    // Children that the caller may not read are listed without their stat.
    let page = json(&api.get("/tree/?children&stat"));
    assert_eq!((&page["children"][0]["name"], &page["children"][0]["stat"]), (&json!("mine"), &json!(null)));

    let acl = api.call("GET", "/acl/mine", &[AS_A], b"");
    let tag = acl.header("etag").unwrap().to_owned();
    let entries = json(&acl)["acl"].clone();
    assert_eq!((&entries[0]["scheme"], &entries[0]["perms"]), (&json!("digest"), &json!("cdrwa")));
    refused(&api.get("/acl/mine"), 401, "NOAUTH");
    let readable =
        json!({"acl": [entries[0], {"scheme": "world", "id": "anyone", "perms": "r"}]}).to_string();
    refused(&api.call("PUT", "/acl/mine", &[AS_B], readable.as_bytes()), 403, "NOAUTH");
    let condition = format!("If-Match: {tag}");
    let changed = api.call("PUT", "/acl/mine", &[AS_A, &condition], readable.as_bytes());
    assert_eq!((changed.status, &json(&changed)["stat"]["aversion"]), (200, &json!(1)));
    refused(&api.call("PUT", "/acl/mine", &[AS_A, &condition], readable.as_bytes()), 412, "BADVERSION");
    assert_eq!(api.get("/tree/mine").body, b"hidden");
    let masked = json(&api.get("/acl/mine"));
    assert_eq!(masked["acl"][0]["id"], "a:x", "a digest is not shown to others");
    for bad in ["", "{}", "{\"acl\":[]}", "{\"acl\":[{\"scheme\":\"what\",\"id\":\"x\",\"perms\":\"r\"}]}"] {
        assert_eq!(api.call("PUT", "/acl/mine", &[AS_A], bad.as_bytes()).status, 400, "{bad}");
    }
    refused(&api.call("PUT", "/acl/none", &[AS_A], readable.as_bytes()), 404, "NONODE");
}

#[test]
fn callers_learn_who_they_are() {
    let server = server().start().unwrap();
    let api = Api::of(&server);
    assert_eq!(json(&api.get("/whoami"))["ids"], json!([{"scheme": "ip", "user": "127.0.0.1"}]));
    let known = json(&api.call("GET", "/whoami", &[AS_A], b""));
    assert_eq!((&known["ids"][0]["user"], &known["isSuper"]), (&json!("a"), &json!(false)));
    let as_super = format!("Authorization: {AS_SUPER}");
    assert_eq!(json(&api.call("GET", "/whoami", &[&as_super], b""))["isSuper"], true);
    for bad in ["Basic", "Basic %%%", "Bearer x", "nothing x", "x509", "digest"] {
        refused(&api.call("GET", "/whoami", &[&format!("Authorization: {bad}")], b""), 401, "AUTHFAILED");
    }
    refused(&api.call("GET", "/whoami", &[AS_A, AS_B], b""), 401, "AUTHFAILED");
}

/// The entries in front of the last one are written by clients.
#[test]
fn the_address_behind_a_trusted_proxy_is_the_callers() {
    let forwarded = "X-Forwarded-For: 10.9.9.9, 192.0.2.7";
    let who = |api: &Api| json(&api.call("GET", "/whoami", &[forwarded], b""))["ids"][0]["user"].clone();
    let believed = server()
        .line("IPAuthenticationProvider.usexforwardedfor=true")
        .line("admin.trustedProxies=192.0.2.1, 127.0.0.0/8")
        .start()
        .unwrap();
    let api = Api::of(&believed);
    assert_eq!(who(&api), "192.0.2.7");
    let created = api.call("POST", "/tree/near?acl=ip:192.0.2.0%2F24:cdrwa", &[forwarded], b"x");
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(api.call("GET", "/tree/near", &[forwarded], b"").status, 200);
    refused(&api.get("/tree/near"), 401, "NOAUTH");

    let other_proxy = server()
        .line("IPAuthenticationProvider.usexforwardedfor=true")
        .line("admin.trustedProxies=192.0.2.1")
        .start()
        .unwrap();
    assert_eq!(who(&Api::of(&other_proxy)), "127.0.0.1", "a client can write the header too");
}

#[test]
fn acls_hold_for_the_identity_of_a_certificate() {
    let authority = tls_common::TestAuthority::new("test");
    let home = tempfile::tempdir().unwrap();
    tls_common::write_private(&home.path().join("keys.pem"), &authority.server("admin"));
    std::fs::write(home.path().join("trust.pem"), authority.pem()).unwrap();
    let server = server()
        .line(format!("ssl.quorum.keyStore.location={}", home.path().join("keys.pem").display()))
        .line(format!("ssl.quorum.trustStore.location={}", home.path().join("trust.pem").display()))
        .line("authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
        .line("admin.portUnification=true")
        .line("admin.needClientAuth=true")
        .start()
        .unwrap();
    let call = |name: &str, method: &str, path: &str| {
        let identity = authority.client(&[(rcgen::DnType::CommonName, name)]);
        let config = tls_common::client_config(&authority.pem(), Some(&identity), &tls_common::BOTH_VERSIONS);
        let client = tls_common::TlsClient::connect(admin_port(&server), &config).unwrap();
        // A name in the Host header is allowed behind TLS only by the rule of the port.
        exchange(client.stream, &request(method, path, &[], b""))
    };
    assert_eq!(json(&call("shop", "GET", "/whoami"))["ids"][0], json!({"scheme": "x509", "user": "CN=shop"}));
    let created = call("shop", "POST", "/tree/shop?acl=x509:CN%3Dshop:cdrwa");
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(call("shop", "GET", "/tree/shop").status, 200);
    refused(&call("other", "GET", "/tree/shop"), 403, "NOAUTH");
    refused(&call("other", "PUT", "/tree/shop"), 403, "NOAUTH");
    refused(&Api::of(&server).get("/tree/shop"), 401, "NOAUTH");
}

#[test]
fn pages_of_other_origins_and_foreign_names_are_refused() {
    let server = server().line("admin.allowedHosts=zk1").start().unwrap();
    let api = Api::of(&server);
    for (lines, passes) in [
        (&["Origin: http://evil.example"][..], false),
        (&["Origin: null"], false),
        (&["Sec-Fetch-Site: cross-site"], false),
        (&["Sec-Fetch-Site: same-site"], false),
        (&["Host: evil.example:8080"], false),
        (&["Host: evil.example:8080", "Origin: http://evil.example:8080"], false),
        (&["Host: zk1:8080", "Origin: http://zk1:8080", "Sec-Fetch-Site: same-origin"], true),
        (&["Host: localhost"], true),
    ] {
        for method in ["GET", "PUT"] {
            let answer = api.call(method, "/tree/o", lines, b"x");
            if passes {
                assert!([200, 201, 404].contains(&answer.status), "{lines:?} {}", answer.text());
            } else {
                refused(&answer, 403, "NOAUTH");
            }
        }
        let read = api.call("GET", "/features", lines, b"");
        assert_eq!(read.status == 200, passes, "{lines:?}");
        assert_eq!(read.header("access-control-allow-origin"), None);
    }
    // The question of a browser before a request of another origin is refused, too.
    let preflight = ["Origin: http://evil.example", "Access-Control-Request-Method: PUT"];
    assert_eq!(api.call("OPTIONS", "/tree/o", &preflight, b"").status, 403);
}

#[test]
fn a_required_scheme_holds_for_http() {
    let server =
        server().line("enforce.auth.enabled=true").line("enforce.auth.schemes=digest").start().unwrap();
    let api = Api::of(&server);
    for answer in [api.get("/tree/"), api.put("/tree/a", b""), api.get("/sessions")] {
        refused(&answer, 401, "SESSIONCLOSEDREQUIRESASLAUTH");
    }
    assert_eq!(api.call("PUT", "/tree/a", &[AS_A], b"x").status, 201);
    assert_eq!(api.call("GET", "/tree/a", &[AS_A], b"").body, b"x");
}

#[test]
fn writes_are_in_the_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("audit.log");
    let server = server()
        .line("audit.enable=true")
        .line(format!("zebu.audit.file={}", file.display()))
        .start()
        .unwrap();
    let api = Api::of(&server);
    assert_eq!(api.call("POST", "/tree/audited", &[AS_A], b"").status, 201);
    refused(&api.call("POST", "/tree/audited", &[AS_A], b""), 409, "NODEEXISTS");
    eventually("the lines of both writes", || {
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let has = |result: &str| {
            let words = ["operation=create", "znode=/audited", "ip=127.0.0.1", result];
            lines.lines().any(|line| {
                let user = line.split("user=").nth(1).and_then(|rest| rest.split('\t').next());
                let names_caller = user.is_some_and(|user| user.split(',').any(|name| name == "a"));
                names_caller && words.iter().all(|word| line.contains(word))
            })
        };
        has("result=success") && has("result=failure")
    });
}

#[test]
fn quotas_and_limits_hold() {
    let server = server().line("enforceQuota=true").line("jute.maxbuffer=4096").start().unwrap();
    let api = Api::of(&server);
    let quota = json!({"ops": [
        {"create": "/q"},
        {"create": "/zookeeper/quota/q"},
        {"create": "/zookeeper/quota/q/zookeeper_limits", "data": "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2"},
        {"create": "/zookeeper/quota/q/zookeeper_stats", "data": "count=1,bytes=0"},
    ]});
    let set = api.post("/multi", quota.to_string().as_bytes());
    assert_eq!(set.status, 200, "{}", set.text());
    assert_eq!(api.post("/tree/q/1", b"").status, 201);
    refused(&api.post("/tree/q/2", b""), 507, "QUOTAEXCEEDED");
    // The body may be as long as the buffer, but the request around it is longer.
    assert_eq!(api.put("/tree/long", &[b'x'; 3900]).status, 201);
    refused(&api.put("/tree/long", &[b'x'; 4090]), 413, "BADARGUMENTS");
    refused(&api.put("/tree/long", &[b'x'; 5000]), 413, "BADARGUMENTS");
    assert_eq!(json(&api.get("/features"))["limits"]["bodyBytes"], 4096);
}
