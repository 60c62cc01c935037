//! The proof of a backup that may be damaged, and that another process may clean up meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod archive_model;

use archive_model::{Ensemble, Pause, PausedTarget, SEED, Writer, ensemble, finished};
use zebu_backup::core::archive::{Archive, Continuity};
use zebu_backup::core::manifest::PAGE_SEGMENTS;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::plan::{Point, plan};
use zebu_backup::core::replay::{ReplayError, ReplayObserver, Unobserved, rebuild};
use zebu_backup::core::retention;
use zebu_backup::core::target::{MANIFEST, Target};
use zebu_backup::core::verify::{Finding, ProofError, prove};
use zebu_proto::Zxid;
use zebu_proto::txn::{TxnDigest, TxnEntry};

/// Proves a target, and returns its flaws.
fn flaws(target: &impl Target) -> Vec<String> {
    let mut found = Vec::new();
    let count = prove(target, SEED, &mut Unobserved, |finding| {
        if let Finding::Flaw(error) = finding {
            found.push(error.to_string());
        }
    });
    assert_eq!(count.unwrap(), found.len() as u64);
    found
}

#[test]
fn every_flaw_is_found_and_not_only_the_first() {
    let (target, manifest) = finished();
    assert_eq!(flaws(&target), Vec::<String>::new());
    for base in &manifest.bases {
        target.damage(&base.name, |bytes| bytes[20] ^= 1);
    }
    let found = flaws(&target);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(manifest.bases.iter().zip(&found).all(|(base, flaw)| flaw.contains(&base.name)), "{found:?}");
    // A longer object is damage, and no failure of the target.
    let (target, manifest) = finished();
    target.damage(&manifest.segments[0].name, |bytes| bytes.push(0));
    let found = flaws(&target);
    assert!(found.len() == 1 && found[0].contains("is longer than"), "{found:?}");
    target.damage(MANIFEST, |bytes| bytes.truncate(10));
    let found = flaws(&target);
    assert!(found.len() == 1 && found[0].contains("manifest.json is damaged"), "{found:?}");
    // A manifest of a later release, and a target that cannot be reached, are no flaws.
    target.damage(MANIFEST, |bytes| *bytes = b"{\"format\": 2}".to_vec());
    let error = prove(&target, SEED, &mut Unobserved, |_| ()).unwrap_err();
    assert!(matches!(error, ProofError::Format(_)), "{error}");
}

#[test]
fn a_damaged_page_is_a_flaw_beside_the_others() {
    let count = PAGE_SEGMENTS as u32 + 10;
    let ensemble = ensemble(count);
    let target = MemoryTarget::new();
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    let mut writer = Writer::open(&target, "run").unwrap();
    writer.base(&begin.tree, Continuity::NewChain).unwrap();
    writer.follow(&ensemble, 1).unwrap();
    writer.base(&ensemble.tree, Continuity::Continues).unwrap();
    let page = writer.archive.manifest().pages[0].name.clone();
    target.damage(&page, |bytes| bytes[0] ^= 1);
    let found = flaws(&target);
    assert!(found.len() == 2 && found[0].contains(&page) && found[1].contains("hole"), "{found:?}");
}

#[test]
fn retention_during_a_proof_is_no_flaw() {
    let (target, manifest) = finished();
    for name in [&manifest.bases[0].name, &manifest.segments[1].name] {
        let target = {
            let copy = MemoryTarget::new();
            let names = target.list().unwrap();
            for name in names.iter().map(String::as_str).chain([MANIFEST]) {
                let bytes = target.get(name, u64::MAX - 1).unwrap();
                copy.damage(name, |object| *object = bytes);
            }
            copy
        };
        let mut archive = Archive::open(target.clone(), "other").unwrap();
        let clean = move || {
            assert_eq!(retention::forget(&mut archive, i64::MAX).unwrap(), 1);
            assert!(retention::sweep(&mut archive).unwrap() > 0);
        };
        let paused = PausedTarget::new(&target, Pause::BeforeOpening(name.clone()), clean);
        assert_eq!(flaws(&paused), Vec::<String>::new());
        assert!(paused.has_paused(), "{name} was never opened");
        // The same objects, removed by anyone else, are missing.
        target.delete(&manifest.bases[1].name).unwrap();
        assert_eq!(flaws(&target).len(), 1);
    }
}

/// Counts wrong digests, and goes on.
struct Lenient(Vec<String>);

impl ReplayObserver for Lenient {
    fn goes_on_after(&mut self, wrong_digest: &ReplayError) -> bool {
        self.0.push(wrong_digest.to_string());
        true
    }
}

#[test]
fn a_history_with_wrong_digests_can_be_restored_on_request() {
    let mut ensemble = Ensemble::new();
    (1..=10).for_each(|counter| ensemble.write(Zxid::new(1, counter)));
    // The digest of transaction 8 is that of another tree, and all else is right.
    let log = &mut ensemble.log[7].2;
    let mut entry = TxnEntry::decode(log).unwrap();
    entry.digest = entry.digest.map(|digest| TxnDigest { tree_digest: digest.tree_digest ^ 1, ..digest });
    log.clear();
    entry.encode(log);
    let target = MemoryTarget::new();
    let mut begin = Ensemble::new();
    begin.write(Zxid::new(1, 1));
    let mut writer = Writer::open(&target, "run").unwrap();
    writer.base(&begin.tree, Continuity::NewChain).unwrap();
    writer.follow(&ensemble, 5).unwrap();
    let manifest = writer.archive.manifest();
    let plan = plan(manifest, &manifest.segments, Point::Latest).unwrap();
    let refused = rebuild(&target, &plan, SEED, &mut Unobserved).unwrap_err();
    assert!(matches!(refused, ReplayError::Digest { .. }), "{refused}");
    let mut lenient = Lenient(Vec::new());
    let state = rebuild(&target, &plan, SEED, &mut lenient).unwrap();
    assert_eq!((state.tree.last_zxid(), state.tree.digest()), (Zxid::new(1, 10), ensemble.tree.digest()));
    assert_eq!(lenient.0.len(), 1);
    assert!(lenient.0[0].contains("0x100000008"), "{:?}", lenient.0);
}
