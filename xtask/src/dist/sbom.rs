//! The bill of materials of a release: CycloneDX 1.5 as JSON, with the crates that are linked into the
//! binary. It comes from cargo alone and holds nothing that changes between two runs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::checksums::hexadecimal;
use super::output;
use crate::step::{cargo, project_root};

/// The package whose binary is described.
const PROGRAM: &str = "zebu";

/// A crate by name and version.
type CrateId = (String, String);

/// The answers of cargo that a bill is made of.
pub(super) struct Materials {
    /// `cargo metadata` of the whole workspace.
    metadata: Value,
    /// The crates that are linked into the program.
    linked: BTreeSet<CrateId>,
    /// Checksums of packed crates, from Cargo.lock.
    checksums: BTreeMap<CrateId, String>,
}

impl Materials {
    /// Asks cargo, without network.
    pub(super) fn read(target: &str) -> anyhow::Result<Materials> {
        let metadata = output(&mut cargo(&[
            "metadata",
            "--format-version=1",
            "--locked",
            "--offline",
            "--filter-platform",
            target,
        ]))?;
        // Cargo's metadata unites the features of the whole workspace; the tree has those of the program.
        let tree = output(&mut cargo(&[
            "tree",
            "--package",
            PROGRAM,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--locked",
            "--offline",
            "--target",
            target,
        ]))?;
        let lock =
            std::fs::read_to_string(project_root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
        Ok(Materials {
            metadata: serde_json::from_str(&metadata).context("cargo metadata gave no JSON")?,
            linked: linked_crates(&tree),
            checksums: checksums(&lock)?,
        })
    }

    /// The document. `source_date` is in seconds since 1970.
    pub(super) fn document(&self, source_date: &str) -> anyhow::Result<Value> {
        let packages = self.linked_packages()?;
        let (program, libraries): (Vec<&Value>, Vec<&Value>) =
            packages.values().partition(|package| package["name"] == PROGRAM);
        let program = program.first().context("the program is not among the packages")?;
        let components = libraries
            .iter()
            .map(|package| self.component(package, "library"))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let dependencies = self.dependencies(&packages)?;
        let seconds: i64 = source_date.parse().with_context(|| format!("{source_date} is no time"))?;
        let time = jiff::Timestamp::from_second(seconds)?.to_string();
        let mut document = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": time,
                "tools": { "components": [
                    { "type": "application", "name": "xtask", "version": env!("CARGO_PKG_VERSION") }
                ]},
                "component": self.component(program, "application")?,
            },
            "components": components,
            "dependencies": dependencies,
        });
        document["serialNumber"] = json!(serial_number(&document));
        Ok(document)
    }

    /// The linked packages by the ids of cargo.
    fn linked_packages(&self) -> anyhow::Result<BTreeMap<&str, &Value>> {
        let packages = self.metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let mut found = BTreeMap::new();
        for package in packages {
            if self.linked.contains(&crate_id(package)?) {
                found.insert(package["id"].as_str().context("a package without an id")?, package);
            }
        }
        ensure!(found.len() == self.linked.len(), "cargo tree and cargo metadata name different packages");
        Ok(found)
    }

    fn component(&self, package: &Value, kind: &str) -> anyhow::Result<Value> {
        let id = crate_id(package)?;
        let reference = package_url(&id);
        let mut component = json!({
            "type": kind,
            "bom-ref": reference,
            "name": id.0,
            "version": id.1,
            "scope": "required",
            "purl": reference,
        });
        if let Some(license) = package["license"].as_str() {
            // Older packages write `/` for OR.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(description) = package["description"].as_str() {
            component["description"] = json!(description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if let Some(checksum) = self.checksums.get(&id) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        if let Some(repository) = package["repository"].as_str() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        Ok(component)
    }

    fn dependencies(&self, packages: &BTreeMap<&str, &Value>) -> anyhow::Result<Vec<Value>> {
        let nodes = self.metadata["resolve"]["nodes"].as_array().context("cargo metadata has no graph")?;
        let mut found = BTreeMap::new();
        for node in nodes {
            let Some(package) = node["id"].as_str().and_then(|id| packages.get(id)) else { continue };
            let mut targets = BTreeSet::new();
            for dependency in node["deps"].as_array().into_iter().flatten() {
                let is_linked = dependency["dep_kinds"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|kind| kind["kind"].is_null());
                let target = dependency["pkg"].as_str().and_then(|id| packages.get(id));
                if let (true, Some(target)) = (is_linked, target) {
                    targets.insert(package_url(&crate_id(target)?));
                }
            }
            found.insert(package_url(&crate_id(package)?), targets);
        }
        Ok(found.into_iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to })).collect())
    }
}

fn crate_id(package: &Value) -> anyhow::Result<CrateId> {
    let text = |field: &str| package[field].as_str().map(str::to_owned);
    Ok((
        text("name").context("a package without a name")?,
        text("version").context("a package without a version")?,
    ))
}

fn package_url((name, version): &CrateId) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// The lines of `cargo tree`: `name v1.2.3 (path) (*)`.
fn linked_crates(tree: &str) -> BTreeSet<CrateId> {
    let lines = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    });
    lines.collect()
}

fn checksums(lock: &str) -> anyhow::Result<BTreeMap<CrateId, String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is no TOML")?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let entries = packages.iter().filter_map(|package| {
        let text = |field: &str| package.get(field).and_then(toml::Value::as_str).map(str::to_owned);
        Some(((text("name")?, text("version")?), text("checksum")?))
    });
    Ok(entries.collect())
}

/// A UUID of version 8 that follows from the content.
fn serial_number(document: &Value) -> String {
    let mut bytes = Sha256::digest(document.to_string())[..16].to_vec();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hexadecimal(&bytes);
    format!("urn:uuid:{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests;
