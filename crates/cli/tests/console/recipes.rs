//! The page of recipes: the holder of a long queue, and the layouts of Curator and Kazoo.

use zebu_proto::client::multi::MULTI_END;
use zebu_proto::client::{CreateMode, CreateOp, CreateRequest, MultiOp};
use zebu_proto::{Acl, Jute, OpCode};
use zebu_testing::RawClient;

use crate::browser::Browser;
use crate::common::{create_body, done};
use crate::remote::RemoteConsole;
use crate::scene::{EPHEMERAL, EPHEMERAL_SEQUENTIAL, PERSISTENT, SEQUENTIAL, Scene, create};

const CONTENDERS: u32 = 1000;
const PER_MULTI: u32 = 500;

/// Creates ephemeral sequential nodes in one transaction.
fn contend(client: &mut RawClient, paths: Vec<String>) {
    done(client, OpCode::Multi, |out: &mut Vec<u8>| {
        for path in paths {
            let request = CreateRequest {
                op: CreateOp::Create,
                path: Some(path.into()),
                data: None,
                acl: Some(Acl::open().into()),
                flags: CreateMode::EphemeralSequential.flags(),
                ttl_ms: -1,
            };
            MultiOp::Create(request).encode(out);
        }
        MULTI_END.encode(out);
    });
}

fn wait_for_holder(browser: &Browser) {
    browser.open("recipes?under=/locks&lang=en");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "the-holder");
    browser.wait_text("[data-kind=curator-lock]", "1,000 waiting");
    let holders = "return document.querySelectorAll('[data-kind=curator-lock] tr.holds').length";
    assert_eq!(browser.script(holders), 1);
}

/// The random identifier at the beginning of a name decides its place among the names, not its turn.
#[test]
fn the_holder_of_a_lock_with_a_thousand_contenders_is_named() {
    let Some(mut scene) = Scene::empty("") else { return };
    let client = &mut scene.client;
    create(client, "/locks", b"", PERSISTENT);
    create(client, "/locks/long", b"", PERSISTENT);
    let path =
        |number: u32| format!("/locks/long/_c_{:08x}-2222-3333-4444-555555555555-lock-", u32::MAX - number);
    create(client, &path(0), b"the-holder", EPHEMERAL_SEQUENTIAL);
    for begin in (0..CONTENDERS).step_by(PER_MULTI as usize) {
        contend(client, (begin + 1..=begin + PER_MULTI).map(path).collect());
    }
    wait_for_holder(&scene.browser);
    let console = RemoteConsole::start(scene.server.address(), &[]);
    let Some(browser) = Browser::start(console.address) else { return };
    wait_for_holder(&browser);
}

#[test]
fn a_contender_that_the_login_may_not_read_keeps_its_turn() {
    let Some(mut scene) = Scene::empty("") else { return };
    let client = &mut scene.client;
    create(client, "/lock", b"", PERSISTENT);
    let closed = vec![Acl::new(31, "digest", "bob:x")];
    let path = "/lock/_c_11111111-2222-3333-4444-555555555555-lock-";
    done(client, OpCode::Create, create_body(path, b"bob", closed, EPHEMERAL_SEQUENTIAL));
    create(client, path, b"alice", EPHEMERAL_SEQUENTIAL);
    scene.browser.open("recipes?lang=en");
    scene.browser.wait_text("[data-kind=curator-lock] tr.holds", "hidden by its ACL");
    scene.browser.wait_text("[data-kind=curator-lock] tr:not(.holds)", "alice");
}

const UUID: [&str; 2] = ["11111111-2222-3333-4444-555555555555", "aaaaaaaa-2222-3333-4444-555555555555"];
const HEX: [&str; 2] = ["0123456789abcdef0123456789abcdef", "f123456789abcdef0123456789abcdef"];

