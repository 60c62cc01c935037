//! The workspace as `cargo metadata` sees it: crates of ours and what each of them names as a dependency.

use anyhow::{Context, bail};
use serde_json::Value;

use crate::step::cargo;

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as written in a manifest.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// True for a crate of this workspace.
    pub(crate) ours: bool,
}

/// What a dependency is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Shipped,
    Development,
}

/// The crates of the workspace.
pub(crate) fn read(metadata: &Value) -> anyhow::Result<Vec<Crate>> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    packages.iter().map(parse_crate).collect()
}

/// The answer of `cargo metadata` about the workspace alone.
pub(crate) fn ask_cargo() -> anyhow::Result<Value> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")
}

fn parse_crate(package: &Value) -> anyhow::Result<Crate> {
    let name = package["name"].as_str().context("a package without a name")?.to_owned();
    let dependencies = package["dependencies"].as_array().context("a package without dependencies")?;
    let dependencies = dependencies
        .iter()
        .map(|dependency| {
            let name = dependency["name"].as_str().context("a dependency without a name")?.to_owned();
            let kind = if dependency["kind"] == "dev" { Kind::Development } else { Kind::Shipped };
            Ok(Dependency { name, kind, ours: dependency["path"].is_string() })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Crate { name, dependencies })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A crate with dependencies of ours, for the tests of the rules.
    pub(crate) fn crate_of_ours(name: &str, kind: Kind, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies
            .iter()
            .map(|name| Dependency { name: (*name).to_owned(), kind, ours: true })
            .collect();
        Crate { name: name.to_owned(), dependencies }
    }

    #[test]
    fn reads_names_kinds_and_origin() {
        let metadata = serde_json::json!({"packages": [{"name": "zebu-tree", "dependencies": [
            {"name": "zebu-proto", "kind": null, "path": "/somewhere/crates/proto"},
            {"name": "proptest", "kind": "dev"},
        ]}]});
        let crates = read(&metadata).unwrap();
        let dependencies = &crates[0].dependencies;
        assert_eq!(crates[0].name, "zebu-tree");
        assert!(dependencies[0].ours && dependencies[0].kind == Kind::Shipped);
        assert!(!dependencies[1].ours && dependencies[1].kind == Kind::Development);
    }
}
