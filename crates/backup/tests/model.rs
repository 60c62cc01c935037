//! The archive against a model: whatever fails and wherever the writer crashes, every point that the manifest
//! claims gives the tree of the model.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod archive_model;

use archive_model::{
    Ensemble, Pause, PausedTarget, SEED, Writer, check_all_points, closed, ensemble, finished, work,
};
use zebu_backup::core::archive::{Archive, ArchiveError, Continuity, all_segments};
use zebu_backup::core::manifest::{Manifest, PAGE_SEGMENTS};
use zebu_backup::core::memory::{FailureEffect, MemoryTarget};
use zebu_backup::core::plan::{Plan, Point, plan};
use zebu_backup::core::replay::{ReplayError, Unobserved, rebuild};
use zebu_backup::core::retention;
use zebu_backup::core::segment::{SegmentLimits, Segmenter};
use zebu_backup::core::target::{Bytes, Content, Target, TargetError};
use zebu_backup::core::verify::{VerifyError, verify};
use zebu_proto::Zxid;

#[test]
fn a_crash_at_every_operation_of_the_target() {
    let ensemble = ensemble(30);
    let whole = MemoryTarget::new();
    work(&whole, &ensemble, "whole").unwrap();
    let operations = whole.operations();
    assert!(operations > 10);
    for effect in [FailureEffect::Nothing, FailureEffect::AnswerLost] {
        for crash in 0..operations {
            let target = MemoryTarget::new();
            target.fail_after(crash, u64::MAX, effect);
            work(&target, &ensemble, "first").unwrap_err();
            check_all_points(&target, &ensemble);
            // Another process continues, and reaches the end.
            target.repair();
            work(&target, &ensemble, "second").unwrap();
            assert_eq!(check_all_points(&target, &ensemble), Some(Zxid::new(1, 30)), "{effect:?} {crash}");
            let manifest = Manifest::decode(&target.manifest().unwrap().unwrap().bytes).unwrap();
            let named = all_segments(&target, &manifest).unwrap().len() + manifest.bases.len();
            assert_eq!(target.list().unwrap().len(), named, "objects of the crashed process stay");
        }
    }
}

#[test]
fn one_failure_at_every_operation_is_repeated_by_the_same_process() {
    let ensemble = ensemble(20);
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    for effect in [FailureEffect::Nothing, FailureEffect::AnswerLost] {
        for failing in 0..8 {
            let target = MemoryTarget::new();
            let mut writer = Writer::open(&target, "run").unwrap();
            target.fail_after(failing, 1, effect);
            let mut repeated = 0;
            while let Err(error) = writer.base(&begin.tree, Continuity::NewChain) {
                assert!(error.is_temporary(), "{error}");
                repeated += 1;
            }
            while let Err(error) = writer.follow(&ensemble, 7) {
                assert!(error.is_temporary(), "{error}");
                repeated += 1;
            }
            assert_eq!(repeated, 1);
            assert_eq!(check_all_points(&target, &ensemble), Some(Zxid::new(1, 20)));
            assert_eq!(writer.archive.manifest().bases.len(), 1);
        }
    }
}

#[test]
fn the_second_of_two_writers_stops() {
    let ensemble = ensemble(20);
    let target = MemoryTarget::new();
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    let mut first = Writer::open(&target, "first").unwrap();
    first.base(&begin.tree, Continuity::NewChain).unwrap();
    let mut second = Writer::open(&target, "second").unwrap();
    first.follow(&ensemble, 5).unwrap();
    let error = second.follow(&ensemble, 3).unwrap_err();
    assert!(matches!(&error, ArchiveError::Superseded { run } if run == "first"), "{error}");
    assert!(!error.is_temporary());
    assert_eq!(check_all_points(&target, &ensemble), Some(Zxid::new(1, 20)));
    first.base(&ensemble.tree, Continuity::Continues).unwrap();
}

