//! Real traffic and real files to begin with: recorded from Apache ZooKeeper, kept beside the crates that
//! read them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

fn lines(directory: &str) -> Vec<Value> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(crates().join(directory)) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => return Vec::new(),
    };
    paths.sort();
    let texts = paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let texts = texts.filter_map(|path| fs::read_to_string(path).ok());
    texts
        .flat_map(|text| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>())
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Which end of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What clients send.
    Client,
    /// What servers answer.
    Server,
}

/// Frames of recorded clients, or of their servers, each without its length.
pub fn client_frames(side: Side) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for vector in lines("testing/testdata/client") {
        for step in vector["steps"].as_array().into_iter().flatten() {
            match side {
                Side::Client => frames.extend(step["send"].as_str().map(unhex)),
                Side::Server => {
                    let received = step["recv"].as_array().into_iter().flatten();
                    frames.extend(received.filter_map(|text| text.as_str().map(unhex)));
                }
            }
        }
    }
    frames.into_iter().filter(|frame| frame.len() > 4).map(|frame| frame[4..].to_vec()).collect()
}

/// What members of an ensemble said to each other on one of their ports, `election` or `learner`.
pub fn quorum_messages(port: &str) -> Vec<Vec<u8>> {
    lines("proto/testdata/quorum")
        .iter()
        .filter(|message| message["port"] == port)
        .filter_map(|message| message["bytes"].as_str().map(unhex))
        .filter(|bytes| !bytes.is_empty())
        .collect()
}

/// Files of a folder in the test data of the security crate.
pub fn security_files(folder: &str, names: &[&str]) -> Vec<Vec<u8>> {
    let directory = crates().join("security/testdata").join(folder);
    names.iter().filter_map(|name| fs::read(directory.join(name)).ok()).collect()
}

/// One field of all cases in a list of the security crate.
pub fn security_cases(file: &str, field: &str) -> Vec<Vec<u8>> {
    let text = fs::read(crates().join("security/testdata").join(file)).unwrap_or_default();
    let cases: Vec<Value> = serde_json::from_slice(&text).unwrap_or_default();
    cases.iter().filter_map(|case| Some(case[field].as_str()?.as_bytes().to_vec())).collect()
}

/// The recorded messages of one side, joined per scenario. Messages of other protocols are left out.
pub fn security_exchanges(file: &str, side: &str) -> Vec<Vec<u8>> {
    const MAGIC: &str = "5f2435013501edcc";
    let text = fs::read_to_string(crates().join("security/testdata").join(file)).unwrap_or_default();
    let mut exchanges: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (Some(scenario), Some(bytes)) = (line["scenario"].as_str(), line["bytes"].as_str()) else {
            continue;
        };
        if line["from"] != side || !bytes.starts_with(MAGIC) {
            continue;
        }
        match exchanges.last_mut() {
            Some((last, joined)) if last == scenario => joined.extend(unhex(bytes)),
            _ => exchanges.push((scenario.to_owned(), unhex(bytes))),
        }
    }
    exchanges.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Files whose name begins like this, in all recorded data directories.
pub fn files(beginning: &str) -> Vec<Vec<u8>> {
    const SIZE_MAX: u64 = 256 << 10;
    let mut found = Vec::new();
    let mut directories = vec![crates().join("storage/testdata")];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                directories.push(path);
            } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
                && path.metadata().is_ok_and(|metadata| metadata.len() <= SIZE_MAX)
            {
                found.extend(fs::read(path));
            }
        }
    }
    // Preallocated zeros teach nothing.
    for bytes in &mut found {
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(used + 16);
    }
    found
}
