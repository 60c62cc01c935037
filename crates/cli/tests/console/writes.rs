//! Changes by the console: locked until they are asked for, shown before they are made, and never blind.

use zebu_proto::client::SetAclRequest;
use zebu_proto::{Acl, Jute, OpCode};

use crate::common::{auth_body, create_body, done, open, path_only, set_data_body};
use crate::scene::{PERSISTENT, Scene, create, unlock};

fn data_of(scene: &mut Scene, path: &str) -> Vec<u8> {
    let body = crate::common::path_and_watch(path, false);
    let (_, reply) = done(&mut scene.client, OpCode::GetData, body);
    let length = u32::from_be_bytes(reply[..4].try_into().unwrap()) as usize;
    reply[4..4 + length].to_vec()
}

#[test]
fn an_edit_shows_its_difference_and_loses_no_write_of_others() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/a", b"one\ntwo\nthree", PERSISTENT);
    scene.browser.open("tree?path=/a&lang=en");
    assert_eq!(scene.browser.script("return document.querySelector('#node-edit')"), serde_json::Value::Null);
    unlock(&scene.browser);
    scene.browser.click("#node-edit");
    scene.browser.fill("#editor", "one\n2\nthree");
    scene.browser.click("#edit-review");
    scene.browser.wait_text(".diff-line.minus", "two");
    scene.browser.wait_text(".diff-line.plus", "2");
    scene.browser.click("#edit-write");
    scene.browser.wait_text("pre.data", "2");
    assert_eq!(data_of(&mut scene, "/a"), b"one\n2\nthree");
    // Another client writes between the edit and the write.
    scene.browser.click("#node-edit");
    scene.browser.fill("#editor", "mine");
    done(&mut scene.client, OpCode::SetData, set_data_body("/a", b"theirs", -1));
    scene.browser.click("#edit-review");
    scene.browser.click("#edit-write");
    scene.browser.wait_text("dialog", "Another client wrote first");
    assert_eq!(data_of(&mut scene, "/a"), b"theirs");
    scene.browser.click("dialog .primary");
    scene.browser.click("#edit-review");
    scene.browser.wait_text(".diff-line.minus", "theirs");
    scene.browser.click("#edit-write");
    scene.browser.wait_text("pre.data", "mine");
    assert_eq!(data_of(&mut scene, "/a"), b"mine");
    assert_eq!(scene.browser.errors(), Vec::<String>::new());
}

/// A text field of a browser has one kind of line ends, and the data keeps its own.
#[test]
fn an_edit_keeps_the_line_ends_of_the_data() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/windows", b"one\r\ntwo\r\nthree\r\n", PERSISTENT);
    create(&mut scene.client, "/mixed", b"one\r\ntwo\nthree", PERSISTENT);
    create(&mut scene.client, "/mac", b"one\rtwo", PERSISTENT);
    scene.browser.open("tree?path=/windows&lang=en");
    unlock(&scene.browser);
    scene.browser.click("#node-edit");
    scene.browser.wait_text(".tab-body", "end with CR LF");
    scene.browser.click("#edit-review");
    scene.browser.wait_text(".toasts", "Nothing has changed");
    scene.browser.fill("#editor", "one\n2\nthree\n");
    scene.browser.click("#edit-review");
    let changed = "return document.querySelectorAll('.diff-line.minus, .diff-line.plus').length";
    scene.browser.wait_text(".diff-line.plus", "2");
    assert_eq!(scene.browser.script(changed), 2, "one line differs");
    scene.browser.click("#edit-write");
    scene.browser.wait_text("pre.data", "2");
    assert_eq!(data_of(&mut scene, "/windows"), b"one\r\n2\r\nthree\r\n");
    for (path, digits) in [("/mixed", "6f 6e 65 0d 0a 74 77 6f 0a"), ("/mac", "6f 6e 65 0d 74 77 6f")] {
        scene.browser.open(&format!("tree?path={path}"));
        unlock(&scene.browser);
        scene.browser.click("#node-edit");
        scene.browser.wait_text(".tab-body", "end in different ways");
        let code = format!("return document.querySelector('#editor').value.startsWith('{digits}')");
        scene.browser.wait("hexadecimal digits", &code);
    }
    assert_eq!(scene.browser.errors(), Vec::<String>::new());
}

