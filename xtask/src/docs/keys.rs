//! The reference of configuration keys: the table of the code joined with the meanings of the pages.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// The file of the code.
const SOURCE: &str = "crates/server/src/config/known_keys.rs";

/// Meanings of keys that no page has in a table of keys.
const MEANINGS: &str = "docs/reference/keys.toml";

/// Pages with tables of keys.
const PAGES: [&str; 4] = ["operations", "security", "admin", "metrics"];

const OPENING: &str = "\
# Configuration keys

`cargo xtask docs` writes this page from the code and from the tables of the other pages.

Each key stands in `zoo.cfg` as `key=value`. \"Property\" means that it may also be a Java property:
`-Dzookeeper.KEY=value`, or `-DKEY=value` where the column says \"bare\". A key that ends with `.` stands for all
keys that begin with it. A key that Zebu does not know is a warning at the start, which names the nearest key.

";

#[derive(Debug, Deserialize)]
struct Meaning {
    default: String,
    meaning: String,
}

/// A key of the code.
#[derive(Debug, PartialEq, Eq)]
struct KnownKey {
    scope: String,
    key: String,
    /// The variant, with its reason if it has one.
    effect: String,
    reason: Option<String>,
}

/// The page.
pub(super) fn page(read: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let keys = known_keys(&read(SOURCE)?)?;
    let own: BTreeMap<String, Meaning> = toml::from_str(&read(MEANINGS)?).context(MEANINGS)?;
    let mut meanings: BTreeMap<String, (String, String)> = BTreeMap::new();
    for page in PAGES {
        let text = read(&format!("docs/{page}.md"))?;
        for (key, default, meaning) in rows(&text) {
            let meaning = format!("{} ([{page}](../{page}.md))", from_below(&meaning, page));
            meanings.entry(key).or_insert((default, meaning));
        }
    }
    for (key, Meaning { default, meaning }) in own {
        ensure!(keys.iter().any(|known| known.key == key), "{MEANINGS}: {key} is no key of the code");
        ensure!(!meanings.contains_key(&key), "{MEANINGS}: {key} is in a table of a page too");
        meanings.insert(key, (default, meaning));
    }
    let mut text = OPENING.to_owned();
    section(&mut text, "Keys with an effect", &keys, &meanings, false)?;
    section(&mut text, "Keys without an effect", &keys, &meanings, true)?;
    Ok(text)
}

fn section(
    text: &mut String,
    title: &str,
    keys: &[KnownKey],
    meanings: &BTreeMap<String, (String, String)>,
    ignored: bool,
) -> anyhow::Result<()> {
    writeln!(text, "## {title}\n")?;
    writeln!(
        text,
        "{}",
        if ignored {
            "ZooKeeper knows these keys. Zebu accepts them, does nothing, and says so in a note at the start.\n\n\
             | Key | Why |\n|---|---|"
        } else {
            "| Key | Where | Of | Default | Meaning |\n|---|---|---|---|---|"
        }
    )?;
    let unknown: Vec<&str> = keys
        .iter()
        .filter(|known| !is_ignored(known) && !meanings.contains_key(&known.key))
        .map(|known| known.key.as_str())
        .collect();
    ensure!(unknown.is_empty(), "no page says what these mean, add them to {MEANINGS}: {unknown:?}");
    let mut sorted: Vec<&KnownKey> = keys.iter().filter(|known| is_ignored(known) == ignored).collect();
    sorted.sort_by_key(|known| known.key.to_lowercase());
    for known in sorted {
        if ignored {
            let reason =
                known.reason.as_deref().unwrap_or("it is an option of the Java machine or of Java's log");
            writeln!(text, "| `{}` | {reason} |", known.key)?;
            continue;
        }
        let place = match known.scope.as_str() {
            "file" => "file",
            "property" => "file, property",
            "bare" => "file, property (bare)",
            _ => "file, property (both)",
        };
        let of = if known.effect == "Ensemble" { "members" } else { "all servers" };
        let (default, meaning) = &meanings[&known.key];
        writeln!(text, "| `{}` | {place} | {of} | {default} | {meaning} |", known.key)?;
    }
    if !ignored {
        text.push('\n');
    }
    Ok(())
}

fn is_ignored(known: &KnownKey) -> bool {
    matches!(known.effect.as_str(), "Ignored" | "Jvm")
}