/// Parent, its data, its children with their modes, its kind, and how many of them hold.
type Layout = (&'static str, &'static str, Vec<(String, i32)>, &'static str, usize);

/// The layouts as Curator 5 and Kazoo 2 write them.
fn layouts() -> Vec<Layout> {
    let both = |ids: [&str; 2], form: &str, mode: i32| -> Vec<(String, i32)> {
        ids.iter().map(|id| (form.replace("ID", id), mode)).collect()
    };
    let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), SEQUENTIAL)).collect::<Vec<_>>();
    let ready = |mut members: Vec<(String, i32)>| {
        members.push(("ready".to_owned(), PERSISTENT));
        members
    };
    vec![
        ("/curator/latch", "", both(UUID, "_c_ID-latch-", EPHEMERAL_SEQUENTIAL), "curator-latch", 1),
        ("/curator/sem/leases", "", both(UUID, "_c_ID-lease-", EPHEMERAL_SEQUENTIAL), "curator-semaphore", 2),
        ("/curator/sem/locks", "", both(UUID, "_c_ID-lock-", EPHEMERAL_SEQUENTIAL), "semaphore-guard", 1),
        ("/curator/barrier", "", ready(both(UUID, "ID", EPHEMERAL)), "double-barrier", 0),
        ("/curator/queue", "", of(&["queue-", "queue-|7|"]), "queue", 0),
        ("/curator/priority", "", of(&["queue-100000005", "queue-100000001"]), "priority-queue", 0),
        ("/curator/delay", "", of(&["queue-|19FFFFFFFFF|", "queue-|18FFFFFFFFF|"]), "delay-queue", 0),
        (
            "/kazoo/rw",
            "",
            vec![
                (format!("{}__lock__", HEX[0]), EPHEMERAL_SEQUENTIAL),
                (format!("{}__rlock__", HEX[1]), EPHEMERAL_SEQUENTIAL),
            ],
            "kazoo-read-write",
            1,
        ),
        ("/kazoo/sem", "2", both(HEX, "ID", EPHEMERAL), "kazoo-semaphore", 2),
        ("/kazoo/sem-__lock__", "", both(HEX, "ID__lock__", EPHEMERAL_SEQUENTIAL), "semaphore-guard", 1),
        ("/kazoo/barrier", "", both(HEX, "ID", EPHEMERAL), "double-barrier", 0),
        ("/kazoo/queue", "", of(&["entry-200-", "entry-100-"]), "priority-queue", 0),
        ("/kazoo/party", "", both(HEX, "ID__party__", EPHEMERAL), "group", 0),
    ]
}

#[test]
fn the_layouts_of_curator_and_kazoo_are_recognised() {
    let Some(mut scene) = Scene::empty("") else { return };
    for parent in ["/curator", "/curator/sem", "/kazoo"] {
        create(&mut scene.client, parent, b"", PERSISTENT);
    }
    for (parent, data, children, ..) in layouts() {
        create(&mut scene.client, parent, data.as_bytes(), PERSISTENT);
        for (name, mode) in children {
            create(&mut scene.client, &format!("{parent}/{name}"), name.as_bytes(), mode);
        }
    }
    let browser = &scene.browser;
    browser.open("recipes?lang=en");
    browser.wait(
        "all places",
        &format!("return document.querySelectorAll('.queue').length === {}", layouts().len()),
    );
    for (parent, _, _, kind, holders) in layouts() {
        let code = format!(
            "const card = [...document.querySelectorAll('.queue')].find((c) => c.querySelector('h2').innerText === '{parent}'); \
             return [card.dataset.kind, card.querySelectorAll('tr.holds').length]"
        );
        assert_eq!(browser.script(&code), serde_json::json!([kind, holders]), "{parent}");
    }
    // The name of a priority queue's item decides its turn; its number is from its creation.
    let first = "return [...document.querySelectorAll('[data-kind=priority-queue], [data-kind=delay-queue]')].map((c) => c.querySelector('tbody .name').innerText.slice(0, 17)).sort()";
    assert_eq!(
        browser.script(first),
        serde_json::json!(["entry-100-0000000", "queue-10000000100", "queue-|18FFFFFFFF"])
    );
    // The fencing token is the zxid that created the holder's node.
    let token = "return document.querySelector('[data-kind=curator-latch] tr.holds .token span').title";
    let shown = browser.script(token);
    let holder = format!("/curator/latch/_c_{}-latch-0000000000", UUID[0]);
    let (_, stat) = done(&mut scene.client, OpCode::Exists, crate::common::path_and_watch(&holder, false));
    let czxid = i64::from_be_bytes(stat[..8].try_into().unwrap());
    assert_eq!(shown, format!("{czxid:#x} = {czxid}"));
    assert_eq!(browser.errors(), Vec::<String>::new());
}
