//! `zebu snapshot` from outside, on the samples that ZooKeeper wrote, on damaged ones and on made ones.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::write::GzEncoder;
use serde_json::{Value, json};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::Sections;
use zebu_storage::format::snapshot::Encoder;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/testdata")
}

fn zebu(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zebu")).current_dir(directory).args(words).output().unwrap()
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

fn version_2(sample: &str) -> PathBuf {
    samples().join(sample).join("data/version-2")
}

fn damaged(name: &str) -> PathBuf {
    samples().join("damaged").join(name).join("version-2")
}

/// Every sample's snapshots with what they hold.
fn expected_snapshots() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(samples()).unwrap() {
        let sample = entry.unwrap().file_name().into_string().unwrap();
        let Ok(text) = fs::read_to_string(samples().join(&sample).join("expected.json")) else { continue };
        let expected: Value = serde_json::from_str(&text).unwrap();
        let snapshots = expected["snapshots"].as_array().cloned().unwrap_or_default();
        all.extend(snapshots.into_iter().map(|snapshot| (sample.clone(), snapshot)));
    }
    assert!(all.len() > 30, "{}", all.len());
    all
}

/// A node of a made snapshot: path, data, ACL id, stat.
type Node<'n> = (&'n str, Option<&'n [u8]>, i64, StatPersisted);

