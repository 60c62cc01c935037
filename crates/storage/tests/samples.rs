//! Directories that Apache ZooKeeper wrote: everything in them is read, and written again byte for byte.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use support::target::Recorded;
use support::{json, sample, samples};
use zebu_proto::txn::TxnEntry;
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use zebu_storage::format::snapshot::Encoder;
use zebu_storage::recovery::RecoveryChanges;
use zebu_storage::snapshot_file::load;
use zebu_storage::{FileDisk, RecoveryOptions, Sections, recover};

struct ReadEntry {
    at: u64,
    end: u64,
    frame: Vec<u8>,
    entry: TxnEntry,
}

fn read_log(bytes: &[u8]) -> (Vec<ReadEntry>, LogEnd) {
    let (mut scanner, header) = LogScanner::open(bytes).unwrap();
    assert_eq!(header, LogHeader::Valid);
    let mut entries = Vec::new();
    loop {
        match scanner.next_entry().unwrap() {
            ScanItem::Entry(raw) => entries.push(ReadEntry {
                at: raw.at,
                end: raw.end,
                frame: bytes[raw.at as usize..raw.end as usize].to_vec(),
                entry: TxnEntry::decode(raw.payload).unwrap(),
            }),
            ScanItem::End(end) => return (entries, end),
        }
    }
}

#[test]
fn every_entry_is_read() {
    for sample in samples().iter().filter(|it| it.name != "top-level-check") {
        let mut found = Vec::new();
        for file in sample.expected["files"].as_array().unwrap() {
            let name = file["file"].as_str().unwrap();
            let bytes = fs::read(sample.directories.logs().join(name)).unwrap();
            assert_eq!(json!(bytes.len()), file["size"]);
            let (entries, end) = read_log(&bytes);
            assert_eq!(json!(entries.len()), file["entries"], "{} {name}", sample.name);
            let LogEnd::Clean { at } = end else { panic!("{} {name}: {end:?}", sample.name) };
            assert_eq!(json!(at), file["dataEnd"]);
            found.extend(entries.into_iter().map(|entry| (name, entry)));
        }
        let expected = sample.expected["transactions"].as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        for ((name, read), expected) in found.iter().zip(expected) {
            let mut expected = expected.clone();
            let fields = expected.as_object_mut().unwrap();
            assert_eq!(fields.remove("file"), Some(json!(name)));
            assert_eq!(fields.remove("offset"), Some(json!(read.at)));
            assert_eq!(fields.remove("size"), Some(json!(read.end - read.at)));
            strip(&mut expected);
            let found = json::entry(&read.entry);
            assert!(json::same(&found, &expected), "{}: {found}\n{expected}", sample.name);
        }
    }
}

/// Removes what is only there for people: names and remarks.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("name");
            fields.remove("format");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Strings that were not UTF-8 come back as replacement characters, and the first create format is written
/// as the current one; everything else is the same to the byte.
#[test]
fn entries_are_written_byte_for_byte() {
    let mut exact = 0;
    for sample in samples() {
        for entry in fs::read_dir(sample.directories.logs()).unwrap() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_str().unwrap().starts_with("log.") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let (entries, _) = read_log(&bytes);
            let mut file = HEADER.to_vec();
            for read in &entries {
                let start = file.len();
                append_entry(&read.entry, &mut file);
                let text = format!("{:?}", read.entry);
                if text.contains('\u{fffd}') || text.contains("parent_cversion: -1") {
                    file.truncate(start);
                    file.extend_from_slice(&read.frame);
                } else {
                    exact += 1;
                }
            }
            assert_eq!(file, bytes[..file.len()], "{}", path.display());
        }
    }
    assert!(exact > 600, "{exact}");
}

fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let mut plain = Vec::new();
    match path.extension().and_then(|it| it.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap(),
        Some("snappy") => zebu_storage::format::snappy::SnappyReader::new(&bytes[..])
            .unwrap()
            .read_to_end(&mut plain)
            .unwrap(),
        _ => return bytes,
    };
    plain
}

