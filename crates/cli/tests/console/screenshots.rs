//! Pictures of the pages, for docs/console.md and for the eyes of their authors.
//!
//! `ZEBU_SCREENSHOTS=docs/console` writes all of them; a quick run makes two and throws them away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::browser::Browser;
use crate::scene::Scene;

pub(crate) const WIDE: (u32, u32) = (1280, 800);
pub(crate) const NARROW: (u32, u32) = (390, 844);

/// Name, address, language, theme, size, and what must be seen first.
type Picture = (&'static str, &'static str, &'static str, &'static str, (u32, u32), &'static str);

const PICTURES: [Picture; 11] = [
    ("tree-dark", "tree?path=/app/config", "en", "dark", WIDE, "pre.data .j-n"),
    ("tree-light-zh-narrow", "tree?path=/app/config", "zh", "light", NARROW, "pre.data .j-n"),
    ("recipes-light", "recipes", "en", "light", WIDE, "[data-kind=curator-lock]"),
    ("recipes-dark-narrow", "recipes", "en", "dark", NARROW, "[data-kind=curator-lock]"),
    ("search-dark-zh", "search?name=job-00*", "zh", "dark", WIDE, "main tbody tr"),
    ("sessions-light", "sessions", "en", "light", WIDE, "main tbody tr"),
    ("stat-light-zh", "tree?path=/locks/payments&tab=stat", "zh", "light", WIDE, ".stat"),
    ("recipes-dark-zh", "recipes", "zh", "dark", WIDE, "[data-kind=curator-lock]"),
    ("recipes-light-zh-narrow", "recipes", "zh", "light", NARROW, "[data-kind=curator-lock]"),
    ("sessions-dark-narrow", "sessions", "en", "dark", NARROW, "main tbody tr"),
    ("ensemble-dark", "ensemble", "en", "dark", WIDE, "main .card table"),
];

/// Shows an address in a language, a theme and a size.
pub(crate) fn show(browser: &Browser, page: &str, (language, theme): (&str, &str), size: (u32, u32)) {
    browser.resize(size.0, size.1);
    let separator = if page.contains('?') { '&' } else { '?' };
    browser.open(&format!("{page}{separator}lang={language}&theme={theme}"));
}

/// Writes a picture of the view. No page may be wider than its view.
pub(crate) fn picture(browser: &Browser, target: &Path, name: &str) {
    let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.script(overflow), 0, "{name} is wider than its view");
    let file = target.join(format!("{name}.png"));
    browser.screenshot(&file);
    assert!(std::fs::metadata(&file).unwrap().len() > 10_000, "{name} is empty");
}

/// Where pictures are wanted; `None` in a quick run.
pub(crate) fn wanted() -> Option<PathBuf> {
    // Tests run in the folder of their crate.
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let target = root.join(std::env::var_os("ZEBU_SCREENSHOTS")?);
    std::fs::create_dir_all(&target).unwrap();
    Some(target)
}

#[test]
fn pictures_of_the_pages() {
    let Some(scene) = Scene::full() else { return };
    let scratch = TempDir::new().unwrap();
    let wanted = wanted();
    let count = if wanted.is_some() { PICTURES.len() } else { 2 };
    let target = wanted.unwrap_or_else(|| scratch.path().to_owned());
    for (name, page, language, theme, size, seen) in PICTURES.into_iter().take(count) {
        show(&scene.browser, page, (language, theme), size);
        scene.browser.wait(seen, &format!("return !!document.querySelector({seen:?})"));
        // No decision hangs on this: charts get some points, and texts that are asked for later arrive.
        std::thread::sleep(Duration::from_secs(if count > 2 { 12 } else { 0 }));
        picture(&scene.browser, &target, name);
    }
}