fn made(directory: &Path, name: &str, acls: &[(i64, Vec<Acl>)], nodes: &[Node<'_>], sessions: &[(i64, i32)]) {
    let file = fs::File::create(directory.join(name)).unwrap();
    let sessions = sessions.iter().map(|&(id, timeout)| (SessionId(id), timeout));
    let acls = acls.iter().map(|(id, acl)| (*id, acl.as_slice()));
    let mut encoder = Encoder::begin(file, sessions, acls).unwrap();
    for (path, data, acl, stat) in nodes {
        encoder.node(path, *data, *acl, stat).unwrap();
    }
    encoder.finish(Sections::None).unwrap();
}

fn stat(zxid: i64) -> StatPersisted {
    StatPersisted { czxid: zxid, mzxid: zxid, pzxid: zxid, ..StatPersisted::default() }
}

#[test]
fn dump_as_text() {
    let output = zebu(&version_2("small"), &["snapshot", "dump", "--data", "snapshot.6"]);
    let never = "ctime=1970-01-01T00:00:00.000Z mtime=1970-01-01T00:00:00.000Z";
    let day = "2026-11-15T20:56:13";
    let fresh = "version=0 cversion=0 aversion=0";
    assert_eq!(
        stdout(&output),
        format!(
            "snapshot version=2 dbid=-1\n\
             session 0x100006b16130000 timeout_ms=30000\n\
             acl 1 world:anyone:r\n\
             acl 2 world:anyone:cdrwa\n\
             acl 3 world:anyone:cdrwa,digest:u:p:r\n\
             node / data=\"\" acl=-1 version=0 cversion=2 aversion=0 czxid=0x0 mzxid=0x0 pzxid=0x4 {never} \
             persistent\n\
             node /a data=\"two\" acl=2 version=1 cversion=1 aversion=0 czxid=0x2 mzxid=0x6 pzxid=0x3 \
             ctime={day}.842Z mtime={day}.870Z persistent\n\
             node /a/e data=\"\" acl=3 {fresh} czxid=0x3 mzxid=0x3 pzxid=0x3 ctime={day}.855Z \
             mtime={day}.855Z ephemeral:0x100006b16130000\n\
             node /zookeeper data=\"\" acl=-1 {fresh} czxid=0x0 mzxid=0x0 pzxid=0x0 {never} persistent\n\
             node /zookeeper/config data=\"\" acl=1 version=0 cversion=0 aversion=-1 czxid=0x0 mzxid=0x0 \
             pzxid=0x0 {never} persistent\n\
             node /zookeeper/quota data=\"\" acl=-1 {fresh} czxid=0x0 mzxid=0x0 pzxid=0x0 {never} \
             persistent\n\
             node /t data=\"t\" acl=2 {fresh} czxid=0x4 mzxid=0x4 pzxid=0x4 ctime={day}.861Z \
             mtime={day}.861Z ttl:10000000000ms\n\
             digest version=2 value=0xf0d08868 at zxid=0x6\n\
             last zxid none\n\
             end: 1 session, 3 ACLs, 7 nodes, 800 bytes unpacked; checksums right: 0xd84a6144 0xa07d65f3\n"
        )
    );
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
    let short = stdout(&zebu(&version_2("small"), &["snapshot", "dump", "snapshot.6"]));
    assert!(short.contains("\nnode /a bytes=3 acl=2 "), "{short}");
}

#[test]
fn dump_and_verify_say_what_zookeeper_wrote() {
    for (sample, expected) in expected_snapshots() {
        let name = expected["file"].as_str().unwrap();
        let place = format!("{sample} {name}");
        let output = zebu(&version_2(&sample), &["snapshot", "dump", "--json", name]);
        assert_eq!(output.status.code(), Some(0), "{place}: {}", stderr(&output));
        let found = lines(&output);
        let of_kind = |kind: &str| found.iter().filter(|it| it["kind"] == kind).collect::<Vec<_>>();
        let sessions: Value = of_kind("session")
            .iter()
            .map(|it| (it["id"].as_str().unwrap().to_owned(), it["timeout_ms"].clone()))
            .collect();
        assert_eq!(sessions, expected["sessions"], "{place}");
        assert_eq!(of_kind("acl").len(), expected["acls"].as_object().unwrap().len(), "{place}");
        assert_eq!(json!(of_kind("node").len()), expected["nodeCount"], "{place}");
        let end = found.last().unwrap();
        assert_eq!(end["checksums"], expected["seals"], "{place}");
        assert_eq!(end["unpacked_bytes"], expected["uncompressedSize"], "{place}");
        assert_eq!(end["last_zxid"], expected["lastProcessedZxid"], "{place}");
        let digest = &expected["digest"];
        assert_eq!(end["digest"]["zxid"], digest["zxid"], "{place}");
        assert_eq!(end["digest"]["value"], digest["digest"], "{place}");

        let output = zebu(&version_2(&sample), &["snapshot", "verify", "--json", name]);
        let report = &lines(&output)[0];
        assert_eq!(output.status.code(), Some(0), "{place}: {report}");
        assert_eq!(report["tree_digest"], expected["treeDigestOfFile"], "{place}");
        let right = digest["digest"] == expected["treeDigestOfFile"];
        assert_eq!(report["digest"]["result"] == "right", right, "{place}: {report}");
    }
}

#[test]
fn verify_as_text() {
    let output = zebu(&version_2("small"), &["snapshot", "verify", "snapshot.0", "snapshot.6"]);
    assert_eq!(
        stdout(&output),
        "snapshot.0: sound: 4 nodes (0 ephemeral), depth 2, 0 bytes of data, 0 sessions, 1 ACL; 457 bytes \
         unpacked\n\
         \x20 checksums: 2 right\n\
         \x20 digest: not compared: it is empty: no transaction had been applied since the tree was loaded\n\
         snapshot.6: sound: 7 nodes (1 ephemeral), depth 2, 4 bytes of data, 1 session, 3 ACLs; 800 bytes \
         unpacked\n\
         \x20 checksums: 2 right\n\
         \x20 digest: right, 0xf0d08868 at 0x6\n"
    );
    assert_eq!(output.status.code(), Some(0));
    let output = zebu(&damaged("snapshot-flipped"), &["snapshot", "verify", "snapshot.6"]);
    assert_eq!(
        stdout(&output),
        "snapshot.6: NOT SOUND\n\
         \x20 flaw: checksum 1 is 0xd84a6144, not 0x904b6199, at offset 754 of the unpacked \
         content\n\
         \x20 meaning: its content has changed since it was written\n\
         \x20 to do: nothing, if an older snapshot and all logs since then are there: a server falls back \
         to them; otherwise take a snapshot from a backup or from another member\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn damaged_snapshots() {
    for (name, file, status, what) in [
        ("snapshot-truncated", "snapshot.6", 1, "13 bytes follow the nodes"),
        ("snapshot-null-acl", "snapshot.6", 1, "in the ACL at offset"),
        ("snapshot-missing-parent", "snapshot.6", 1, "its parent is missing"),
        ("snapshot-reserved-ttl-bits", "snapshot.6", 1, "owner 0xff01000000000005"),
        (
            "snapshot-wrong-digest",
            "snapshot.6",
            1,
            "the tree has digest 0xf0d08868, the file says 0x1 at 0x6",
        ),
        ("snapshot-tmp-left", "snapshot.6.tmp", 1, "cut short"),
        ("snapshot-both-sections", "snapshot.6", 0, "checksums: 3 right"),
        ("snapshot-no-digest-section", "snapshot.6", 0, "not compared: the file has none"),
        ("snapshot-last-zxid-only", "snapshot.6", 0, "note: the last zxid follows without a digest"),
        ("snapshot-old-digest-zxid", "snapshot.6", 0, "it is of 0x5, before the tree"),
    ] {
        let output = zebu(&damaged(name), &["snapshot", "verify", file]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(status), "{name}: {text}");
        assert!(text.contains(what), "{name}: {text}");
    }
    let dump = zebu(&damaged("snapshot-flipped"), &["snapshot", "dump", "snapshot.6"]);
    assert!(stdout(&dump).ends_with(
        "BROKEN checksum 1 is 0xd84a6144, not 0x904b6199, at offset 754 of the unpacked content\n"
    ));
    assert_eq!(dump.status.code(), Some(1));
    let summary = zebu(&damaged("snapshot-flipped"), &["snapshot", "summary", "snapshot.6"]);
    assert_eq!((stdout(&summary).as_str(), summary.status.code()), ("", Some(2)));
    assert!(
        stderr(&summary).starts_with("error: snapshot.6 is damaged: checksum 1 is"),
        "{}",
        stderr(&summary)
    );
}

#[test]
fn no_flipped_byte_stays_unseen() {
    let home = tempfile::tempdir().unwrap();
    let whole = fs::read(version_2("small").join("snapshot.6")).unwrap();
    let names: Vec<_> = (0..whole.len()).map(|at| at.to_string()).collect();
    for (at, name) in names.iter().enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(home.path().join(name), &bytes).unwrap();
    }
    let mut words = vec!["snapshot", "verify", "--json"];
    words.extend(names.iter().map(String::as_str));
    let output = zebu(home.path(), &words);
    let reports = lines(&output);
    assert_eq!(reports.len(), whole.len(), "{}", stderr(&output));
    let unseen: Vec<_> = (0..whole.len()).filter(|&at| reports[at]["sound"] == true).collect();
    assert_eq!(unseen, Vec::<usize>::new());
}

#[test]
fn packed_by_name() {
    for (sample, name) in [("gz", "snapshot.36.gz"), ("snappy", "snapshot.36.snappy")] {
        let plain = zebu(&version_2(sample), &["snapshot", "summary", name]);
        assert!(
            stdout(&plain).lines().nth(1).unwrap().ends_with("36           5204  /"),
            "{}",
            stdout(&plain)
        );
        let home = tempfile::tempdir().unwrap();
        fs::copy(version_2(sample).join(name), home.path().join("snapshot.36")).unwrap();
        let output = zebu(home.path(), &["snapshot", "verify", "snapshot.36"]);
        assert!(stdout(&output).contains("the snapshot magic ZKSN is missing"));
        assert!(stdout(&output).contains("give a packed file a name that ends with .gz or .snappy"));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn nodes_that_are_no_tree() {
    let home = tempfile::tempdir().unwrap();
    let node = |path| (path, None, -1, stat(1));
    for (paths, what) in [
        (&["", "/a", "/b", "/a"][..], "node \"/a\" at offset"),
        (&["", "/a", "/a/x", "/a/x"], "it is there twice"),
        (&["/a"], "the first node is not the root"),
        (&["", ""], "the root is there twice"),
        (&["", "/a", "/b", "/a/x"], "its parent is missing, or is not directly before its subtree"),
        (&["", "a"], "this is not the path of a node"),
    ] {
        let nodes: Vec<_> = paths.iter().map(|path| node(*path)).collect();
        made(home.path(), "snapshot.1", &[], &nodes, &[]);
        let output = zebu(home.path(), &["snapshot", "verify", "snapshot.1"]);
        assert!(stdout(&output).contains(what), "{}", stdout(&output));
        assert_eq!(output.status.code(), Some(1));
    }
    let stray = StatPersisted { ephemeral_owner: 7, ..stat(1) };
    made(home.path(), "snapshot.1", &[], &[node(""), ("/e", None, 5, stray)], &[]);
    let output = zebu(home.path(), &["snapshot", "verify", "snapshot.1"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with(
        "  note: 1 node has an ACL that is not in the file; the log must bring it\n\
         \x20 note: 1 ephemeral node belongs to a session that is not in the file\n"
    ));
}

#[test]
fn summary_of_subtrees() {
    let home = version_2("standalone");
    let output = zebu(&home, &["snapshot", "summary", "snapshot.4a", "--depth", "1"]);
    assert_eq!(
        stdout(&output),
        "  children  descendants     data bytes  path\n\
         \x20       17           56           5244  /\n\
         \x20       34           34             59  /a\n\
         \x20        2            5             34  /zookeeper\n"
    );
    let rows = |words: &[&str]| {
        let words = [&["snapshot", "summary", "--json", "snapshot.4a"], words].concat();
        lines(&zebu(&home, &words))
            .iter()
            .map(|it| {
                format!(
                    "{} {} {} {}",
                    it["path"].as_str().unwrap(),
                    it["children"],
                    it["descendants"],
                    it["data_bytes"]
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&["/zookeeper", "--depth", "1"]), ["/zookeeper 2 5 34", "/zookeeper/quota 1 3 34"]);
    assert_eq!(
        rows(&["/zookeeper", "--depth", "0"]),
        ["/zookeeper 2 5 34", "/zookeeper/quota 1 3 34", "/zookeeper/quota/a 2 2 34"]
    );
    assert_eq!(rows(&["/zookeeper/config"]), ["/zookeeper/config 0 0 0"]);
    let none = zebu(&home, &["snapshot", "summary", "snapshot.4a", "/zoo"]);
    assert_eq!(stderr(&none), "error: snapshot.4a has no node /zoo\n");
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn diff_as_text() {
    let home = version_2("small");
    let output = zebu(&home, &["snapshot", "diff", "snapshot.0", "snapshot.6"]);
    assert_eq!(
        stdout(&output),
        "+ session 0x100006b16130000\n\
         + /a data 3 bytes\n\
         + /a/e data 0 bytes\n\
         + /t data 1 byte\n\
         ~ / cversion 0 -> 2, pzxid 0x0 -> 0x4\n\
         nodes: 3 added, 0 removed, 1 changed, 3 the same; sessions: 1 different\n"
    );
    assert_eq!(output.status.code(), Some(1));
    let back = zebu(&home, &["snapshot", "diff", "snapshot.6", "snapshot.0"]);
    assert_eq!(
        stdout(&back),
        "- session 0x100006b16130000\n\
         ~ / cversion 2 -> 0, pzxid 0x4 -> 0x0\n\
         - /a data 3 bytes\n\
         - /a/e data 0 bytes\n\
         - /t data 1 byte\n\
         nodes: 0 added, 3 removed, 1 changed, 3 the same; sessions: 1 different\n"
    );
    let same = zebu(&home, &["snapshot", "diff", "snapshot.6", "snapshot.6"]);
    assert_eq!(stdout(&same), "nodes: 0 added, 0 removed, 0 changed, 7 the same; sessions: 0 different\n");
    assert_eq!(same.status.code(), Some(0));
}

#[test]
fn diff_compares_contents_not_numbers() {
    let home = tempfile::tempdir().unwrap();
    let (open, closed) = (Acl::open(), Acl::read_only());
    let a = [(1, open.clone()), (2, closed.clone())];
    let b = [(8, closed), (9, open)];
    let root = ("", None, -1, stat(1));
    // Other order of siblings, other ACL numbers, the open ACL by its own number: the same tree.
    let nodes_a =
        [root, ("/x", Some(&b"1"[..]), 1, stat(2)), ("/y", None, 2, stat(3)), ("/z", None, 1, stat(4))];
    let nodes_b =
        [root, ("/z", None, -1, stat(4)), ("/y", None, 8, stat(3)), ("/x", Some(&b"1"[..]), 9, stat(2))];
    made(home.path(), "a", &a, &nodes_a, &[(5, 100)]);
    made(home.path(), "b", &b, &nodes_b, &[(5, 100)]);
    assert_eq!(zebu(home.path(), &["snapshot", "diff", "a", "b"]).status.code(), Some(0));
    // Now each kind of change.
    let moved = StatPersisted { version: 3, mtime: 1_700_000_000_000, ephemeral_owner: 5, ..stat(3) };
    let nodes_b = [
        root,
        ("/x", Some(&b"2"[..]), 9, stat(2)),
        ("/y", Some(&b""[..]), 8, moved),
        ("/z", None, 8, stat(4)),
    ];
    made(home.path(), "b", &b, &nodes_b, &[(5, 200)]);
    let output = zebu(home.path(), &["snapshot", "diff", "a", "b"]);
    assert_eq!(
        stdout(&output),
        "~ session 0x5\n\
         ~ /x data (1 byte, other content)\n\
         ~ /y data null -> 0 bytes, version 0 -> 3, mtime 1970-01-01T00:00:00.000Z -> \
         2023-11-14T22:13:20.000Z, owner 0x0 -> 0x5\n\
         ~ /z acl\n\
         nodes: 0 added, 0 removed, 3 changed, 1 the same; sessions: 1 different\n"
    );
    let found = lines(&zebu(home.path(), &["snapshot", "diff", "--json", "a", "b"]));
    assert_eq!(
        found[2],
        json!({
            "kind": "node",
            "change": "changed",
            "path": "/y",
            "data_length": [null, 0],
            "data_changed": true,
            "acl_changed": false,
            "stat": { "version": [0, 3], "mtime": [0, 1_700_000_000_000_i64], "owner": ["0x0", "0x5"] },
        })
    );
    assert_eq!(
        found[4],
        json!({ "kind": "end", "added": 0, "removed": 0, "changed": 3, "same": 1, "sessions": 1 })
    );
}

#[test]
fn diff_with_thresholds() {
    let home = version_2("standalone");
    let diff = |words: &[&str]| {
        let output = zebu(&home, &[&["snapshot", "diff", "snapshot.28", "snapshot.4a"], words].concat());
        assert_eq!(output.status.code(), Some(1));
        stdout(&output)
    };
    let end = "nodes: 31 added, 0 removed, 3 changed, 23 the same; sessions: 0 different\n";
    let root = "subtree / descendants 25 -> 56, data 5191 -> 5244 bytes\n";
    let a = "subtree /a descendants 4 -> 34, data 9 -> 59 bytes\n";
    assert_eq!(diff(&["--nodes", "31"]), format!("{root}{end}"));
    assert_eq!(diff(&["--nodes", "30"]), format!("{root}{a}{end}"));
    assert_eq!(diff(&["--bytes", "51"]), format!("{root}{end}"));
    assert_eq!(diff(&["--bytes", "50", "--nodes", "1000"]), format!("{root}{a}{end}"));
    assert_eq!(diff(&["--bytes", "1000"]), end);
    assert!(diff(&["--bytes", "2"]).starts_with("+ /a/n-"));
}

#[test]
fn files_that_cannot_be_read() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("d")).unwrap();
    for words in [&["dump", "none"][..], &["verify", "none"], &["summary", "none"], &["diff", "none", "none"]]
    {
        let output = zebu(home.path(), &[&["snapshot"], words].concat());
        assert_eq!(stderr(&output), "error: cannot open none: No such file or directory (os error 2)\n");
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(2)));
    }
    let directory = zebu(home.path(), &["snapshot", "verify", "d"]);
    assert_eq!(stderr(&directory), "error: cannot read d: is a directory\n");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let program = env!("CARGO_BIN_EXE_zebu");
    let script = format!("('{program}' snapshot dump snapshot.b6; echo $? >&2) | head -n 1");
    let output = Command::new("bash").arg("-c").arg(script).current_dir(version_2("fuzzy")).output().unwrap();
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("snapshot version=2 dbid=-1\n", "0\n"));
}

/// A snapshot of 96 MiB, packed into little, in processes that may not have 64 MiB.
#[test]
fn snapshots_larger_than_memory() {
    let home = tempfile::tempdir().unwrap();
    let file = fs::File::create(home.path().join("snapshot.1.gz")).unwrap();
    let packer = GzEncoder::new(file, flate2::Compression::fast());
    let open = Acl::open();
    let mut encoder = Encoder::begin(packer, std::iter::empty(), [(1, open.as_slice())].into_iter()).unwrap();
    encoder.node("", None, -1, &stat(1)).unwrap();
    let data = vec![b'x'; 1 << 20];
    for number in 0..96 {
        encoder.node(&format!("/n{number}"), Some(&data), 1, &stat(1)).unwrap();
    }
    let sections = Sections::Digest { zxid: Zxid::ZERO, digest: 0 };
    encoder.finish(sections).unwrap().finish().unwrap().flush().unwrap();
    for (words, expected) in [
        ("verify snapshot.1.gz", "97 nodes (0 ephemeral), depth 1, 100663296 bytes of data"),
        ("summary snapshot.1.gz", "        96           96      100663296  /\n"),
        ("dump snapshot.1.gz", "97 nodes"),
        ("diff --bytes 1 snapshot.1.gz snapshot.1.gz", "0 changed, 97 the same"),
    ] {
        let script = format!("ulimit -v 65536; exec '{}' snapshot {words}", env!("CARGO_BIN_EXE_zebu"));
        let output = Command::new("sh").arg("-c").arg(script).current_dir(home.path()).output().unwrap();
        assert!(stdout(&output).contains(expected), "{words}: {} {}", stdout(&output), stderr(&output));
    }
}
