//! The bill of materials of this workspace has the fields that CycloneDX 1.5 requires.

use super::*;

fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().filter(|text| !text.is_empty()).unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn the_document_has_the_required_fields() {
    let document = Materials::read(&target()).unwrap().document("1700000000").unwrap();
    assert_eq!(text(&document, "bomFormat"), "CycloneDX");
    assert_eq!(text(&document, "specVersion"), "1.5");
    assert_eq!(document["version"], 1);
    let serial = text(&document, "serialNumber").strip_prefix("urn:uuid:").unwrap();
    let lengths: Vec<usize> = serial.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(text(&document["metadata"], "timestamp"), "2023-11-14T22:13:20Z");
    let program = &document["metadata"]["component"];
    assert_eq!((text(program, "type"), text(program, "name")), ("application", "zebu"));
    assert_eq!(text(program, "version"), env!("CARGO_PKG_VERSION"));

    let components = document["components"].as_array().unwrap();
    let mut references = BTreeSet::from([text(program, "bom-ref")]);
    for component in components {
        assert_eq!(text(component, "type"), "library");
        let (name, version) = (text(component, "name"), text(component, "version"));
        assert_eq!(text(component, "purl").split_once('@').unwrap().0, format!("pkg:cargo/{name}"));
        assert!(!version.is_empty());
        assert!(references.insert(text(component, "bom-ref")), "{name} {version} is listed twice");
        let is_ours = name.starts_with("zebu-");
        assert!(component["licenses"][0]["expression"].is_string(), "{name} has no license");
        assert_eq!(component["hashes"][0]["alg"] == "SHA-256", !is_ours, "{name}");
    }
    for name in ["tokio", "rustls", "zebu-server", "zebu-zab"] {
        assert!(components.iter().any(|component| component["name"] == name), "{name} is missing");
    }
    for name in ["proptest", "zebu-testing", "zebu-sim"] {
        assert!(components.iter().all(|component| component["name"] != name), "{name} is not linked");
    }
    for dependency in document["dependencies"].as_array().unwrap() {
        assert!(references.contains(text(dependency, "ref")));
        for target in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(target.as_str().unwrap()), "{target} is not a component");
        }
    }
    assert_eq!(document["dependencies"].as_array().unwrap().len(), references.len());
}

#[test]
fn two_runs_give_the_same_bytes() {
    let make = || Materials::read(&target()).unwrap().document("1700000000").unwrap().to_string();
    assert_eq!(make(), make());
}

#[test]
fn lines_of_the_tree_are_read() {
    let found = linked_crates("zebu v0.1.0 (/x/y)\nserde v1.0.1 (*)\n\nring v0.17.14\n");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ring", "serde", "zebu"]);
    assert_eq!(
        package_url(&("toml".to_owned(), "1.1.8+spec-1.1.0".to_owned())),
        "pkg:cargo/toml@1.1.8%2Bspec-1.1.0"
    );
}