/// Behind the dialog, the page shows another node by then.
#[test]
fn a_dialog_ends_when_the_reader_goes_back() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/a", b"of a", PERSISTENT);
    create(&mut scene.client, "/b", b"of b", PERSISTENT);
    scene.browser.open("tree?path=/b&lang=en");
    unlock(&scene.browser);
    scene.browser.wait_text("pre.data", "of b");
    scene.browser.script(
        "history.pushState(null, '', 'tree?path=/a&lang=en'); dispatchEvent(new PopStateEvent('popstate'))",
    );
    scene.browser.wait_text("pre.data", "of a");
    scene.browser.click("#node-edit");
    scene.browser.fill("#editor", "changed");
    scene.browser.click("#edit-review");
    scene.browser.wait_text(".diff-line.plus", "changed");
    scene.browser.script("history.back()");
    scene.browser.wait_text("pre.data", "of b");
    scene.browser.wait("no dialog", "return document.querySelector('dialog') === null");
    assert_eq!(data_of(&mut scene, "/a"), b"of a");
    assert_eq!(data_of(&mut scene, "/b"), b"of b");
    assert_eq!(scene.browser.errors(), Vec::<String>::new());
}

#[test]
fn nodes_are_created_copied_and_deleted_after_a_plan() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/a", b"", PERSISTENT);
    let browser = &scene.browser;
    browser.open("tree?path=/a&lang=en");
    unlock(browser);
    browser.click("#node-new");
    browser.fill("#create-name", "b");
    browser.wait_text(".preview", "/a/b");
    browser.fill("#create-data", "value");
    browser.click("#create-write");
    browser.wait_text(".crumbs", "b");
    browser.wait_text("pre.data", "value");
    for number in 0..150 {
        create(&mut scene.client, &format!("/a/n{number}"), b"x", PERSISTENT);
    }
    browser.open("tree?path=/a");
    unlock(browser);
    browser.click("#node-copy");
    browser.fill("#copy-target", "/copied");
    browser.click("#copy-plan");
    browser.wait_text("dialog", "152 nodes");
    browser.click("#copy-run");
    browser.wait_text(".crumbs", "copied");
    browser.wait_text(".node-line", "151 children");
    // A large deletion needs the name.
    browser.click("#node-delete");
    browser.wait_text("dialog", "152 nodes");
    assert_eq!(browser.script("return document.querySelector('#delete-run').disabled"), true);
    browser.click("#delete-export");
    browser.fill("#delete-typed", "copied");
    browser.click("#delete-run");
    browser.wait_text(".toasts", "152 nodes deleted");
    let (_, header, _) =
        scene.client.call(OpCode::Exists, crate::common::path_and_watch("/copied", false)).unwrap();
    assert_ne!(header.err, 0, "the node is gone");
    done(&mut scene.client, OpCode::GetChildren, crate::common::path_and_watch("/a", false));
    assert_eq!(scene.browser.errors(), Vec::<String>::new());
}

