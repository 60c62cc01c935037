//! All pages, in both languages and themes: they show what there is, report no error and ask only their
//! server.

use crate::browser::keys;
use crate::scene::Scene;
use crate::screenshots::{NARROW, show};

/// A page, and a text that it shows of the scene.
const PAGES: [(&str, &str); 9] = [
    ("", "standalone"),
    ("tree?path=/app/config", "12345678901234567890"),
    ("search?name=job-000*", "/app/jobs/job-0007"),
    ("recipes", "pay-9"),
    ("sessions", "127.0.0.1"),
    ("watches", "/app/config"),
    ("top", "superDigest"),
    ("changes?under=/app", "/app"),
    ("ensemble", "0x"),
];

/// An element whose text is a key shows that a text is missing.
pub(crate) const MISSING_TEXTS: &str = r"
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const keys = [];
    while (walker.nextNode()) {
        if (/^[a-z][A-Za-z]*(\.[a-z][A-Za-z-]*)+$/.test(walker.currentNode.data.trim())) keys.push(walker.currentNode.data);
    }
    return keys;";

#[test]
fn every_page_shows_its_facts_in_both_languages_and_asks_only_its_server() {
    let Some(scene) = Scene::full() else { return };
    let browser = &scene.browser;
    for (language, theme) in [("en", "light"), ("zh", "dark")] {
        for (page, text) in PAGES {
            let separator = if page.contains('?') { '&' } else { '?' };
            browser.open(&format!("{page}{separator}lang={language}&theme={theme}"));
            browser.wait_text("body", text);
            assert_eq!(browser.script(MISSING_TEXTS), serde_json::json!([]), "{page} {language}");
            assert_eq!(browser.errors(), Vec::<String>::new(), "{page} {language}");
        }
        let shown = browser.script("return [document.documentElement.lang, getComputedStyle(document.body).colorScheme, document.documentElement.dataset.theme]");
        assert_eq!(shown[0], if language == "zh" { "zh-CN" } else { "en" });
        assert_eq!(shown[2], theme);
    }
    assert_eq!(browser.foreign_requests(), Vec::<String>::new());
}

#[test]
fn the_tree_is_used_by_keyboard_and_the_address_says_where() {
    let Some(scene) = Scene::full() else { return };
    let browser = &scene.browser;
    browser.open("tree?lang=en");
    browser.wait_text(".trow", "app");
    let path = |expected: &str| {
        let code = format!("return new URLSearchParams(location.search).get('path') === {expected:?}");
        browser.wait(expected, &code);
    };
    browser.keys(".vlist", keys::DOWN);
    path("/app");
    browser.keys(".vlist", keys::RIGHT);
    browser.wait_text(".trow", "config");
    browser.keys(".vlist", keys::RIGHT);
    path("/app/config");
    browser.wait_text("pre.data", "12345678901234567890");
    browser.keys(".vlist", keys::LEFT);
    path("/app");
    browser.keys(".vlist", keys::END);
    path("/配置");
    browser.wait_text("pre.data", "中文数据");
    // A copied address shows the same, with its parents open.
    browser.open("tree?path=/app/jobs/job-0031&tab=stat");
    browser.wait_text(".trow.active", "job-0031");
    browser.wait_text(".stat", "ephemeralOwner");
    // Ctrl+K without a mouse: a page, a path, and a completion.
    browser.script(
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))",
    );
    browser.keys("#palette-input", "/locks/p");
    browser.wait_text(".palette-row", "/locks/payments");
    browser.keys("#palette-input", &format!("{}{}", keys::DOWN, keys::ENTER));
    path("/locks/payments");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn locks_are_shown_as_queues() {
    let Some(scene) = Scene::full() else { return };
    let browser = &scene.browser;
    browser.open("recipes?lang=en");
    browser.wait_text("[data-kind=curator-lock]", "2 waiting");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "pay-7");
    browser.wait_text("[data-kind=curator-lock] tr.holds", "127.0.0.1");
    browser.wait_text("[data-kind=kazoo-lock] tr.holds", "reporter");
    // Two readers in front of the first writer hold together.
    browser.wait(
        "two readers",
        "return document.querySelectorAll('[data-kind=curator-read-write] tr.holds').length === 2",
    );
    for kind in ["election", "queue", "discovery", "group"] {
        browser.wait(kind, &format!("return !!document.querySelector('[data-kind={kind}]')"));
    }
}

#[test]
fn every_page_is_reached_on_a_narrow_screen() {
    let Some(scene) = Scene::full() else { return };
    let browser = &scene.browser;
    for language in ["en", "zh"] {
        show(browser, "recipes", (language, "light"), NARROW);
        browser.wait_text("[data-kind=curator-lock] tr.holds", "pay-7");
        let outside = browser.script(
            "const view = document.documentElement; return [...document.querySelectorAll('nav a:not(.brand)')]\
             .filter((a) => { const box = a.getBoundingClientRect(); return box.left < 0 || box.right > view.clientWidth || box.bottom > view.clientHeight || a.scrollWidth > a.clientWidth; })\
             .map((a) => a.innerText)",
        );
        assert_eq!(outside, serde_json::json!([]), "{language}");
        assert_eq!(
            browser.script("return document.querySelectorAll('nav a:not(.brand)').length"),
            PAGES.len()
        );
        // No queue scrolls sideways, and no name is broken over lines.
        let wide = "return [...document.querySelectorAll('.queue .wide')].filter((e) => e.scrollWidth > e.clientWidth).length";
        assert_eq!(browser.script(wide), 0, "{language}");
        let broken = "return [...document.querySelectorAll('.queue td.name')].filter((e) => e.clientHeight > 30).map((e) => e.innerText)";
        assert_eq!(browser.script(broken), serde_json::json!([]), "{language}");
    }
}
