//! `zebu log` from outside, on the samples that ZooKeeper wrote and on damaged ones.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine;
use serde_json::{Value, json};
use zebu_storage::format::names::parse_log;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/testdata")
}

/// Runs zebu in a directory; what it asks is answered with `answers`.
fn zebu(directory: &Path, words: &[&str], answers: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .current_dir(directory)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A tool that asks nothing may be gone already.
    let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn small() -> PathBuf {
    samples().join("small/data/version-2")
}

fn damaged(name: &str) -> PathBuf {
    samples().join("damaged").join(name).join("version-2")
}

/// A directory with a copy of one damaged log.
fn copy_of(name: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::copy(damaged(name).join("log.7"), home.path().join("log.7")).unwrap();
    home
}

fn expected(sample: &str) -> Value {
    let text = fs::read_to_string(samples().join(sample).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Samples with logs as ZooKeeper left them, and where the logs are.
const INTACT: &[(&str, &str)] = &[
    ("small", "data"),
    ("standalone", "data"),
    ("gz", "data"),
    ("snappy", "data"),
    ("no-digest", "data"),
    ("large", "data"),
    ("fuzzy", "data"),
    ("separate-dirs", "datalog"),
    ("ensemble-1", "data"),
    ("ensemble-2", "data"),
    ("ensemble-3", "data"),
    ("after-trunc", "data"),
    ("after-snap", "data"),
    ("after-snap-stale-tail", "data"),
    ("close-without-body", "data"),
    ("top-level-check", "data"),
    ("old-format", "data"),
    ("release-3.9.5", "data"),
];

#[test]
fn dump_as_text() {
    let output = zebu(&small(), &["log", "dump", "log.7"], "");
    let session = "session=0x100006b16130000";
    let day = "2026-11-15T20:56:14";
    let open = "acl=world:anyone:cdrwa ephemeral=false";
    assert_eq!(
        stdout(&output),
        format!(
            "log.7: transaction log, version 2, dbid 0\n\
             16 {day}.630Z {session} cxid=0x1 zxid=0x7 create2 path=/b bytes=1 {open} parent_cversion=3 \
             digest=2:0x180a9a23a\n\
             116 {day}.638Z {session} cxid=0x2 zxid=0x8 create path=/b/s-0000000000 bytes=0 {open} \
             parent_cversion=1 digest=2:0x1de928ab8\n\
             228 {day}.643Z {session} cxid=0x3 zxid=0x9 setData path=/b bytes=2 version=1 \
             digest=2:0x27a7f3bd1\n\
             301 {day}.648Z {session} cxid=0x4 zxid=0xa create path=/b/s-0000000001 bytes=0 {open} \
             parent_cversion=2 digest=2:0x2b5615951\n\
             413 {day}.652Z {session} cxid=0x5 zxid=0xb delete path=/t digest=2:0x24c69f98a\n\
             476 {day}.657Z {session} cxid=0x6 zxid=0xc setData path=/a bytes=5 version=2 \
             digest=2:0x2dc97039f\n\
             552 end: 6 entries, then end of file\n"
        )
    );
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn dump_with_data_in_a_range() {
    let words = ["log", "dump", "--verbose", "--from", "3", "--to", "0x5", "log.1"];
    let output = zebu(&small(), &words, "");
    let session = "session=0x100006b16130000";
    assert_eq!(
        stdout(&output),
        format!(
            "log.1: transaction log, version 2, dbid 0\n\
             179 2026-11-15T20:56:13.855Z {session} cxid=0x2 zxid=0x3 create path=/a/e data=\"\" \
             acl=world:anyone:cdrwa,digest:u:p:r ephemeral=true parent_cversion=1 digest=2:0x15192204b\n\
             301 2026-11-15T20:56:13.861Z {session} cxid=0x3 zxid=0x4 createTTL path=/t data=\"t\" \
             acl=world:anyone:cdrwa parent_cversion=2 ttl_ms=10000000000 digest=2:0x172c65ddb\n\
             408 2026-11-15T20:56:13.865Z {session} cxid=0x4 zxid=0x5 error code=-110 name=NodeExists\n\
             531 end: 3 of 6 entries, then end of file\n"
        )
    );
    let wrong = zebu(&small(), &["log", "dump", "--from", "xyz", "log.1"], "");
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn parts_of_a_multi_have_lines_of_their_own() {
    let directory = samples().join("standalone/data/version-2");
    let output = zebu(&directory, &["log", "dump", "-v", "--from", "0x19", "--to", "0x1b", "log.1"], "");
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].contains("zxid=0x19 multi parts=8 digest="), "{text}");
    assert_eq!(lines[2], "    check path=/a version=2");
    assert_eq!(
        lines[3],
        "    create path=/m1 data=\"1\" acl=world:anyone:cdrwa ephemeral=false parent_cversion=13"
    );
    assert_eq!(lines[9], "    delete path=/m1");
    assert!(lines[10].contains("zxid=0x1a multi parts=4"), "{text}");
    assert_eq!(lines[12], "    error code=-103 name=BadVersion");
    assert_eq!(lines[13], "    error code=-2 name=RuntimeInconsistency");
    assert!(lines[15].contains("zxid=0x1b multi parts=0"), "{text}");
    assert_eq!(lines[16], "9322 end: 3 of 41 entries, then 7078 bytes of padding");
}

/// What a decoded body must say, in the words of the dump.
fn body(name: &str, body: &Value) -> Value {
    let mut expected = json!({ "type": name });
    let fields = expected.as_object_mut().unwrap();
    for (key, value) in body.as_object().into_iter().flatten() {
        match key.as_str() {
            // How the bytes were laid out, not what they say.
            "format" => None,
            "timeOut" => fields.insert("timeout_ms".into(), value.clone()),
            "paths2Delete" => fields.insert("paths".into(), value.clone()),
            "parentCVersion" => fields.insert("parent_cversion".into(), value.clone()),
            "ttl" => fields.insert("ttl_ms".into(), value.clone()),
            "err" => fields.insert("code".into(), value.clone()),
            "acl" => fields.insert("acl".into(), acl(value)),
            "txns" => {
                let part = |part: &Value| self::body(part["name"].as_str().unwrap(), &part["body"]);
                fields.insert("parts".into(), value.as_array().unwrap().iter().map(part).collect())
            }
            "data" => {
                if let Some(text) = value.as_str() {
                    let bytes = unhex(text);
                    fields.insert("data_length".into(), bytes.len().into());
                    fields
                        .insert("data".into(), base64::engine::general_purpose::STANDARD.encode(bytes).into())
                } else {
                    fields.insert("data_length".into(), value["length"].clone())
                }
            }
            _ => fields.insert(key.clone(), value.clone()),
        };
    }
    expected
}

fn acl(value: &Value) -> Value {
    let Some(entries) = value.as_array() else { return Value::Null };
    let text = |value: &Value| value.get("text").unwrap_or(value).clone();
    let letters = |bits: i64| -> String {
        "cdrwa"
            .chars()
            .zip([4, 8, 1, 2, 16])
            .filter(|(_, bit)| bits & bit != 0)
            .map(|(letter, _)| letter)
            .collect()
    };
    let entry = |entry: &Value| {
        json!({
            "permissions": letters(entry[0].as_i64().unwrap()),
            "scheme": text(&entry[1]),
            "id": text(&entry[2]),
        })
    };
    entries.iter().map(entry).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Keeps of `found` what `wanted` speaks of.
fn only(found: &Value, wanted: &Value) -> Value {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let value = |key: &String| found.get(key).unwrap_or(&Value::Null).clone();
            wanted.iter().map(|(key, wanted)| (key.clone(), only(&value(key), wanted))).collect()
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            found.iter().zip(wanted).map(|(found, wanted)| only(found, wanted)).collect()
        }
        _ => found.clone(),
    }
}

#[test]
fn dump_says_what_zookeeper_wrote() {
    let mut compared = 0;
    for (sample, place) in INTACT {
        let expected = expected(sample);
        for file in expected["files"].as_array().into_iter().flatten() {
            let name = file["file"].as_str().unwrap();
            let directory = samples().join(sample).join(place).join("version-2");
            let output = zebu(&directory, &["log", "dump", "--json", "--verbose", name], "");
            assert_eq!(output.status.code(), Some(0), "{sample} {name}: {}", stderr(&output));
            let found = lines(&output);
            assert_eq!(
                found[0],
                json!({ "kind": "header", "file": name, "version": 2, "dbid": 0, "broken": null })
            );
            let wanted = expected["transactions"].as_array().unwrap().iter().filter(|it| it["file"] == name);
            for (found, wanted) in found[1..].iter().zip(wanted) {
                let mut fields = body(wanted["name"].as_str().unwrap(), &wanted["body"]);
                fields["kind"] = "entry".into();
                fields["offset"] = wanted["offset"].clone();
                fields["session"] = wanted["clientId"].clone();
                fields["cxid"] = wanted["cxid"].clone();
                fields["zxid"] = wanted["zxid"].clone();
                fields["time_ms"] = wanted["time"].clone();
                fields["digest"] = match &wanted["digest"] {
                    Value::Null => Value::Null,
                    digest => json!({ "version": digest["version"], "value": digest["treeDigest"] }),
                };
                assert_eq!(only(found, &fields), fields, "{sample} {name}");
                compared += 1;
            }
            let end = found.last().unwrap();
            assert_eq!(end["offset"], file["dataEnd"], "{sample} {name}");
            assert_eq!(end["entries"], file["entries"], "{sample} {name}");
            assert_eq!(found.len() as u64, 2 + file["entries"].as_u64().unwrap());
            let padding = file["size"].as_u64().unwrap() - file["dataEnd"].as_u64().unwrap();
            assert_eq!(end["padding"], padding);
        }
    }
    assert!(compared > 700, "{compared}");
}

#[test]
fn intact_logs_are_sound() {
    for (sample, place) in INTACT {
        let directory = samples().join(sample).join(place).join("version-2");
        let mut words = vec!["log".to_owned(), "verify".to_owned(), "--json".to_owned()];
        let names =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        words.extend(names.filter(|name| name.starts_with("log.")));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = zebu(&directory, &words, "");
        assert_eq!(output.status.code(), Some(0), "{sample}: {}", stdout(&output));
        assert_eq!(lines(&output).len(), words.len() - 3);
    }
    let output = zebu(&small(), &["log", "verify", "log.1", "log.7"], "");
    assert_eq!(
        stdout(&output),
        "log.1: sound: 6 entries, zxid 0x1 to 0x6; 531 bytes\n\
         log.7: sound: 6 entries, zxid 0x7 to 0xc; 552 bytes\n"
    );
    let release = samples().join("release-3.9.5/data/version-2");
    let repeated = zebu(&release, &["log", "verify", "--json", "log.1", "log.18"], "");
    assert!(lines(&repeated).iter().any(|it| it["repeated"].as_u64().unwrap() > 0), "{}", stdout(&repeated));
}

#[test]
fn verify_explains_the_flaw() {
    let output = zebu(&damaged("middle-eor-flipped"), &["log", "verify", "log.7"], "");
    assert_eq!(
        stdout(&output),
        "log.7: NOT SOUND: 5 entries, zxid 0x7 to 0xc; 552 bytes\n\
         \x20 flaw at offset 228: end mark missing (the entry says it is 0x9); a valid entry, 0xa, follows \
         at offset 301\n\
         \x20 meaning: acknowledged transactions are damaged; Zebu refuses to start, ZooKeeper starts and \
         silently leaves out all that follows\n\
         \x20 to do: take the log from a backup, or empty this member and let it copy from the others; if \
         there is neither, `zebu log recover` saves what is intact\n"
    );
    assert_eq!(output.status.code(), Some(1));
    let torn = zebu(&damaged("torn-tail-cut-in-payload"), &["log", "verify", "log.1", "log.7"], "");
    assert_eq!(
        stdout(&torn),
        "log.1: sound: 6 entries, zxid 0x1 to 0x6; 531 bytes\n\
         log.7: NOT SOUND: 5 entries, zxid 0x7 to 0xb; 524 bytes\n\
         \x20 flaw at offset 476: torn tail: the file ends inside the entry; no valid entry follows\n\
         \x20 meaning: the last write was interrupted; if this is the newest log it was never \
         acknowledged, and nothing is lost\n\
         \x20 to do: nothing: Zebu drops it at start. ZooKeeper may refuse to start; `zebu log recover` \
         then writes a log without it\n"
    );
    assert_eq!(torn.status.code(), Some(1));
}

#[test]
fn the_worst_flaw_comes_first() {
    // A renamed copy whose middle is damaged: the name is the smaller evil.
    let home = tempfile::tempdir().unwrap();
    fs::copy(damaged("middle-eor-flipped").join("log.7"), home.path().join("log.a")).unwrap();
    let output = zebu(home.path(), &["log", "verify", "log.a"], "");
    assert_eq!(
        stdout(&output),
        "log.a: NOT SOUND: 5 entries, zxid 0x7 to 0xc; 552 bytes\n\
         \x20 flaw at offset 228: end mark missing (the entry says it is 0x9); a valid entry, 0xa, follows \
         at offset 301\n\
         \x20 meaning: acknowledged transactions are damaged; Zebu refuses to start, ZooKeeper starts and \
         silently leaves out all that follows\n\
         \x20 to do: take the log from a backup, or empty this member and let it copy from the others; if \
         there is neither, `zebu log recover` saves what is intact\n\
         \x20 1 more flaw (wrong name of the file: 1); `zebu log dump` marks broken entries\n"
    );
    assert_eq!(output.status.code(), Some(1));
    let output = zebu(home.path(), &["log", "verify", "--json", "log.a"], "");
    let report = &lines(&output)[0];
    assert_eq!((&report["flaws"], &report["worst_flaw"]["offset"]), (&2.into(), &228.into()), "{report}");
    assert_eq!(report["first_flaw"]["offset"], 16, "{report}");
}

#[test]
fn a_snapshot_is_not_taken_for_a_log_nor_the_reverse() {
    let directory = small();
    for (words, told) in [
        (["log", "dump", "snapshot.0"], "snapshot.0 is a snapshot, not a log: zebu snapshot dump snapshot.0"),
        (
            ["log", "verify", "snapshot.0"],
            "snapshot.0 is a snapshot, not a log: zebu snapshot verify snapshot.0",
        ),
        (
            ["log", "recover", "snapshot.0"],
            "snapshot.0 is a snapshot, not a log: zebu snapshot verify snapshot.0",
        ),
        (["snapshot", "dump", "log.1"], "log.1 is a transaction log, not a snapshot: zebu log dump log.1"),
        (["snapshot", "verify", "log.1"], "log.1 is a transaction log, not a snapshot: zebu log dump log.1"),
        (["snapshot", "summary", "log.1"], "log.1 is a transaction log, not a snapshot: zebu log dump log.1"),
    ] {
        let output = zebu(&directory, &words, "");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((stdout(&output).as_str(), error), ("", format!("error: {told}\n")), "{words:?}");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn entries_that_zookeeper_does_not_read_are_told() {
    let server = zebu_testing::ServerProcess::builder(env!("CARGO_BIN_EXE_zebu"))
        .property("jute.maxbuffer", "4194304")
        .start()
        .unwrap();
    let (mut client, _) = zebu_testing::RawClient::open(server.address()).unwrap();
    let data = vec![b'x'; 3_000_000];
    let (_, header, _) = client
        .call(zebu_proto::OpCode::Create, |out| {
            zebu_proto::jute::encode_bytes(b"/long", out);
            zebu_proto::jute::encode_bytes(&data, out);
            zebu_proto::Jute::encode(&zebu_proto::Acl::open(), out);
            zebu_proto::Jute::encode(&0i32, out);
        })
        .unwrap();
    assert_eq!(header.err, 0);
    let files = server.data_dir().join("version-2");
    let output = zebu(&files, &["log", "verify", "log.1"], "");
    let text = stdout(&output);
    let note = "\n  note: 1 entry is longer than ZooKeeper reads by default, up to 3000";
    assert!(text.contains(": sound: ") && text.contains(note), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let data_dir = server.data_dir().to_owned();
    let mut server = server;
    server.stop().unwrap();
    let output = zebu(&files, &["check", "0", data_dir.to_str().unwrap()], "");
    let text = stdout(&output);
    assert!(text.contains("note: the transaction 0x2 in the log has 3000"), "{text}");
    assert!(
        text.contains("Apache ZooKeeper does not start with it unless it gets -Djute.maxbuffer=3000"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn where_the_first_flaw_is() {
    for (name, file, offset, flaws, what) in [
        ("middle-checksum-flipped", "log.7", 228, 1, "wrong checksum (the entry says it is 0x9)"),
        ("middle-payload-flipped", "log.7", 228, 1, "wrong checksum"),
        ("middle-length-flipped", "log.7", 228, 1, "wrong checksum"),
        ("middle-zeroed", "log.7", 228, 1, "zeros in place of an entry"),
        ("length-minus-one", "log.7", 552, 1, "impossible length -1"),
        ("length-negative", "log.7", 552, 1, "impossible length"),
        ("length-too-big", "log.7", 552, 1, "torn tail"),
        ("short-body", "log.7", 552, 1, "the checksum is right, but the content is not known"),
        ("unsupported-type", "log.7", 552, 1, "transaction type 99 is not known"),
        ("zxid-gap", "log.7", 228, 1, "zxid 0xa comes directly behind 0x8"),
        ("torn-tail-lost-page", "log.7", 476, 1, "torn tail: wrong checksum"),
        ("torn-tail-zeros-from-eor", "log.7", 476, 1, "end mark missing (the entry says it is 0xc)"),
        ("torn-tail-cut-in-eor", "log.7", 476, 1, "torn tail: the file ends inside the entry"),
        ("older-log-torn-tail", "log.1", 531, 1, "torn tail"),
        ("newest-log-bad-magic", "log.7", 0, 1, "does not begin with ZKLG"),
        ("newest-log-empty", "log.d", 0, 1, "shorter than the header"),
        ("newest-log-torn-header", "log.d", 0, 1, "shorter than the header"),
        ("newest-log-zeros", "log.d", 0, 1, "only zeros"),
    ] {
        let output = zebu(&damaged(name), &["log", "verify", "--json", file], "");
        let report = &lines(&output)[0];
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert_eq!(report["first_flaw"]["offset"], offset, "{name}: {report}");
        assert_eq!(report["flaws"], flaws, "{name}: {report}");
        assert!(report["first_flaw"]["what"].as_str().unwrap().contains(what), "{name}: {report}");
    }
    // Sound as files. Zeros from the first byte of an entry on are no torn entry: nothing of it was written.
    for (name, file) in [
        ("torn-tail-zeros-from-checksum", "log.7"),
        ("log-version-ignored", "log.7"),
        ("zxid-duplicate", "log.7"),
        ("newest-log-header-only", "log.d"),
        ("log-with-extension", "log.7.bak"),
        ("txn-digest-wrong", "log.7"),
    ] {
        assert_eq!(zebu(&damaged(name), &["log", "verify", file], "").status.code(), Some(0), "{name}");
    }
}

#[test]
fn a_renamed_log_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    fs::copy(small().join("log.7"), home.path().join("log.9")).unwrap();
    fs::copy(small().join("log.7"), home.path().join("copy")).unwrap();
    let output = zebu(home.path(), &["log", "verify", "log.9"], "");
    assert!(stdout(&output).contains("first entry has zxid 0x7, the name of the file says 0x9"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(zebu(home.path(), &["log", "verify", "copy"], "").status.code(), Some(0));
}

#[test]
fn dump_marks_what_is_broken() {
    let output = zebu(&damaged("middle-checksum-flipped"), &["log", "dump", "log.7"], "");
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[3], "228 BROKEN wrong checksum; 73 bytes, up to offset 301");
    assert_eq!(
        lines[4],
        "    reads as: 228 2026-11-15T20:56:14.643Z session=0x100006b16130000 cxid=0x3 zxid=0x9 setData \
         path=/b bytes=2 version=1 digest=2:0x27a7f3bd1"
    );
    assert!(lines[5].starts_with("301 "), "{text}");
    assert_eq!(lines[8], "552 end: 5 entries, then end of file");
    assert_eq!(output.status.code(), Some(1));
    let header = zebu(&damaged("newest-log-torn-header"), &["log", "dump", "log.d"], "");
    assert_eq!(stdout(&header), "log.d: BROKEN, no log: shorter than a log's header\n");
    assert_eq!(header.status.code(), Some(1));
}

#[test]
fn several_broken_entries_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(small().join("log.7")).unwrap();
    // A byte in the checksums of three entries that follow each other, then room for padding.
    for at in [116, 228, 301] {
        bytes[at + 5] ^= 1;
    }
    bytes.extend([0; 100]);
    fs::write(home.path().join("log.7"), &bytes).unwrap();
    let found = lines(&zebu(home.path(), &["log", "dump", "--json", "log.7"], ""));
    let broken: Vec<_> = found.iter().filter(|it| it["kind"] == "broken").collect();
    let facts: Vec<_> =
        broken.iter().map(|it| json!([it["offset"], it["until"], it["reads_as"]["zxid"]])).collect();
    assert_eq!(facts, [json!([116, 228, "0x8"]), json!([228, 301, "0x9"]), json!([301, 413, "0xa"])]);
    assert_eq!(found.last().unwrap()["padding"], 100);
    assert_eq!(found.last().unwrap()["entries"], 3);
    // The last two broken: no valid entry follows, and the padding is still padding.
    let mut bytes = fs::read(small().join("log.7")).unwrap();
    for at in [413, 476] {
        bytes[at + 5] ^= 1;
    }
    bytes.extend([0; 100]);
    fs::write(home.path().join("log.7"), &bytes).unwrap();
    let found = lines(&zebu(home.path(), &["log", "dump", "--json", "log.7"], ""));
    assert_eq!(found.iter().filter(|it| it["kind"] == "broken").count(), 2);
    assert_eq!(
        (&found.last().unwrap()["offset"], &found.last().unwrap()["padding"]),
        (&json!(552), &json!(100))
    );
}

#[test]
fn no_flipped_byte_stays_unseen() {
    let home = tempfile::tempdir().unwrap();
    let whole = fs::read(small().join("log.7")).unwrap();
    let names: Vec<_> = (0..whole.len()).map(|at| at.to_string()).collect();
    for (at, name) in names.iter().enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(home.path().join(name), &bytes).unwrap();
    }
    let mut words = vec!["log", "verify", "--json"];
    words.extend(names.iter().map(String::as_str));
    let output = zebu(home.path(), &words, "");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let sound: Vec<_> = lines(&output).iter().map(|report| report["sound"] == true).collect();
    // No program reads version and database id.
    let expected: Vec<_> = (0..whole.len()).map(|at| (4..16).contains(&at)).collect();
    assert_eq!(sound, expected);
}

#[test]
fn recover_drops_what_is_broken() {
    let home = copy_of("middle-payload-flipped");
    let before = fs::read(home.path().join("log.7")).unwrap();
    let output = zebu(home.path(), &["log", "recover", "--yes", "log.7"], "");
    assert_eq!(
        stdout(&output),
        "dropped: offset 228 to 301: wrong checksum, setData 0x9\n\
         5 entries written to recovered.log.7\n\
         the new log has a hole: 0xa comes directly behind 0x8\n"
    );
    assert_eq!(
        stderr(&output),
        "No server reads the new file under this name. To use it: stop the server, move log.7 out of the \
         directory, then give the new file its name.\n"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read(home.path().join("log.7")).unwrap(), before);
    let whole = fs::read(small().join("log.7")).unwrap();
    let written = fs::read(home.path().join("recovered.log.7")).unwrap();
    assert_eq!(written, [&whole[..228], &whole[301..]].concat());
    assert_eq!(parse_log("recovered.log.7"), None);
    // The second time the file is in the way.
    let again = zebu(home.path(), &["log", "recover", "--yes", "log.7"], "");
    assert_eq!(stderr(&again), "error: recovered.log.7 exists already; move it away first\n");
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(fs::read(home.path().join("recovered.log.7")).unwrap(), written);
}

#[test]
fn recover_asks_first() {
    let whole = fs::read(small().join("log.7")).unwrap();
    let question = "offset 228 to 301: wrong checksum\n\
         228 2026-11-15T20:56:14.643Z session=0x100006b16130000 cxid=0x3 zxid=0x9 setData path=/b bytes=2 \
         version=1 digest=2:0x27a7f3bd1\n\
         valid entries follow from 0xa on\n\
         Drop it? (yes/keep/stop/abort) ";
    let kept =
        "repaired: offset 228 to 301: wrong checksum, setData 0x9\n6 entries written to recovered.log.7\n";
    let stopped = "left out with all that follows: offset 228 to 301: wrong checksum, setData 0x9\n\
                   2 entries written to recovered.log.7\n";
    for (answer, status, text, content) in [
        ("keep\n", 0, kept, Some(whole.clone())),
        ("stop\n", 0, stopped, Some(whole[..228].to_vec())),
        ("abort\n", 2, "", None),
        ("", 2, "", None),
    ] {
        let home = copy_of("middle-checksum-flipped");
        let output = zebu(home.path(), &["log", "recover", "log.7"], answer);
        assert_eq!(stdout(&output), format!("{question}\n{text}"), "{answer:?}");
        assert_eq!(output.status.code(), Some(status), "{answer:?}: {}", stderr(&output));
        assert_eq!(fs::read(home.path().join("recovered.log.7")).ok(), content, "{answer:?}");
    }
    let home = copy_of("middle-checksum-flipped");
    let output = zebu(home.path(), &["log", "recover", "log.7"], "perhaps\nYES\n");
    assert!(stdout(&output).contains("please answer yes/keep/stop/abort\n"));
    assert_eq!(
        fs::read(home.path().join("recovered.log.7")).unwrap(),
        [&whole[..228], &whole[301..]].concat()
    );
}

#[test]
fn recover_of_torn_tails_intact_logs_and_other_files() {
    let whole = fs::read(small().join("log.7")).unwrap();
    for name in ["torn-tail-lost-page", "torn-tail-cut-in-length", "torn-tail-zeros-from-payload"] {
        let home = copy_of(name);
        let output = zebu(home.path(), &["log", "recover", "--yes", "log.7"], "");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        assert_eq!(fs::read(home.path().join("recovered.log.7")).unwrap(), whole[..476], "{name}");
    }
    let home = copy_of("newest-log-bad-magic");
    let output = zebu(home.path(), &["log", "recover", "--yes", "--json", "log.7"], "");
    let report = &lines(&output)[0];
    assert_eq!((&report["written"], &report["entries"]), (&json!("recovered.log.7"), &json!(6)));
    assert_eq!(report["broken"][0]["done"], "repaired");
    assert_eq!(fs::read(home.path().join("recovered.log.7")).unwrap(), whole);
    let home = copy_of("intact");
    let output = zebu(home.path(), &["log", "recover", "log.7"], "");
    assert_eq!(stdout(&output), "log.7: nothing is broken (6 entries); nothing was written\n");
    assert_eq!((output.status.code(), fs::read_dir(home.path()).unwrap().count()), (Some(0), 1));
    fs::write(home.path().join("other"), b"this is no transaction log at all").unwrap();
    let output = zebu(home.path(), &["log", "recover", "other"], "");
    assert_eq!(stderr(&output), "error: other has no intact entry; nothing was written\n");
    assert_eq!((output.status.code(), fs::read_dir(home.path()).unwrap().count()), (Some(2), 2));
}

#[test]
fn files_that_cannot_be_read() {
    let home = tempfile::tempdir().unwrap();
    for tool in ["dump", "verify", "recover"] {
        let none = zebu(home.path(), &["log", tool, "log.1"], "");
        assert_eq!(stderr(&none), "error: cannot read log.1: No such file or directory (os error 2)\n");
        assert_eq!(none.status.code(), Some(2));
        let directory = zebu(home.path(), &["log", tool, "."], "");
        assert_eq!(stderr(&directory), "error: cannot read .: is a directory\n");
        assert_eq!(directory.status.code(), Some(2));
    }
}

/// A log of 128 MiB in a process that may not have 64 MiB.
#[test]
fn logs_larger_than_memory() {
    let home = tempfile::tempdir().unwrap();
    let file = fs::File::create(home.path().join("log.7")).unwrap();
    (&file).write_all(&fs::read(small().join("log.7")).unwrap()).unwrap();
    file.set_len(128 << 20).unwrap();
    let limited = |tool: &str| {
        let script = format!("ulimit -v 65536; exec '{}' log {tool} log.7", env!("CARGO_BIN_EXE_zebu"));
        Command::new("sh").arg("-c").arg(script).current_dir(home.path()).output().unwrap()
    };
    let verify = limited("verify");
    assert_eq!(
        stdout(&verify),
        "log.7: sound: 6 entries, zxid 0x7 to 0xc; 134217728 bytes, 134217176 of them padding\n"
    );
    let dump = limited("dump");
    assert!(
        stdout(&dump).ends_with("552 end: 6 entries, then 134217176 bytes of padding\n"),
        "{}",
        stderr(&dump)
    );
}