/// A writer that is paused anywhere in its sweep removes nothing of the process that took over.
#[test]
fn a_paused_writer_removes_no_object_of_its_successor() {
    let mut taken_over = 0;
    for pause_before in 0..40 {
        let target = MemoryTarget::new();
        let mut begin = Ensemble::new();
        begin.write(Zxid::new(1, 1));
        Writer::open(&target, "first").unwrap().base(&begin.tree, Continuity::NewChain).unwrap();
        target.put("log/0-0.crashed.log", &Bytes::new(b"left by a crash")).unwrap();
        let successor = target.clone();
        let meanwhile = move || {
            let mut writer = Writer::open(&successor, "second").unwrap();
            writer.follow(&ensemble(20), 5).unwrap();
        };
        let paused = PausedTarget::new(&target, Pause::BeforeOperation(pause_before), meanwhile);
        let mut archive = Archive::open(paused, "first").unwrap();
        let swept = retention::sweep(&mut archive);
        if archive.target().has_paused() {
            taken_over += 1;
            if let Err(error) = &swept {
                assert!(error.to_string().contains("another backup process"), "{error}");
            }
            assert_eq!(check_all_points(&target, &ensemble(20)), Some(Zxid::new(1, 20)), "{pause_before}");
        } else {
            swept.unwrap();
        }
    }
    assert!(taken_over >= 4, "paused {taken_over} times");
}

#[test]
fn holes_are_refused() {
    let ensemble = ensemble(20);
    let target = MemoryTarget::new();
    let mut writer = Writer::open(&target, "run").unwrap();
    let mut segmenter = Segmenter::new(SegmentLimits::default(), Zxid::new(1, 7), 0);
    let late = closed(&mut segmenter, &ensemble.log[7..9].iter().collect::<Vec<_>>());
    let refused = writer.archive.add_segments(std::slice::from_ref(&late), 1).unwrap_err();
    assert!(matches!(refused, ArchiveError::NoBase));
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    writer.base(&begin.tree, Continuity::NewChain).unwrap();
    let refused = writer.archive.add_segments(&[late], 1).unwrap_err();
    assert!(matches!(refused, ArchiveError::Hole { .. }));
    let refused = writer.base(&ensemble.tree, Continuity::Continues).unwrap_err();
    assert!(matches!(refused, ArchiveError::Hole { .. }));
    // A new chain may begin anywhere.
    writer.base(&ensemble.tree, Continuity::NewChain).unwrap();
    assert_eq!(writer.archive.manifest().bases.iter().map(|base| base.chain).collect::<Vec<_>>(), [1, 2]);
}

