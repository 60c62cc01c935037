//! `zebu console`: the same pages over the client protocol.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use zebu_proto::{Acl, OpCode};

use crate::browser::Browser;
use crate::common::{auth_body, create_body, done, open, set_data_body};
use crate::scene::{PERSISTENT, Scene, create, unlock};

/// The command, which ends with the value.
pub(crate) struct RemoteConsole {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl RemoteConsole {
    pub(crate) fn start(server: SocketAddr, arguments: &[&str]) -> RemoteConsole {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["console", "--port", "0", "--server", &server.to_string()])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.and_then(|text| text.parse().ok());
        RemoteConsole { child, address: address.unwrap_or_else(|| panic!("{line}")) }
    }
}

impl Drop for RemoteConsole {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page, and a text that it shows of the scene.
const PAGES: [(&str, &str); 9] = [
    ("", "standalone"),
    ("tree?path=/app/config", "12345678901234567890"),
    ("tree?path=/app/jobs/job-0031&tab=stat", "ephemeralOwner"),
    ("search?name=job-000*", "/app/jobs/job-0007"),
    ("recipes", "pay-9"),
    ("sessions", "127.0.0.1"),
    ("watches", "/app/config"),
    ("top", "client protocol does not tell this"),
    ("ensemble", "alone"),
];

#[test]
fn pages_over_the_client_protocol_show_the_same_and_say_what_they_cannot() {
    let Some(scene) = Scene::full() else { return };
    let console = RemoteConsole::start(scene.server.address(), &[]);
    let browser = Browser::start(console.address).unwrap();
    for (page, text) in PAGES {
        let separator = if page.contains('?') { '&' } else { '?' };
        browser.open(&format!("{page}{separator}lang=en"));
        browser.wait_text("body", text);
    }
    // Locks are queues here, too, with the addresses of their clients.
    browser.open("recipes?lang=en");
    browser.wait_text("[data-kind=curator-lock]", "2 waiting");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "127.0.0.1");
    // What only a server of Zebu knows is not offered.
    browser.open("tree?path=/app/config&tab=history&lang=en");
    browser.wait_text("pre.data", "threads");
    assert_eq!(browser.script("return !!document.querySelector('#tab-history')"), false);
    assert_eq!(browser.foreign_requests(), Vec::<String>::new());
}

#[test]
fn changes_over_the_client_protocol_are_seen_and_never_blind() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/a", b"one", PERSISTENT);
    let console = RemoteConsole::start(scene.server.address(), &[]);
    let browser = Browser::start(console.address).unwrap();
    create(&mut scene.client, "/seen", b"", PERSISTENT);
    browser.open("changes?under=/seen&lang=en");
    // The page does not tell when its watch is set, so changes go on until one is shown.
    let shown = (0..600).any(|number| {
        create(&mut scene.client, &format!("/seen/n{number}"), b"", PERSISTENT);
        std::thread::sleep(Duration::from_millis(100));
        browser.script("return !!document.querySelector('.feed-row')") == true
    });
    assert!(shown, "no change was shown");
    browser.wait_text(".feed-row", "/seen/n");
    // An edit that another client overtakes is not written.
    browser.open("tree?path=/a&lang=en");
    unlock(&browser);
    browser.click("#node-edit");
    browser.fill("#editor", "mine");
    done(&mut scene.client, OpCode::SetData, set_data_body("/a", b"theirs", -1));
    browser.click("#edit-review");
    browser.click("#edit-write");
    browser.wait_text("dialog", "Another client wrote first");
    browser.click("dialog .primary");
    browser.click("#edit-review");
    browser.wait_text(".diff-line.minus", "theirs");
    browser.click("#edit-write");
    browser.wait_text("pre.data", "mine");
    // A subtree is copied and deleted.
    for number in 0..20 {
        create(&mut scene.client, &format!("/a/n{number}"), b"x", PERSISTENT);
    }
    browser.click("#node-copy");
    browser.fill("#copy-target", "/copied");
    browser.click("#copy-plan");
    browser.wait_text("dialog", "21 nodes");
    browser.click("#copy-run");
    browser.wait_text(".crumbs", "copied");
    browser.wait_text(".node-line", "20 children");
    browser.click("#node-delete");
    browser.wait_text("dialog", "21 nodes");
    browser.click("#delete-export");
    browser.click("#delete-run");
    browser.wait_text(".toasts", "21 nodes deleted");
}

#[test]
fn a_login_over_the_client_protocol_has_its_own_session() {
    let Some(scene) = Scene::empty("") else { return };
    let (mut alice, _) = open(&scene.server);
    done(&mut alice, OpCode::Auth, auth_body("digest", b"alice:secret"));
    let own = vec![Acl::new(31, "auth", "")];
    done(&mut alice, OpCode::Create, create_body("/private", b"for alice", own, 0));
    let console = RemoteConsole::start(scene.server.address(), &["--read-only"]);
    let browser = Browser::start(console.address).unwrap();
    browser.open("tree?path=/private&lang=en");
    browser.wait_text(".node", "Log in as a user");
    browser.click("#who");
    browser.fill("#login-user", "alice");
    browser.fill("#login-password", "secret");
    browser.click("dialog .primary");
    browser.wait_text("pre.data", "for alice");
    assert_eq!(browser.script("return !!document.querySelector('#node-unlock')"), false);
}
