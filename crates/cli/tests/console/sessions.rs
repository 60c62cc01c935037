//! The page of sessions: of more sessions than it shows, the right ones.

use zebu_testing::RawClient;

use crate::common::open;
use crate::scene::{EPHEMERAL, Scene, create};

/// More than the page shows.
const SESSIONS: usize = 520;

#[test]
fn sessions_are_sorted_and_filtered_among_all() {
    let Some(scene) = Scene::empty("maxClientCnxns=0") else { return };
    let mut clients: Vec<(RawClient, i64)> = (0..SESSIONS)
        .map(|_| {
            let (client, session) = open(&scene.server);
            (client, session.id.0)
        })
        .collect();
    // The page shows the first 500 by id, so the last one is not among them.
    clients.sort_by_key(|(_, id)| *id);
    let (busy, id) = clients.last_mut().unwrap();
    for number in 0..3 {
        create(busy, &format!("/held-{number}"), b"", EPHEMERAL);
    }
    let id = format!("{id:#x}");
    let browser = &scene.browser;
    browser.open("sessions?lang=en");
    browser.wait_text("main", "the first 500 are shown");
    let first = |what: &str| {
        let code = format!("return document.querySelector('main tbody tr')?.innerText.includes('{id}')");
        browser.wait(what, &code);
    };
    browser.script("const order = document.querySelector('#sessions-order'); order.value = 'ephemerals'; order.dispatchEvent(new Event('change'))");
    first("most ephemerals");
    // A copied address shows the same.
    browser.wait("the order in the address", "return location.search.includes('sort=ephemerals')");
    browser.open(&format!("sessions?lang=en&match={id}"));
    first("the session that fits");
    assert_eq!(browser.script("return document.querySelectorAll('main tbody tr').length"), 1);
    assert_eq!(browser.errors(), Vec::<String>::new());
}
