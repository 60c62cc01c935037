//! Every page by the rules of axe-core, in both themes. The script comes from npm's registry when the test
//! runs; where npm or the registry is missing, the test says so and ends.

use std::process::{Command, Stdio};

use tempfile::TempDir;

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
const PAGES: [(&str, &str); 11] = [
    ("", ".spark .line[d^=M]"),
    ("tree?path=/app/config", "pre.data .j-n"),
    ("tree?path=/app/config&tab=stat", ".stat"),
    ("tree?path=/app/config&tab=acl", ".perm"),
    ("tree?path=/app/config&tab=history", "#history-versions"),
    ("search?name=job-00*", "main tbody tr"),
    ("recipes", "[data-kind=curator-lock]"),
    ("sessions", "main tbody tr"),
    ("watches", "main tbody tr"),
    ("changes?under=/app", ".dot.good"),
    ("ensemble", "main .card table"),
];

#[test]
fn no_page_has_a_serious_finding() {
    let Some(scene) = Scene::full() else { return };
    let Some(axe) = axe() else { return };
    let browser = &scene.browser;
    browser.open("?lang=en");
    log_in_as_super(browser);
    let mut findings = Vec::new();
    for (look, size) in [(("en", "light"), WIDE), (("zh", "dark"), NARROW)] {
        for (page, seen) in PAGES {
            show(browser, page, look, size);
            browser.wait(seen, &format!("return !!document.querySelector({seen:?})"));
            // A message that is shown for a moment only is not part of the page.
            browser.wait("no message", "return !document.querySelector('.toast')");
            browser.script(&axe);
            browser.script(RUN);
            let found = browser.wait("axe", "return window.__axe");
            if found != "[]" {
                findings.push(format!("{page} {look:?}: {}", found.as_str().unwrap()));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