/// The keys of the tables `KEY_FAMILIES` and `KNOWN_KEYS`.
fn known_keys(source: &str) -> anyhow::Result<Vec<KnownKey>> {
    let constants = constants(source);
    let from = source.find("const KEY_FAMILIES").context("no table of families")?;
    let to = source.find("const DOCUMENTED_NAMES").context("no end of the tables")?;
    let code: String = source[from..to]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut keys = Vec::new();
    for scope in ["file", "property", "bare", "either"] {
        let call = format!(" {scope}(");
        for part in code.split(call.as_str()).skip(1) {
            let mut quoted = part.splitn(3, '"');
            let key = quoted.nth(1).with_context(|| format!("a key without a name: {part:.60}"))?;
            let rest = quoted.next().unwrap_or_default().trim_start_matches([',', ' ']);
            let word = rest.split(['(', ')', ',', ' ']).next().unwrap_or_default();
            let (effect, reason) = match word {
                "Used" | "Ensemble" | "Jvm" | "Protection" => (word, None),
                "Ignored" => ("Ignored", rest.split('"').nth(1).map(str::to_owned)),
                constant => match constants.get(constant) {
                    Some(reason) => ("Ignored", Some(reason.clone())),
                    None => bail!("{key}: unknown effect {constant:?}"),
                },
            };
            let effect = effect.to_owned();
            keys.push(KnownKey { scope: scope.to_owned(), key: key.to_owned(), effect, reason });
        }
    }
    ensure!(keys.len() > 150, "only {} keys were read", keys.len());
    Ok(keys)
}

/// `const NAME: KeyEffect = KeyEffect::Ignored("reason");`
fn constants(source: &str) -> BTreeMap<String, String> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("const "));
    let named = lines.filter_map(|line| line.split_once(": KeyEffect = KeyEffect::Ignored(\""));
    named.filter_map(|(name, rest)| Some((name.to_owned(), rest.rsplit_once('"')?.0.to_owned()))).collect()
}

/// Keys, defaults and meanings of all tables whose heading is `| Key | Default | Meaning |` or like it.
fn rows(page: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut columns: Option<(Option<usize>, usize)> = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = cells(line);
        match columns {
            None => {
                let place = |name: &str| cells.iter().position(|cell| cell == name);
                let is_keys = cells.first().is_some_and(|cell| cell.starts_with("Key"));
                let last = cells.len().saturating_sub(1);
                // A table of other things: no row of it is a key.
                columns = Some(if is_keys { (place("Default"), last) } else { (None, usize::MAX) });
            }
            Some((default, meaning)) => {
                let (Some(names), Some(meaning)) = (cells.first(), cells.get(meaning)) else { continue };
                let default = default.and_then(|column| cells.get(column)).cloned().unwrap_or_default();
                for name in names.split('`').skip(1).step_by(2) {
                    let name = name.split('=').next().unwrap_or_default();
                    found.push((name.to_owned(), default.clone(), meaning.clone()));
                }
            }
        }
    }
    found
}

/// The cells of a row; `\|` is part of a cell.
fn cells(line: &str) -> Vec<String> {
    let marked = line.replace("\\|", "\u{0}");
    let inner = marked.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().replace('\u{0}', "\\|")).collect()
}

/// Links of a page in `docs/`, as a page in `docs/reference/` has them.
fn from_below(text: &str, page: &str) -> String {
    text.replace("](#", &format!("](../{page}.md#"))
        .replace("](", "](../")
        .replace("](../../", "](../")
        .replace("](../http", "](http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_tables_of_keys_are_found() {
        let page = "| Key | Default | Meaning |\n|---|---|---|\n| `a`, `b=1` | 3 | x\\|y |\n\n| Word | Text |\n|---|---|\n| `c` | z |\n";
        let found = rows(page);
        let of =
            |key: &str| found.iter().find(|row| row.0 == key).map(|row| (row.1.as_str(), row.2.as_str()));
        assert_eq!(of("a"), Some(("3", "x\\|y")));
        assert_eq!(of("b"), Some(("3", "x\\|y")));
        assert_eq!(of("c"), None);
    }

    #[test]
    fn links_lead_out_of_the_directory() {
        assert_eq!(from_below("[a](#b) [c](d.md#e)", "p"), "[a](../p.md#b) [c](../d.md#e)");
    }

    #[test]
    fn reasons_of_constants_are_read() {
        let source = "const NO_CACHE: KeyEffect = KeyEffect::Ignored(\"cheap, always\");\n";
        assert_eq!(constants(source).get("NO_CACHE").map(String::as_str), Some("cheap, always"));
    }
}
