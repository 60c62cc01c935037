//! The manifest rules of crates that can be published: the fields that crates.io requires or shows, and
//! versions of dependencies inside of the workspace.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

const WHY: &str = "crates.io refuses the crate, or shows an empty page for it";

/// Limits of crates.io.
const KEYWORDS_MAX: usize = 5;
const KEYWORD_LENGTH_MAX: usize = 20;
const CATEGORIES_MAX: usize = 5;

/// Categories of crates.io that the crates use. A misspelled category is dropped there without an error.
const CATEGORIES: [&str; 15] = [
    "algorithms",
    "asynchronous",
    "authentication",
    "command-line-utilities",
    "concurrency",
    "cryptography",
    "data-structures",
    "database-implementations",
    "development-tools::profiling",
    "development-tools::testing",
    "encoding",
    "filesystem",
    "network-programming",
    "parser-implementations",
    "web-programming::http-server",
];

/// A crate that `cargo publish` would send.
#[derive(Debug)]
pub(crate) struct PublishedCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether the manifest names a repository.
    pub(crate) has_repository: bool,
}

/// A rule that a manifest breaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ManifestFlaw {
    pub(crate) package: String,
    pub(crate) what: String,
    pub(crate) why: &'static str,
}

/// The crates that are not marked `publish = false`.
pub(crate) fn published(metadata: &Value) -> anyhow::Result<Vec<PublishedCrate>> {
    let packages = published_packages(metadata)?;
    packages
        .map(|package| {
            Ok(PublishedCrate {
                name: text(package, "name").context("a package without a name")?.to_owned(),
                version: text(package, "version").context("a package without a version")?.to_owned(),
                has_repository: text(package, "repository").is_some(),
            })
        })
        .collect()
}

/// Checks the manifests of all published crates.
pub(crate) fn check(metadata: &Value) -> anyhow::Result<Vec<ManifestFlaw>> {
    let names: Vec<String> = published(metadata)?.into_iter().map(|package| package.name).collect();
    let mut flaws = Vec::new();
    for package in published_packages(metadata)? {
        let name = text(package, "name").context("a package without a name")?;
        let found = field_flaws(package, name).into_iter().chain(dependency_flaws(package, &names));
        flaws.extend(found.map(|what| ManifestFlaw { package: name.to_owned(), what, why: WHY }));
    }
    Ok(flaws)
}

fn published_packages(metadata: &Value) -> anyhow::Result<impl Iterator<Item = &Value>> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    // `publish = false` is an empty list of registries.
    Ok(packages.iter().filter(|package| !package["publish"].as_array().is_some_and(Vec::is_empty)))
}

fn text<'a>(package: &'a Value, field: &str) -> Option<&'a str> {
    package[field].as_str().filter(|text| !text.trim().is_empty())
}

