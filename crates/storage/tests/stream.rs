//! The state behind a SNAP packet: recorded streams of Apache, in pieces of every size, cut and with changed
//! bytes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs;

use serde_json::Value;
use support::target::Recorded;
use zebu_proto::{Acl, SessionId, StatPersisted};
use zebu_storage::format::snapshot::{SnapshotVisitor, append_node, begin_stream, end_stream};
use zebu_storage::{ContentLimits, StreamDecoder, StreamFlaw, StreamProgress};

struct Recording {
    name: String,
    stream: Vec<u8>,
    /// The packets after the snapshot on the connection.
    behind: Vec<u8>,
    decoded: Value,
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn recordings() -> Vec<Recording> {
    let mut recordings = Vec::new();
    for entry in fs::read_dir(support::testdata().join("streams")).unwrap() {
        let path = entry.unwrap().path();
        let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        recordings.push(Recording {
            name: path.display().to_string(),
            stream: unhex(&value["stream"]),
            behind: unhex(&value["behind"]),
            decoded: value["decoded"].clone(),
        });
    }
    assert_eq!(recordings.len(), 7);
    recordings
}

/// Feeds pieces of `size` bytes; says how many bytes were left over, `None` if the stream has not ended.
fn feed(bytes: &[u8], size: usize, into: &mut impl SnapshotVisitor) -> Result<Option<usize>, StreamFlaw> {
    let mut decoder = StreamDecoder::new(ContentLimits::default());
    let mut fed = 0;
    for chunk in bytes.chunks(size) {
        fed += chunk.len();
        assert!(decoder.waiting() <= bytes.len());
        if let StreamProgress::End { left } = decoder.feed(chunk, into)? {
            assert_eq!(decoder.summary().size as usize, fed - left);
            assert_eq!(decoder.feed(b"abc", into)?, StreamProgress::End { left: 3 });
            return Ok(Some(bytes.len() - fed + left));
        }
    }
    Ok(None)
}

fn hex(value: &Value) -> i64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap() as i64
}

#[test]
fn recorded_streams_are_read_in_pieces_of_every_size() {
    for recording in recordings() {
        let bytes = [&recording.stream[..], &recording.behind].concat();
        let mut whole = Recorded::default();
        assert_eq!(feed(&bytes, bytes.len(), &mut whole).unwrap(), Some(recording.behind.len()));
        for size in 1..bytes.len() {
            let mut pieces = Recorded::default();
            assert_eq!(feed(&bytes, size, &mut pieces).unwrap(), Some(recording.behind.len()), "{size}");
            assert_eq!(pieces, whole, "{}, {size}", recording.name);
        }
        compare(&whole, &recording.decoded);
        // The same bytes come out again.
        let mut again = Vec::new();
        let sessions = whole.sessions.iter().copied();
        begin_stream(sessions, whole.acls.iter().map(|(id, acl)| (*id, &acl[..])), &mut again);
        for node in &whole.nodes {
            append_node(&node.path, node.data.as_deref(), node.acl, &node.stat, &mut again);
        }
        end_stream(&mut again);
        assert_eq!(again, recording.stream, "{}", recording.name);
    }
}

fn compare(found: &Recorded, decoded: &Value) {
    let sessions = decoded["sessions"].as_object().unwrap();
    assert_eq!(found.sessions.len(), sessions.len());
    for (id, timeout_ms) in sessions {
        let id = SessionId(hex(&Value::String(id.clone())));
        assert!(found.sessions.contains(&(id, timeout_ms.as_i64().unwrap() as i32)));
    }
    let acls = decoded["acls"].as_object().unwrap();
    assert_eq!(found.acls.len(), acls.len());
    for (id, acl) in &found.acls {
        let expected = acls[&id.to_string()].as_array().unwrap();
        assert_eq!(acl.len(), expected.len());
        assert_eq!(i64::from(acl[0].perms), expected[0][0].as_i64().unwrap());
    }
    let nodes = decoded["nodes"].as_object().unwrap();
    assert_eq!(found.nodes.len(), nodes.len());
    for node in &found.nodes {
        let expected = &nodes[&node.path];
        assert_eq!(node.acl, expected["acl"].as_i64().unwrap());
        assert_eq!(node.stat.czxid, hex(&expected["czxid"]));
        assert_eq!(node.stat.mzxid, hex(&expected["mzxid"]));
        assert_eq!(node.stat.pzxid, hex(&expected["pzxid"]));
        assert_eq!(node.stat.ephemeral_owner, hex(&expected["owner"]));
        assert_eq!(i64::from(node.stat.cversion), expected["cversion"].as_i64().unwrap());
    }
}

