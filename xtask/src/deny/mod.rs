//! `deny`: licenses, sources and versions of every dependency, by the rules in deny.toml. Owns the comparison
//! of those rules with `cargo metadata`. Advisories need a database and are left to `cargo deny check`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::step::{cargo, project_root};

mod license;

const RULES: &str = "deny.toml";

/// The registry that needs no rule.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The part of deny.toml that is checked here.
#[derive(Debug, Deserialize)]
struct Rules {
    graph: GraphRules,
    licenses: LicenseRules,
    bans: BanRules,
    sources: SourceRules,
}

#[derive(Debug, Deserialize)]
struct GraphRules {
    /// The platforms whose dependencies count; all of them if none is named.
    #[serde(default)]
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct LicenseRules {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BanRules {
    wildcards: Level,
    multiple_versions: Level,
    #[serde(default)]
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ban {
    Name(String),
    Named {
        #[serde(alias = "crate")]
        name: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SourceRules {
    unknown_registry: Level,
    unknown_git: Level,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Level {
    Allow,
    Warn,
    Deny,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Nothing for a package below this directory.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// What breaks a rule, by how much it matters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    denied: Vec<String>,
    warned: Vec<String>,
}

impl Findings {
    fn add(&mut self, level: Level, text: String) {
        match level {
            Level::Allow => {}
            Level::Warn => self.warned.push(text),
            Level::Deny => self.denied.push(text),
        }
    }
}

/// Checks every package that Cargo.lock can bring in on the platforms of the rules.
pub(crate) fn run() -> anyhow::Result<()> {
    let text = fs::read_to_string(project_root().join(RULES)).with_context(|| format!("read {RULES}"))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("{RULES} is not usable"))?;
    let metadata = read_metadata(&rules.graph.targets)?;
    let findings = check(&rules, &metadata)?;
    findings.warned.iter().for_each(|text| println!("warning: {text}"));
    if !findings.denied.is_empty() {
        bail!("deny: {RULES} forbids:\n{}", findings.denied.join("\n"));
    }
    println!("deny: {} packages keep the rules of {RULES}", metadata.packages.len());
    Ok(())
}

fn read_metadata(targets: &[String]) -> anyhow::Result<Metadata> {
    let mut command = cargo(&["metadata", "--format-version=1", "--locked", "--all-features"]);
    for target in targets {
        command.args(["--filter-platform", target]);
    }
    let output = command.output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata gave another JSON than expected")
}

fn check(rules: &Rules, metadata: &Metadata) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for package in &metadata.packages {
        match &package.source {
            None => check_requirements(rules, package, &mut findings),
            Some(source) => {
                check_source(rules, package, source, &mut findings);
                check_license(rules, package, &mut findings)?;
                check_ban(rules, package, &mut findings);
            }
        }
    }
    check_versions(rules, metadata, &mut findings);
    Ok(findings)
}

/// A crate of ours names a version of everything that comes from elsewhere.
fn check_requirements(rules: &Rules, package: &Package, findings: &mut Findings) {
    let any = |dependency: &&Dependency| dependency.req == "*" && dependency.path.is_none();
    for dependency in package.dependencies.iter().filter(any) {
        findings
            .add(rules.bans.wildcards, format!("{} takes any version of {}", package.name, dependency.name));
    }
}

fn check_source(rules: &Rules, package: &Package, source: &str, findings: &mut Findings) {
    let level = if source == CRATES_IO {
        Level::Allow
    } else if source.starts_with("git+") {
        rules.sources.unknown_git
    } else {
        rules.sources.unknown_registry
    };
    findings.add(level, format!("{} comes from {source}", package.name));
}

fn check_license(rules: &Rules, package: &Package, findings: &mut Findings) -> anyhow::Result<()> {
    let Some(text) = &package.license else {
        findings.add(Level::Deny, format!("{} {} names no license", package.name, package.version));
        return Ok(());
    };
    let is_allowed = license::is_satisfied(text, &rules.licenses.allow)
        .with_context(|| format!("the license of {}", package.name))?;
    if !is_allowed {
        findings.add(Level::Deny, format!("{} {} has the license {text}", package.name, package.version));
    }
    Ok(())
}

fn check_ban(rules: &Rules, package: &Package, findings: &mut Findings) {
    let names = rules.bans.deny.iter().map(|ban| match ban {
        Ban::Name(name) | Ban::Named { name } => name.split('@').next().unwrap_or(name),
    });
    if names.into_iter().any(|name| name == package.name) {
        findings.add(Level::Deny, format!("{} is banned", package.name));
    }
}

fn check_versions(rules: &Rules, metadata: &Metadata, findings: &mut Findings) {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    for (name, versions) in versions.into_iter().filter(|(_, versions)| versions.len() > 1) {
        findings.add(rules.bans.multiple_versions, format!("{name} is there as {}", versions.join(" and ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let text = r#"
            [graph]
            [licenses]
            allow = ["MIT"]
            [bans]
            wildcards = "deny"
            multiple-versions = "warn"
            deny = ["openssl", { crate = "native-tls" }]
            [sources]
            unknown-registry = "deny"
            unknown-git = "deny"
        "#;
        toml::from_str(text).unwrap()
    }

    fn package(name: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            dependencies: Vec::new(),
        }
    }

    fn denied(package: Package) -> Vec<String> {
        check(&rules(), &Metadata { packages: vec![package] }).unwrap().denied
    }

    #[test]
    fn a_license_that_is_not_allowed_is_found() {
        assert_eq!(denied(package("a", Some("MIT OR GPL-3.0"), Some(CRATES_IO))), [""; 0]);
        assert_eq!(
            denied(package("a", Some("GPL-3.0"), Some(CRATES_IO))),
            ["a 1.0.0 has the license GPL-3.0"]
        );
        assert_eq!(denied(package("a", None, Some(CRATES_IO))), ["a 1.0.0 names no license"]);
    }

    #[test]
    fn another_source_is_found() {
        for source in ["git+https://example.org/a", "registry+https://example.org/index"] {
            assert_eq!(denied(package("a", Some("MIT"), Some(source))), [format!("a comes from {source}")]);
        }
    }

    #[test]
    fn a_banned_package_is_found() {
        for name in ["openssl", "native-tls"] {
            assert_eq!(denied(package(name, Some("MIT"), Some(CRATES_IO))), [format!("{name} is banned")]);
        }
    }

    #[test]
    fn any_version_of_a_foreign_package_is_found() {
        let mut ours = package("ours", None, None);
        let dependency = |path: Option<&str>| Dependency {
            name: "b".to_owned(),
            req: "*".to_owned(),
            path: path.map(str::to_owned),
        };
        ours.dependencies = vec![dependency(Some("/crates/b")), dependency(None)];
        assert_eq!(denied(ours), ["ours takes any version of b"]);
    }

    #[test]
    fn two_versions_of_a_package_are_a_warning() {
        let newer = Package { version: "2.0.0".to_owned(), ..package("a", Some("MIT"), Some(CRATES_IO)) };
        let packages = vec![package("a", Some("MIT"), Some(CRATES_IO)), newer];
        let findings = check(&rules(), &Metadata { packages }).unwrap();
        assert_eq!(findings.warned, ["a is there as 1.0.0 and 2.0.0"]);
        assert_eq!(findings.denied, [""; 0]);
    }

    #[test]
    fn the_rules_of_the_project_are_read() {
        let text = fs::read_to_string(project_root().join(RULES)).unwrap();
        let rules: Rules = toml::from_str(&text).unwrap();
        assert!(rules.licenses.allow.contains("Apache-2.0"));
    }
}
