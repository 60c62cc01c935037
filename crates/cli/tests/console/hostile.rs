//! Names and data that want to be code, bytes that are no text, and values of a megabyte.

use std::time::{Duration, Instant};

use crate::scene::{PERSISTENT, Scene, create};

const SCRIPTS: [&str; 5] = [
    "<img src=x onerror=window.__hacked=1>",
    "<script>window.__hacked=1<",
    "\"><svg onload=window.__hacked=1>",
    "javascript:window.__hacked=1",
    "${window.__hacked=1}{{window.__hacked=1}}",
];

/// A page that does not answer for this long is frozen.
const FREEZE: Duration = Duration::from_secs(20);

#[test]
fn hostile_names_and_data_execute_nothing() {
    let Some(mut scene) = Scene::empty("") else { return };
    create(&mut scene.client, "/evil", b"", PERSISTENT);
    for (number, script) in SCRIPTS.into_iter().enumerate() {
        create(
            &mut scene.client,
            &format!("/evil/{}", script.replace('/', "∕")),
            script.as_bytes(),
            PERSISTENT,
        );
        let json = format!(r#"{{"{}":"{}</script>"}}"#, number, script.replace('"', "'"));
        create(&mut scene.client, &format!("/evil/json-{number}"), json.as_bytes(), PERSISTENT);
    }
    create(&mut scene.client, "/evil/\u{202e}turned", b"", PERSISTENT);
    create(&mut scene.client, "/evil/lock-", b"<b>x</b>", 3);
    let browser = &scene.browser;
    let addresses =
        ["tree?path=/evil", "search?name=*", "recipes", "watches", "sessions", "changes?under=/evil"];
    for address in addresses {
        browser.open(&format!("{address}{}lang=en", if address.contains('?') { '&' } else { '?' }));
        browser.wait("the page", "return document.querySelector('main').innerText.length > 20");
    }
    browser.open("tree?path=/evil/json-0&lang=en");
    browser.wait_text("pre.data", "onerror");
    // A name that turns the direction of text is shown with its escape.
    browser.wait_text(".trow", "\\u202eturned");
    for script in SCRIPTS {
        let path = format!("/evil/{}", script.replace('/', "∕"));
        let address: String = path.bytes().map(|byte| format!("%{byte:02X}")).collect();
        browser.open(&format!("tree?path={address}&lang=en"));
        browser.wait_text("pre.data", "__hacked");
    }
    assert_eq!(browser.script("return typeof window.__hacked"), "undefined");
    let made = "return document.querySelectorAll('main img, main script, main b.x, svg[onload]').length";
    assert_eq!(browser.script(made), 0);
    // The policy itself: even a script of the page cannot make code of a text.
    let blocked = browser.script(
        "try { document.body.innerHTML = '<i>x</i>'; return 'made' } catch (error) { return error.name }",
    );
    assert_eq!(blocked, "TypeError");
}

#[test]
fn long_and_binary_values_do_not_freeze_the_page() {
    let Some(mut scene) = Scene::empty("jute.maxbuffer=4194304") else { return };
    let megabyte = 1_000_000;
    let deep = format!("{}{}", "[".repeat(400_000), "]".repeat(400_000));
    let wide = format!("[{}0]", "1,".repeat(490_000));
    let values: [(&str, Vec<u8>); 6] = [
        ("/text", vec![b'x'; megabyte]),
        ("/lines", b"line\n".repeat(megabyte / 5)),
        ("/binary", (0..megabyte).map(|number| (number * 7 % 251) as u8 | 0x80).collect()),
        ("/deep", deep.into_bytes()),
        ("/wide", wide.into_bytes()),
        ("/bad", b"\xff\xfe\x00<script>".to_vec()),
    ];
    for (path, data) in &values {
        create(&mut scene.client, path, data, PERSISTENT);
    }
    let browser = &scene.browser;
    for (path, _) in &values {
        browser.open(&format!("tree?path={path}&lang=en"));
        browser.wait("the data", "return (document.querySelector('pre.data')?.innerText.length ?? 0) > 5");
        let asked = Instant::now();
        browser
            .script("return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)))");
        assert!(asked.elapsed() < FREEZE, "{path} froze the page for {:?}", asked.elapsed());
    }
    browser.open("tree?path=/bad&lang=en");
    browser.wait_text("pre.data", "ff fe 00");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
