//! What the storage tests share: the sample directories, a target that records what it is given, and a check
//! that a directory can be handed to Apache.
#![allow(dead_code, unreachable_pub)]

pub mod chain;
pub mod handover;
pub mod json;
pub mod member;
pub mod target;

use std::fs;
use std::path::{Path, PathBuf};

use zebu_storage::Directories;

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// Every file below a directory with its bytes.
pub fn image(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(image(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// A sample set, unpacked where it is packed.
pub struct Sample {
    pub name: String,
    pub expected: serde_json::Value,
    pub directories: Directories,
    _unpacked: Option<tempfile::TempDir>,
}

pub fn samples() -> Vec<Sample> {
    let mut names: Vec<String> = fs::read_dir(testdata())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| testdata().join(name).join("data").is_dir())
        .collect();
    names.sort();
    assert_eq!(names.len(), 19, "{names:?}");
    names.iter().map(|name| sample(name)).collect()
}

pub fn sample(name: &str) -> Sample {
    let root = testdata().join(name);
    let expected = serde_json::from_slice(&fs::read(root.join("expected.json")).unwrap()).unwrap();
    let packed = root.join("log.1.gzip");
    if packed.exists() {
        let unpacked = tempfile::tempdir().unwrap();
        copy_tree(&root.join("data"), &unpacked.path().join("data"));
        let mut decoder = flate2::read::GzDecoder::new(fs::File::open(packed).unwrap());
        let mut log = fs::File::create(unpacked.path().join("data/version-2/log.1")).unwrap();
        std::io::copy(&mut decoder, &mut log).unwrap();
        let data = unpacked.path().join("data");
        let directories = Directories::new(data.clone(), data);
        return Sample { name: name.into(), expected, directories, _unpacked: Some(unpacked) };
    }
    let data = root.join("data");
    let logs = if root.join("datalog").is_dir() { root.join("datalog") } else { data.clone() };
    Sample { name: name.into(), expected, directories: Directories::new(data, logs), _unpacked: None }
}