#[test]
fn a_stream_that_is_cut_has_not_ended() {
    for recording in recordings() {
        for length in 0..recording.stream.len() {
            for size in [1, 7, length.max(1)] {
                let fed = feed(&recording.stream[..length], size, &mut Recorded::default());
                assert_eq!(fed.unwrap(), None, "{}, {length}", recording.name);
            }
        }
    }
}

#[test]
fn changed_bytes_never_panic_and_the_signature_must_be_right() {
    for recording in recordings() {
        let stream = &recording.stream;
        for at in 0..stream.len() {
            for change in [1, 0x80] {
                let mut changed = stream.clone();
                changed[at] ^= change;
                changed.extend_from_slice(&recording.behind);
                let found =
                    [3, changed.len()].map(|size| match feed(&changed, size, &mut Recorded::default()) {
                        Ok(left) => Ok(left),
                        Err(error) => Err(error.to_string()),
                    });
                assert_eq!(found[0], found[1], "the size of the pieces decides nothing");
                if at >= stream.len() - 14 {
                    assert_eq!(found[0], Err(StreamFlaw::Signature.to_string()), "{at}");
                }
            }
        }
    }
}

#[test]
fn absurd_lengths_are_refused_before_their_bytes_come() {
    let limits = ContentLimits { field_max: 1000, acl_entries_max: 10 };
    let int = |value: i32| value.to_be_bytes().to_vec();
    let no_sessions_no_acls = [int(0), int(0)].concat();
    let one_acl = [int(0), int(1), vec![0; 8]].concat();
    let refused: [(&str, Vec<u8>); 12] = [
        ("sessions", int(-1)),
        ("sessions", int(i32::MIN)),
        ("ACL map", [int(0), int(-1)].concat()),
        ("ACL", [one_acl.clone(), int(-1)].concat()),
        ("ACL", [one_acl.clone(), int(11)].concat()),
        ("ACL", [one_acl.clone(), int(1), int(31), int(1001)].concat()),
        ("ACL", [one_acl, int(1), int(31), int(-2)].concat()),
        ("path", [no_sessions_no_acls.clone(), int(-1)].concat()),
        ("path", [no_sessions_no_acls.clone(), int(1001)].concat()),
        ("path", [no_sessions_no_acls.clone(), int(i32::MAX)].concat()),
        ("data", [no_sessions_no_acls.clone(), int(0), int(1001)].concat()),
        ("data", [no_sessions_no_acls.clone(), int(0), int(-2)].concat()),
    ];
    for (what, bytes) in refused {
        let mut decoder = StreamDecoder::new(limits);
        let mut target = Recorded::default();
        let error = bytes.iter().find_map(|byte| decoder.feed(&[*byte], &mut target).err());
        let error = error.unwrap_or_else(|| panic!("{what}: {bytes:?}")).to_string();
        assert!(error.contains(what), "{error}");
    }
    // At the limit all is well, and a count that is never met reserves nothing.
    let mut stream = int(i32::MAX);
    let mut decoder = StreamDecoder::new(limits);
    assert_eq!(decoder.feed(&stream, &mut Recorded::default()).unwrap(), StreamProgress::More);
    stream = Vec::new();
    begin_stream(
        std::iter::empty(),
        [(5, &[Acl::open()[0].clone(), Acl::open()[0].clone()][..])].into_iter(),
        &mut stream,
    );
    append_node("", Some(&[7; 1000]), -1, &StatPersisted::default(), &mut stream);
    append_node("/n", None, 5, &StatPersisted::default(), &mut stream);
    end_stream(&mut stream);
    let mut decoder = StreamDecoder::new(limits);
    let mut target = Recorded::default();
    assert_eq!(decoder.feed(&stream, &mut target).unwrap(), StreamProgress::End { left: 0 });
    let summary = decoder.summary();
    assert_eq!((summary.sessions, summary.acls, summary.nodes), (0, 1, 2));
    assert_eq!(target.nodes[1].data, None);
}

#[test]
fn only_one_unfinished_item_is_kept() {
    let mut stream = Vec::new();
    begin_stream((0..1000i32).map(|id| (SessionId(i64::from(id)), 4000)), std::iter::empty(), &mut stream);
    append_node("", None, -1, &StatPersisted::default(), &mut stream);
    for index in 0..200 {
        append_node(&format!("/{index}"), Some(&[1; 500]), -1, &StatPersisted::default(), &mut stream);
    }
    end_stream(&mut stream);
    let mut decoder = StreamDecoder::new(ContentLimits::default());
    let mut target = Recorded::default();
    for chunk in stream.chunks(97) {
        decoder.feed(chunk, &mut target).unwrap();
        assert!(decoder.waiting() < 700);
    }
    assert_eq!(target.nodes.len(), 201);
}