#[test]
fn every_snapshot_is_read_and_written_byte_for_byte() {
    let mut exact = 0;
    for sample in samples().iter().filter(|it| it.name != "top-level-check") {
        for expected in sample.expected["snapshots"].as_array().unwrap() {
            let path = sample.directories.snapshots().join(expected["file"].as_str().unwrap());
            let mut content = Recorded::default();
            let summary = load(&FileDisk, &path, &mut content).unwrap().unwrap();
            assert_eq!(json!(fs::metadata(&path).unwrap().len()), expected["fileSize"]);
            assert_eq!(json!(summary.size), expected["uncompressedSize"]);
            assert_eq!(json!(content.nodes.len()), expected["nodeCount"]);
            let seals: Vec<_> = summary.seals.iter().map(|seal| json::hex(i64::from(*seal))).collect();
            assert_eq!(json!(seals), expected["seals"]);
            let digest = summary.digest.as_ref().map(|it| {
                json!({ "zxid": json::hex(it.zxid.0), "version": it.version, "digest": json::hex(it.digest) })
            });
            assert_eq!(json!(digest), expected["digest"]);
            assert_eq!(json!(summary.last_zxid.map(|it| json::hex(it.0))), expected["lastProcessedZxid"]);
            let sessions = content.sessions.iter().map(|(id, timeout)| (id.to_string(), json!(timeout)));
            assert_eq!(Value::Object(sessions.collect()), expected["sessions"]);
            let acls = content.acls.iter().map(|(id, acl)| (id.to_string(), json::acl(acl)));
            let acls = Value::Object(acls.collect());
            assert!(json::same(&acls, &expected["acls"]), "{}", path.display());

            if acls.to_string().contains('\u{fffd}') {
                continue;
            }
            let sections = match (summary.digest, summary.last_zxid) {
                (None, None) => Sections::None,
                (Some(it), None) => Sections::Digest { zxid: it.zxid, digest: it.digest },
                (Some(it), Some(last_zxid)) => {
                    Sections::DigestAndLastZxid { zxid: it.zxid, digest: it.digest, last_zxid }
                }
                (None, Some(_)) => panic!("no server writes that"),
            };
            let acls = content.acls.iter().map(|(id, acl)| (*id, &acl[..]));
            let mut encoder = Encoder::begin(Vec::new(), content.sessions.iter().copied(), acls).unwrap();
            for node in &content.nodes {
                encoder.node(&node.path, node.data.as_deref(), node.acl, &node.stat).unwrap();
            }
            assert_eq!(encoder.finish(sections).unwrap(), unpacked(&path), "{}", path.display());
            exact += 1;
        }
    }
    assert!(exact >= 24, "{exact}");
}

#[test]
fn every_directory_is_recovered() {
    for sample in samples().iter().filter(|it| it.name != "top-level-check") {
        let mut target = Recorded::default();
        let options = RecoveryOptions { changes: RecoveryChanges::Plan, ..Default::default() };
        let recovered = recover(&FileDisk, &sample.directories, options, &mut target, &mut |_| {}).unwrap();
        let restored = &sample.expected["restored"];
        let snapshot = recovered.snapshot.unwrap();
        let name = snapshot.path.file_name().unwrap().to_str().unwrap();
        assert_eq!(json!(name), restored["fromSnapshot"], "{}", sample.name);
        assert_eq!(json::hex(recovered.last_zxid.0), restored["lastZxid"], "{}", sample.name);
        assert_eq!(recovered.repairs, [], "{}", sample.name);
        assert_eq!(recovered.fuzzy_until, None);
        assert_eq!((recovered.rejected.len(), recovered.dropped.len()), (0, 0));
        let expected = sample.expected["transactions"].as_array().unwrap();
        let mut behind: Vec<_> =
            expected.iter().map(|it| json::zxid(&it["zxid"])).filter(|it| *it > snapshot.zxid).collect();
        let all = behind.len() as u64;
        behind.dedup();
        let found: Vec<_> = target.entries.iter().map(|it| it.header.zxid).collect();
        assert_eq!(found, behind, "{}", sample.name);
        assert_eq!((recovered.applied, recovered.repeated), (behind.len() as u64, all - behind.len() as u64));
    }
}

#[test]
fn a_check_outside_a_multi_is_a_transaction_without_effect() {
    let sample = sample("top-level-check");
    let mut target = Recorded::default();
    let options = RecoveryOptions { changes: RecoveryChanges::Plan, ..Default::default() };
    let recovered = recover(&FileDisk, &sample.directories, options, &mut target, &mut |_| {}).unwrap();
    let last = sample.expected["fromTheCheckOn"].as_array().unwrap().last().unwrap();
    assert_eq!(json::hex(recovered.last_zxid.0), last["zxid"]);
    assert!(target.entries.iter().any(|it| it.txn.op_code() == zebu_proto::OpCode::Check));
}
