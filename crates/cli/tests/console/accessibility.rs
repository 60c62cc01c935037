//! Every page and dialog by the rules of axe-core, in both languages, themes and sizes. The script comes from
//! npm's registry when the test runs; where npm or the registry is missing, the test says so and ends.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::browser::Browser;
use crate::pages::MISSING_TEXTS;
use crate::scene::{Scene, log_in_as_super};
use crate::screenshots::{NARROW, WIDE, show};

const AXE: &str = "axe-core@4.14.0";
/// Findings of these impacts fail the test.
const RUN: &str = r"
    window.__axe = null;
    axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] }).then((found) => {
        const serious = found.violations.filter((rule) => rule.impact === 'serious' || rule.impact === 'critical');
        window.__axe = JSON.stringify(serious.map((rule) => [rule.id, rule.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary ?? ''}`)]));
    });
    return true;";

/// The script of axe-core; `None` with a message where it cannot be had.
fn axe() -> Option<String> {
    let home = TempDir::new().unwrap();
    let skipped = |why: &str| {
        eprintln!("SKIPPED: axe-core cannot be had from npm: {why}");
        None
    };
    let packed = Command::new("timeout")
        .args(["60", "npm", "pack", "--silent", AXE])
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output();
    let packed = match packed {
        Ok(packed) if packed.status.success() => packed,
        Ok(packed) => return skipped(&String::from_utf8_lossy(&packed.stderr)),
        Err(error) => return skipped(&error.to_string()),
    };
    let archive = String::from_utf8_lossy(&packed.stdout).trim().to_owned();
    let unpacked =
        Command::new("tar").args(["xzf", &archive, "package/axe.min.js"]).current_dir(home.path()).status();
    match unpacked {
        Ok(status) if status.success() => {
            Some(std::fs::read_to_string(home.path().join("package/axe.min.js")).unwrap())
        }
        other => skipped(&format!("{other:?}")),
    }
}

/// A page, and an element that it shows when it is complete.
const PAGES: [(&str, &str); 13] = [
    ("", ".spark .line[d^=M]"),
    ("tree?path=/app/config", "pre.data .j-n"),
    ("tree?path=/app/config&tab=stat", ".stat"),
    ("tree?path=/app/config&tab=acl", ".perm"),
    ("tree?path=/app/config&tab=history", "#history-versions"),
    ("search?name=job-00*", "main tbody tr"),
    ("recipes", "[data-kind=curator-lock]"),
    ("sessions", "main tbody tr"),
    ("watches", "main tbody tr"),
    ("top", "main .columns h2"),
    ("top?by=nodes", "main table"),
    ("changes?under=/app", ".dot.good"),
    ("ensemble", "main .card table"),
];

/// Languages and sizes of each theme.
const LOOKS: [(&str, (u32, u32)); 4] = [("en", WIDE), ("zh", WIDE), ("en", NARROW), ("zh", NARROW)];

/// What a user opens in an unlocked tab: a page, the elements to click one after the other, and what is seen
/// then.
type Step = (&'static str, &'static [&'static str], &'static str);
const DIALOGS: [Step; 11] = [
    ("tree?path=/app/config", &["#node-edit"], "#editor"),
    ("tree?path=/app", &["#node-new"], "dialog #create-name"),
    ("tree?path=/app", &["#node-copy"], "dialog #copy-target"),
    ("tree?path=/app/jobs", &["#node-delete"], "dialog #delete-run"),
    ("tree?path=/app&tab=acl", &["#acl-edit"], "dialog .acl-editor"),
    ("tree?path=/app", &["#jump"], "#palette-input"),
    ("ensemble", &["#operate-snapshot"], "dialog #operate-typed"),
    ("ensemble", &["#operate-drain"], "dialog #operate-typed"),
    ("sessions", &["main tbody tr a", "#session-end"], "dialog .primary, dialog .danger"),
    ("changes?under=/app", &[], ".dot.good"),
    ("recipes", &[], "[data-kind=curator-lock]"),
];

/// Runs axe on what is shown.
fn check(browser: &Browser, axe: &str, what: &str, findings: &mut Vec<String>) {
    // A message that is shown for a moment only is not part of the page; a dialog rises for a moment.
    browser.wait("no message", "return !document.querySelector('.toast') && document.getAnimations().every((a) => a.playState !== 'running')");
    assert_eq!(browser.script(MISSING_TEXTS), serde_json::json!([]), "{what}");
    if browser.script("return !window.axe") == true {
        browser.script(axe);
    }
    browser.script(RUN);
    let found = browser.wait("axe", "return window.__axe");
    if found != "[]" {
        findings.push(format!("{what}: {}", found.as_str().unwrap()));
    }
}

#[test]
fn no_page_of_the_light_theme_has_a_serious_finding() {
    check_pages("light");
}

#[test]
fn no_page_of_the_dark_theme_has_a_serious_finding() {
    check_pages("dark");
}

fn check_pages(theme: &str) {
    let Some(scene) = Scene::full() else { return };
    let Some(axe) = axe() else { return };
    let browser = &scene.browser;
    let mut findings = Vec::new();
    show(browser, "", ("en", theme), WIDE);
    browser.click("#who");
    browser.wait("the login", "return !!document.querySelector('dialog #login-user')");
    check(browser, &axe, "login", &mut findings);
    browser.open("?lang=en");
    log_in_as_super(browser);
    for (language, size) in LOOKS {
        let look = (language, theme);
        for (page, seen) in PAGES {
            show(browser, page, look, size);
            browser.wait(seen, &format!("return !!document.querySelector({seen:?})"));
            check(browser, &axe, &format!("{page} {look:?} {size:?}"), &mut findings);
        }
        let session = browser
            .script("return fetch('api/v1/sessions').then((a) => a.json()).then((a) => a.sessions[0].id)");
        show(browser, &format!("sessions?id={}", session.as_str().unwrap()), look, size);
        browser.wait("the session", "return !!document.querySelector('main .facts')");
        check(browser, &axe, &format!("session {look:?} {size:?}"), &mut findings);
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn no_dialog_and_no_unlocked_page_has_a_serious_finding() {
    let Some(scene) = Scene::full() else { return };
    let Some(axe) = axe() else { return };
    let browser = &scene.browser;
    browser.open("?lang=en");
    log_in_as_super(browser);
    let mut findings = Vec::new();
    for (look, size) in [(("en", "light"), WIDE), (("zh", "dark"), NARROW)] {
        for (page, clicks, seen) in DIALOGS {
            show(browser, page, look, size);
            browser.click("#write-lock");
            browser.wait("the question", "return !!document.querySelector('dialog .primary')");
            check(browser, &axe, &format!("unlock {look:?}"), &mut findings);
            browser.click("dialog .primary");
            browser.wait("an unlocked tab", "return document.documentElement.dataset.writing === 'true' && !document.querySelector('dialog')");
            clicks.iter().for_each(|css| browser.click(css));
            browser.wait(seen, &format!("return !!document.querySelector({seen:?})"));
            check(browser, &axe, &format!("{page} {seen} {look:?}"), &mut findings);
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