#[test]
fn a_login_has_the_rights_of_its_identity_and_no_more() {
    let Some(mut scene) = Scene::empty("") else { return };
    let (mut alice, _) = open(&scene.server);
    done(&mut alice, OpCode::Auth, auth_body("digest", b"alice:secret"));
    done(
        &mut alice,
        OpCode::Create,
        create_body("/private", b"for alice", vec![Acl::new(31, "auth", "")], 0),
    );
    create(&mut scene.client, "/public", b"", PERSISTENT);
    let browser = &scene.browser;
    browser.open("tree?path=/private&lang=en");
    browser.wait_text(".node", "Log in as a user");
    browser.click("#who");
    browser.fill("#login-user", "alice");
    browser.fill("#login-password", "secret");
    browser.click("dialog .primary");
    browser.wait_text("pre.data", "for alice");
    // The password is in no place that a script of the page could read.
    let stores = browser.script("return JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + document.documentElement.outerHTML");
    assert!(!stores.as_str().unwrap().contains("secret"));
    browser.open("tree?path=/private&tab=acl");
    browser.wait_text("table", "digest");
    unlock(browser);
    browser.click("#acl-edit");
    browser.click("dialog .acl-editor > .quiet");
    browser.click("#acl-write");
    browser.wait_text(".tab-body", "world");
    browser.click("#who");
    browser.wait_text("#who", "Log in");
    let (_, body) = done(&mut scene.client, OpCode::GetAcl, path_only("/private"));
    assert!(!body.is_empty(), "the world may read now");
    browser.open("tree?path=/private");
    browser.wait_text("pre.data", "for alice");
}

#[test]
fn a_console_that_only_reads_shows_no_writes() {
    let Some(mut scene) = Scene::empty("admin.console.readOnly=true") else { return };
    create(&mut scene.client, "/a", b"data", PERSISTENT);
    scene.browser.open("tree?path=/a&lang=en");
    scene.browser.wait_text("pre.data", "data");
    let shown = scene.browser.script("return [!!document.querySelector('#node-unlock'), !!document.querySelector('button#write-lock'), !!document.querySelector('.actions')]");
    assert_eq!(shown, serde_json::json!([false, false, false]));
}

#[test]
fn the_acl_of_a_whole_subtree_changes_after_a_preview() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/tree", b"", PERSISTENT);
    for number in 0..120 {
        create(&mut scene.client, &format!("/tree/n{number}"), b"", PERSISTENT);
    }
    let (mut alice, _) = open(&scene.server);
    done(&mut alice, OpCode::Auth, auth_body("digest", b"alice:secret"));
    let own = vec![Acl::new(31, "auth", "")];
    done(&mut alice, OpCode::Create, create_body("/tree/own", b"", own, 0));
    let browser = &scene.browser;
    browser.open("tree?path=/tree&tab=acl&lang=en");
    unlock(browser);
    browser.click("#acl-edit");
    // The world may not write any more.
    browser.script("document.querySelectorAll('.acl-row .perms input')[3].click()");
    browser.click("#acl-tree");
    browser.wait_text("dialog", "121 of 121 nodes change");
    browser.wait_text("dialog", "1 node is hidden");
    browser.wait_text("dialog .plan-list", "world:anyone:cdrwa");
    assert_eq!(browser.script("return document.querySelector('#acl-tree-run').disabled"), true);
    // A node that another client changes after the preview stays as it is.
    done(&mut scene.client, OpCode::SetAcl, set_acl_body("/tree/n7", vec![Acl::new(17, "world", "anyone")]));
    browser.fill("#acl-tree-typed", "tree");
    browser.click("#acl-tree-run");
    browser.wait_text(".toasts", "120 ACLs changed");
    browser.wait_text("dialog", "1 node stayed as it is");
    browser.wait_text("dialog .plan-list", "/tree/n7");
    for (path, perms) in [("/tree", 29), ("/tree/n0", 29), ("/tree/n119", 29), ("/tree/n7", 17)] {
        let (_, body) = done(&mut scene.client, OpCode::GetAcl, path_only(path));
        assert_eq!(i32::from_be_bytes(body[4..8].try_into().unwrap()), perms, "{path}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

fn set_acl_body(path: &str, acl: Vec<Acl>) -> impl FnOnce(&mut Vec<u8>) {
    let request = SetAclRequest { path: Some(path.into()), acl: Some(acl.into()), version: -1 };
    move |out| request.encode(out)
}
