//! A snapshot's bytes where they are not what they should be: sections of older releases, cut or with lengths
//! that cannot be, and a stream that takes no more.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::io::{self, Write};

use support::target::Recorded;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::format::snapshot::{Encoder, SnapshotFlaw, decode};
use zebu_storage::{Sections, SnapshotSummary};

/// A writer that fails after this number of writes.
struct FullWriter(usize);

impl Write for FullWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encode<W: Write>(inner: W, sections: Sections) -> io::Result<W> {
    let acl = Acl::open();
    // More sessions, ACLs and nodes than are gathered before they are written.
    let sessions = (0..6000).map(|id: i32| (SessionId(id.into()), 4000));
    let acls = (0..2000).map(|id: i32| (id.into(), &acl[..]));
    let mut encoder = Encoder::begin(inner, sessions, acls)?;
    encoder.node("", Some(&[7; 70_000]), 1, &StatPersisted::default())?;
    encoder.finish(sections)
}

#[test]
fn every_write_that_fails_is_told() {
    let (zxid, digest) = (Zxid(9), 5);
    for (sections, seals) in [
        (Sections::None, 1),
        (Sections::Digest { zxid, digest }, 2),
        (Sections::DigestAndLastZxid { zxid, digest, last_zxid: zxid }, 3),
    ] {
        // Sessions, ACLs, the node; what is left of them with the first seal, then one write per seal.
        let writes = 3 + 1 + seals;
        for taken in 0..writes {
            let Err(error) = encode(FullWriter(taken), sections) else { panic!("write {taken} failed") };
            assert_eq!(error.to_string(), "full");
        }
        assert!(encode(FullWriter(writes), sections).is_ok());
    }
}

/// A small snapshot with these bytes behind the nodes and their seal.
fn read_with(behind: &[u8], seal: Seal) -> Result<SnapshotSummary, SnapshotFlaw> {
    let mut encoder = Encoder::begin(Vec::new(), [].into_iter(), [].into_iter()).unwrap();
    encoder.node("", None, 1, &StatPersisted::default()).unwrap();
    let mut bytes = encoder.finish(Sections::None).unwrap();
    bytes.extend(behind);
    if seal == Seal::Right {
        let checksum = simd_adler32::adler32(&&bytes[..]);
        bytes.extend(u64::from(checksum).to_be_bytes());
        bytes.extend(b"\0\0\0\x01/");
    }
    decode(&bytes[..], &mut Recorded::default())
}

#[derive(PartialEq, Eq)]
enum Seal {
    Right,
    None,
}

fn digest(version: i32, rest: &[u8]) -> Vec<u8> {
    [&9i64.to_be_bytes()[..], &version.to_be_bytes(), rest].concat()
}

fn text(length: i32, bytes: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Before version 2 a digest was text, which no release compares any more.
#[test]
fn digests_of_older_releases_are_passed_over() {
    for old in [text(5, b"12345"), text(0, b""), text(-1, b"")] {
        let summary = read_with(&digest(1, &old), Seal::Right).unwrap();
        let found = summary.digest.unwrap();
        assert_eq!((found.zxid, found.version, found.digest), (Zxid(9), 1, 0));
        assert_eq!((summary.last_zxid, summary.seals.len()), (None, 2));
    }
}

#[test]
fn a_digest_that_cannot_be_is_refused() {
    let cut = read_with(&digest(1, &text(1000, &[b'x'; 40])), Seal::Right).unwrap_err();
    assert!(matches!(cut, SnapshotFlaw::CutShort { .. }), "{cut}");
    for length in [-2, i32::MIN] {
        let wrong = read_with(&digest(1, &text(length, &[b'x'; 40])), Seal::Right).unwrap_err();
        assert!(matches!(wrong, SnapshotFlaw::Field { what: "digest", .. }), "{wrong}");
    }
    // A text that takes what was to be its seal.
    let unsealed = read_with(&digest(1, &text(20, &[b'x'; 20])), Seal::None).unwrap_err();
    assert!(matches!(unsealed, SnapshotFlaw::CutShort { .. }), "{unsealed}");
    for rest in 1..60 {
        let unknown = read_with(&vec![0xee; rest], Seal::None).unwrap_err();
        let named = matches!(
            unknown,
            SnapshotFlaw::Sections { .. }
                | SnapshotFlaw::Seal { .. }
                | SnapshotFlaw::CutShort { .. }
                | SnapshotFlaw::Field { .. }
        );
        assert!(named, "{rest}: {unknown}");
    }
}
