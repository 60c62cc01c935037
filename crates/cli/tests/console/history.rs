//! The history of a node: its versions in the logs and in a snapshot, and the difference of two of them.

use zebu_proto::client::DeleteRequest;
use zebu_proto::{Acl, Jute, OpCode};

use crate::common::{create_body, done, open, set_data_body};
use crate::scene::{PERSISTENT, Scene, create, log_in_as_super, unlock};
use crate::screenshots::{NARROW, WIDE, picture, show, wanted};

#[test]
fn the_versions_of_a_node_are_in_its_history() {
    let Some(mut scene) = Scene::empty("snapCount=2") else { return };
    create(&mut scene.client, "/app", b"", PERSISTENT);
    create(&mut scene.client, "/app/config", br#"{"threads":18,"on":true}"#, PERSISTENT);
    create(&mut scene.client, "/app/gone", b"once", PERSISTENT);
    // Each of these goes into a log of its own, or nearly so.
    for number in 0..20 {
        create(&mut scene.client, &format!("/app/n{number}"), b"x", PERSISTENT);
    }
    done(
        &mut scene.client,
        OpCode::SetData,
        set_data_body("/app/config", br#"{"threads":19,"on":true}"#, -1),
    );
    done(&mut scene.client, OpCode::Delete, |out: &mut Vec<u8>| {
        DeleteRequest { path: Some("/app/gone".into()), version: -1 }.encode(out);
    });
    let browser = &scene.browser;
    browser.open("tree?path=/app/config&tab=history&lang=en");
    browser.wait_text(".history", "Only the super user");
    log_in_as_super(browser);
    browser
        .wait("two versions", "return document.querySelectorAll('#history-versions tbody tr').length === 2");
    browser.wait_text("#history-versions", "created");
    browser.wait_text(".history .diff-line.minus", "\"threads\": 18");
    browser.wait_text(".history .diff-line.plus", "\"threads\": 19");
    browser.wait_text(".history", "All files of this server were read");
    if let Some(target) = wanted() {
        for (name, language, theme, size) in [
            ("history-light", "en", "light", WIDE),
            ("history-dark-zh", "zh", "dark", WIDE),
            ("history-dark-narrow", "en", "dark", NARROW),
            ("history-light-zh-narrow", "zh", "light", NARROW),
        ] {
            show(browser, "tree?path=/app/config&tab=history", (language, theme), size);
            browser.wait("a difference", "return !!document.querySelector('.history .diff-line.plus')");
            picture(browser, &target, name);
        }
        show(browser, "tree?path=/app/config&tab=history", ("en", "light"), WIDE);
    }
    // The first version again, as a third one.
    unlock(browser);
    browser.script("document.querySelectorAll('#history-versions tbody tr')[1].querySelector('input[name=history-b]').click()");
    browser.click("#history-restore");
    browser.wait_text("dialog .diff-line.plus", "18");
    browser.click("dialog .danger");
    browser.wait(
        "three versions",
        "return document.querySelectorAll('#history-versions tbody tr').length === 3",
    );
    browser.open("tree?path=/app/config&lang=en");
    browser.wait_text("pre.data", "18");
    // A node that is gone has a history, too.
    browser.open("tree?path=/app/gone&tab=history&lang=en");
    browser.wait_text("#history-versions", "deleted");
    browser.wait_text("#history-versions", "created");
}

#[test]
fn a_node_that_is_older_than_the_logs_is_found_in_a_snapshot() {
    let Some(mut scene) = Scene::empty("snapCount=2") else { return };
    create(&mut scene.client, "/old", b"before", PERSISTENT);
    done(
        &mut scene.client,
        OpCode::Create,
        create_body("/acl", b"", vec![Acl::new(31, "world", "anyone")], 0),
    );
    for number in 0..40 {
        create(&mut scene.client, &format!("/n{number}"), b"x", PERSISTENT);
    }
    let directory = scene.server.data_dir().join("version-2");
    let names = |prefix: &str| {
        let mut names: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
            .collect();
        let zxid = |path: &std::path::PathBuf| {
            i64::from_str_radix(path.extension().unwrap().to_str().unwrap(), 16).unwrap()
        };
        names.sort_by_key(zxid);
        names
    };
    crate::admin_common::eventually("snapshots", || names("snapshot.").len() > 3);
    drop(scene.client);
    let (mut client, _) = open(&scene.server);
    done(&mut client, OpCode::SetData, set_data_body("/old", b"after", -1));
    // What a purge does: the oldest files go.
    let snapshots = names("snapshot.");
    for path in &snapshots[..snapshots.len() - 1] {
        std::fs::remove_file(path).unwrap();
    }
    let logs = names("log.");
    for path in &logs[..logs.len() - 2] {
        std::fs::remove_file(path).unwrap();
    }
    let browser = &scene.browser;
    browser.open("tree?path=/old&tab=history&lang=en");
    log_in_as_super(browser);
    browser.wait_text("#history-versions", "in a snapshot");
    browser.wait_text(".history .diff-line.minus", "before");
    browser.wait_text(".history .diff-line.plus", "after");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