/// The ensemble was set back, and has other transactions under the same zxids. One process sees both.
#[test]
fn the_same_zxids_in_a_later_chain_replace_no_object() {
    let first = ensemble(20);
    let mut other = Ensemble::new();
    (1..=20).for_each(|counter| other.write_as(Zxid::new(1, counter), "other"));
    let target = MemoryTarget::new();
    let mut writer = Writer::open(&target, "run").unwrap();
    for history in [&first, &other] {
        let mut begin = Ensemble::new();
        begin.replay(&history.log[..5]);
        writer.base(&begin.tree, Continuity::NewChain).unwrap();
        writer.follow(history, 5).unwrap();
    }
    let manifest = writer.archive.manifest().clone();
    verify(&target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap();
    let segments = all_segments(&target, &manifest).unwrap();
    for (chain, history) in [(1, &first), (2, &other)] {
        let end = Zxid::new(1, 20);
        let base = manifest.bases.iter().find(|base| base.chain == chain).unwrap().clone();
        let segments = segments.iter().filter(|segment| segment.chain == chain).cloned().collect();
        let plan = Plan { base, segments, point: Point::Zxid(end) };
        let state = rebuild(&target, &plan, SEED, &mut Unobserved).unwrap();
        assert_eq!(state.tree.digest(), history.digests[&end]);
    }
}

/// A failure in the middle of a batch costs one segment, and not the whole batch.
#[test]
fn a_repeated_batch_stores_no_segment_again() {
    let ensemble = ensemble(20);
    let target = MemoryTarget::new();
    let mut writer = Writer::open(&target, "run").unwrap();
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    writer.base(&begin.tree, Continuity::NewChain).unwrap();
    let end = writer.archive.end().unwrap();
    let mut segmenter = Segmenter::new(SegmentLimits::default(), end.zxid, end.time_ms);
    let parts: Vec<_> = ensemble.log[1..].iter().collect();
    let batch: Vec<_> = parts.chunks(2).map(|part| closed(&mut segmenter, part)).collect();
    let before = target.operations();
    target.fail_after(batch.len() as u64 - 1, 1, FailureEffect::Nothing);
    assert!(writer.archive.add_segments(&batch, 1).unwrap_err().is_temporary());
    writer.archive.add_segments(&batch, 1).unwrap();
    assert_eq!(target.operations() - before, batch.len() as u64 + 2, "one failure and one manifest");
    assert_eq!(check_all_points(&target, &ensemble), Some(Zxid::new(1, 20)));
}

#[test]
fn old_segments_move_into_pages() {
    let count = PAGE_SEGMENTS as u32 * 2 + 40;
    let ensemble = ensemble(count);
    let target = MemoryTarget::new();
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    let mut writer = Writer::open(&target, "run").unwrap();
    writer.base(&begin.tree, Continuity::NewChain).unwrap();
    writer.follow(&ensemble, 1).unwrap();
    let manifest = writer.archive.manifest();
    assert_eq!((manifest.pages.len(), manifest.segments.len()), (2, 39));
    let segments = all_segments(&target, manifest).unwrap();
    assert_eq!(segments.len(), count as usize - 1);
    for counter in [1, 2, 600, count] {
        let zxid = Zxid::new(1, counter);
        let plan = plan(manifest, &segments, Point::Zxid(zxid)).unwrap();
        let state = rebuild(&target, &plan, SEED, &mut Unobserved).unwrap();
        assert_eq!(state.tree.digest(), ensemble.digests[&zxid]);
    }
    // Retention drops whole pages.
    writer.base(&ensemble.tree, Continuity::Continues).unwrap();
    assert_eq!(retention::forget(&mut writer.archive, i64::MAX).unwrap(), 1);
    assert_eq!(retention::sweep(&mut writer.archive).unwrap(), u64::from(count) - 1 + 2 + 1);
    assert_eq!(target.list().unwrap().len(), 1);
    check_all_points(&target, &ensemble);
}

#[test]
fn retention_keeps_every_point_since_the_limit() {
    let ensemble = ensemble(40);
    let target = MemoryTarget::new();
    let mut writer = Writer::open(&target, "run").unwrap();
    let mut part = Ensemble::new();
    for counter in 1..=40 {
        part.write(Zxid::new(1, counter));
        if counter == 1 {
            writer.base(&part.tree, Continuity::NewChain).unwrap();
        } else if counter % 10 == 0 {
            writer.follow(&part, 3).unwrap();
            writer.base(&part.tree, Continuity::Continues).unwrap();
        }
    }
    let since_ms = Zxid::new(1, 25).0 * 10;
    assert_eq!(retention::forget(&mut writer.archive, since_ms).unwrap(), 2);
    assert_eq!(writer.archive.manifest().bases[0].zxid, Zxid::new(1, 20));
    assert_eq!(retention::forget(&mut writer.archive, since_ms).unwrap(), 0);
    retention::sweep(&mut writer.archive).unwrap();
    assert_eq!(check_all_points(&target, &ensemble), Some(Zxid::new(1, 40)));
}

#[test]
fn damage_of_every_object_is_found() {
    let (target, manifest) = finished();
    for name in target.list().unwrap() {
        let (target, manifest) = (finished().0, &manifest);
        target.damage(&name, |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        });
        let error = verify(&target, manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
        assert!(error.to_string().contains(&name), "{error}");
        target.damage(&name, |bytes| bytes.truncate(bytes.len() - 1));
        verify(&target, manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
        target.delete(&name).unwrap();
        let error = verify(&target, manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
        assert!(error.to_string().contains("is missing in the backup"), "{error}");
    }
}

#[test]
fn a_wrong_history_with_right_checksums_is_found() {
    // A segment that lacks its last transaction: the checksum is that of the shorter file.
    let (target, mut manifest) = finished();
    let segment = manifest.segments[1].clone();
    let whole = target.get(&segment.name, u64::MAX).unwrap();
    let mut scanner = zebu_storage::format::scan::LogScanner::open(whole.as_slice()).unwrap().0;
    let mut ends = vec![];
    while let zebu_storage::format::scan::ScanItem::Entry(entry) = scanner.next_entry().unwrap() {
        ends.push(entry.end as usize);
    }
    let short = &whole[..ends[ends.len() - 2]];
    target.damage(&segment.name, |bytes| *bytes = short.to_vec());
    manifest.segments[1].bytes = short.len() as u64;
    manifest.segments[1].sha256 = zebu_backup::core::sha256(short);
    let error = verify(&target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
    assert!(matches!(error, VerifyError::Replay(ReplayError::Log { .. })), "{error}");

    // A segment that the manifest does not name.
    let (target, mut manifest) = finished();
    manifest.segments.remove(1);
    let error = verify(&target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
    assert!(matches!(error, VerifyError::Replay(ReplayError::Hole { .. })), "{error}");

    // The log does not reach the next base.
    let (target, mut manifest) = finished();
    manifest.segments.pop();
    let error = verify(&target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
    assert!(matches!(error, VerifyError::Short { .. }), "{error}");

    // A base with another digest.
    let (target, mut manifest) = finished();
    manifest.bases[1].digest ^= 1;
    let error = verify(&target, &manifest, SEED, &mut Unobserved, |_| ()).unwrap_err();
    assert!(matches!(error, VerifyError::Replay(ReplayError::Digest { .. })), "{error}");
}

/// Content that ends too early.
struct Short;

impl Content for Short {
    fn length(&self) -> u64 {
        10
    }

    fn sha256(&self) -> &str {
        ""
    }

    fn open(&self) -> std::io::Result<Box<dyn std::io::Read + Send + '_>> {
        Ok(Box::new(&b"abc"[..]))
    }
}

#[test]
fn a_directory_behaves_as_a_target() {
    use zebu_backup::directory::{DirectoryTarget, DirectoryUse};
    use zebu_storage::FileDisk;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("backup");
    let missing = DirectoryTarget::open(FileDisk, &path, DirectoryUse::Read, "").unwrap_err();
    assert!(missing.to_string().contains("cannot open"), "{missing}");
    let target = DirectoryTarget::open(FileDisk, &path, DirectoryUse::Write, "test").unwrap();
    let held = DirectoryTarget::open(FileDisk, &path, DirectoryUse::Write, "other").unwrap_err();
    assert!(matches!(held, TargetError::Held(_)), "{held}");
    let content = zebu_backup::core::target::Bytes::new(b"hello");
    for name in ["log/1-2.a.log", "index/1-2.a.json", "base/1.a/snapshot.1"] {
        target.put(name, &content).unwrap();
        assert_eq!(target.get(name, 5).unwrap(), b"hello");
        assert!(target.get(name, 4).is_err());
    }
    assert!(target.put("log/3-3.a.log", &Short).is_err());
    assert!(matches!(target.open("log/3-3.a.log").err(), Some(TargetError::Missing { .. })));
    let reader = DirectoryTarget::open(FileDisk, &path, DirectoryUse::Read, "").unwrap();
    assert_eq!(reader.manifest().unwrap(), None);
    let one = target.replace_manifest(&Manifest::empty().encode(), None).unwrap();
    assert!(matches!(target.replace_manifest(b"{}", None), Err(TargetError::Conflict)));
    let mut next = Manifest::empty();
    next.generation = 1;
    let two = target.replace_manifest(&next.encode(), Some(&one)).unwrap();
    assert_ne!(one, two);
    assert!(matches!(target.replace_manifest(b"{}", Some(&one)), Err(TargetError::Conflict)));
    assert_eq!(reader.manifest().unwrap().unwrap().revision, two);
    target.delete("log/1-2.a.log").unwrap();
    target.delete("log/1-2.a.log").unwrap();
    assert_eq!(target.list().unwrap(), ["log/3-3.a.log.tmp", "index/1-2.a.json", "base/1.a/snapshot.1"]);
}