fn field_flaws(package: &Value, name: &str) -> Vec<String> {
    let mut flaws = Vec::new();
    for field in ["description", "license", "documentation", "readme", "rust_version"] {
        if text(package, field).is_none() {
            flaws.push(format!("no {field}"));
        }
    }
    if let Some(documentation) = text(package, "documentation")
        && documentation != format!("https://docs.rs/{name}")
    {
        flaws.push(format!("documentation is {documentation} and not the page of {name}"));
    }
    for file in ["README.md", "LICENSE"] {
        let directory = text(package, "manifest_path").and_then(|path| Path::new(path).parent());
        if !directory.is_some_and(|directory| directory.join(file).is_file()) {
            flaws.push(format!("no file {file} beside the manifest"));
        }
    }
    let list = |field: &str| -> Vec<&str> {
        package[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (keywords, categories) = (list("keywords"), list("categories"));
    if keywords.is_empty() || keywords.len() > KEYWORDS_MAX {
        flaws.push(format!("{} keywords and not 1 to {KEYWORDS_MAX}", keywords.len()));
    }
    flaws.extend(
        keywords
            .iter()
            .filter(|word| !is_keyword(word))
            .map(|word| format!("the keyword {word:?} is refused")),
    );
    if categories.is_empty() || categories.len() > CATEGORIES_MAX {
        flaws.push(format!("{} categories and not 1 to {CATEGORIES_MAX}", categories.len()));
    }
    let unknown = categories.iter().filter(|category| !CATEGORIES.contains(category));
    flaws.extend(unknown.map(|category| format!("the category {category} is not in the list of the check")));
    flaws
}

fn is_keyword(word: &str) -> bool {
    let is_first_allowed = word.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-+".contains(letter);
    is_first_allowed && word.len() <= KEYWORD_LENGTH_MAX && word.chars().all(allowed)
}

/// A shipped dependency needs a version, and a crate of the workspace that is published. Cargo drops
/// development dependencies by path alone, so that cycles of tests do not stop a publication.
fn dependency_flaws(package: &Value, published: &[String]) -> Vec<String> {
    let mut flaws = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let (Some(name), Some(requirement)) = (text(dependency, "name"), text(dependency, "req")) else {
            continue;
        };
        if dependency["kind"] == "dev" && requirement == "*" {
            continue;
        }
        if requirement == "*" {
            flaws.push(format!("the dependency {name} has no version"));
        }
        if dependency["path"].is_string() && !published.iter().any(|published| published == name) {
            flaws.push(format!("the dependency {name} is never published"));
        }
        if dependency["path"].is_string()
            && let Some(version) = text(package, "version")
            && requirement != "*"
            && requirement != format!("^{version}")
        {
            flaws.push(format!("the dependency {name} has version {requirement} and not ^{version}"));
        }
    }
    flaws
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::step::project_root;

    /// A package with good fields, beside the README and the license of the project.
    fn package(changes: &[(&str, Value)]) -> Value {
        let mut package = json!({
            "name": "zebu-x", "version": "0.1.0", "description": "A part.", "license": "Apache-2.0",
            "documentation": "https://docs.rs/zebu-x", "readme": "README.md", "rust_version": "1.90",
            "keywords": ["zookeeper"], "categories": ["encoding"], "publish": null, "dependencies": [],
            "manifest_path": project_root().join("Cargo.toml"),
        });
        for (field, value) in changes {
            package[*field] = value.clone();
        }
        package
    }

    fn found(changes: &[(&str, Value)]) -> Vec<String> {
        let metadata = json!({ "packages": [package(changes)] });
        check(&metadata).unwrap().into_iter().map(|flaw| flaw.what).collect()
    }

    #[test]
    fn a_good_manifest_is_silent() {
        assert_eq!(found(&[]), Vec::<String>::new());
    }

    #[test]
    fn missing_and_wrong_fields_are_found() {
        assert_eq!(found(&[("description", Value::Null)]), ["no description"]);
        assert_eq!(found(&[("readme", Value::Null)]), ["no readme"]);
        assert_eq!(found(&[("keywords", json!([]))]), ["0 keywords and not 1 to 5"]);
        assert_eq!(found(&[("keywords", json!(["two words"]))]).len(), 1);
        assert_eq!(found(&[("categories", json!(["zoology"]))]).len(), 1);
        assert_eq!(found(&[("documentation", json!("https://docs.rs/zebu-y"))]).len(), 1);
        let elsewhere = json!(project_root().join("docs/Cargo.toml"));
        assert_eq!(found(&[("manifest_path", elsewhere)]).len(), 2);
    }

    #[test]
    fn unpublished_crates_are_free() {
        assert_eq!(found(&[("publish", json!([])), ("description", Value::Null)]), Vec::<String>::new());
    }

    #[test]
    fn dependencies_of_the_workspace_need_versions() {
        let ours = |requirement: &str, kind: Value| {
            let dependency = json!({"name": "zebu-y", "req": requirement, "kind": kind, "path": "crates/y"});
            let packages = [
                package(&[("dependencies", json!([dependency]))]),
                package(&[("name", json!("zebu-y")), ("documentation", json!("https://docs.rs/zebu-y"))]),
            ];
            check(&json!({ "packages": packages })).unwrap().len()
        };
        assert_eq!(ours("^0.1.0", Value::Null), 0);
        assert_eq!(ours("*", Value::Null), 1);
        assert_eq!(ours("^0.2.0", Value::Null), 1);
        assert_eq!(ours("*", json!("dev")), 0);
        let private = json!([{"name": "zebu-z", "req": "^0.1.0", "kind": null, "path": "crates/z"}]);
        assert_eq!(found(&[("dependencies", private)]), ["the dependency zebu-z is never published"]);
    }
}
