//! The simulator as an ordinary test: some seeds hold all promises, and a seed always does the same. Seeds
//! that have found a bug show it only as long as they draw the same; `testdata/scripts` has the bugs that a
//! scenario shows.

#![allow(clippy::unwrap_used)]

use zebu_sim::{Run, TraceLines, run_seed};

#[test]
fn some_seeds_hold_all_promises() {
    for seed in 1_000_000..1_000_012 {
        let report = run_seed(seed);
        assert!(report.violation.is_none(), "seed {seed}: {:?}", report.violation);
    }
}

/// A voter that could not be cut where its leader asked (474089, 554670), and clients that gave up before
/// they could have a session.
#[test]
fn seeds_that_were_not_answered_in_time() {
    for seed in [402_906, 474_089, 554_670, 833_172, 994_520] {
        let report = run_seed(seed);
        assert!(report.violation.is_none(), "seed {seed}: {:?}", report.violation);
    }
}

/// A first list whose name was lost with the power, and that is shown under a new one before anybody writes.
#[test]
fn a_seed_whose_first_list_gets_its_name_twice() {
    let report = run_seed(1_436_124);
    assert!(report.violation.is_none(), "{:?}", report.violation);
}

/// A clock that went back, to the millisecond of an earlier start.
#[test]
fn a_seed_that_gave_a_session_id_twice() {
    let report = run_seed(980_816);
    assert!(report.violation.is_none(), "{:?}", report.violation);
}

/// A distant server that is no member, because the ensemble became smaller after it was drawn.
#[test]
fn a_seed_whose_distant_server_was_not_there() {
    let report = run_seed(9_100_752);
    assert!(report.violation.is_none(), "{:?}", report.violation);
}

/// Fingerprints are the same in every build: debug, release, this machine, another one. A change of the
/// simulator or of what it runs changes them; then look that it was meant, and write the new ones here.
#[test]
fn a_seed_always_does_the_same() {
    for seed in [3, 8, 11] {
        let (first, second) = (run_seed(seed), run_seed(seed));
        assert_eq!(first.hash, second.hash);
        assert_eq!(first.counts.events, second.counts.events);
        let told = Run::new(seed).run(TraceLines::Kept);
        assert_eq!(told.hash, first.hash, "telling what happens changes nothing");
        assert!(!told.trace.is_empty());
    }
}

/// A run without its faults is still a run: that is how a failure is made short.
#[test]
fn every_seed_has_a_shape_of_its_own() {
    let described: Vec<String> = (0..20).map(|seed| Run::new(seed).describe()[0].clone()).collect();
    let mut different = described.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), described.len());
}

/// A leader that its followers had left said that sessions live: to its own clients, and to those of an
/// observer.
#[test]
fn seeds_whose_leases_were_too_long() {
    for seed in [397_679, 731_642] {
        let report = run_seed(seed);
        assert!(report.violation.is_none(), "seed {seed}: {:?}", report.violation);
    }
}
