//! Every target for a moment, over its real inputs and variations of them. The seed is fixed: what fails here
//! fails again. `ZEBU_FUZZ_ROUNDS` makes it longer.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use zebu_fuzz::{Mutator, TARGETS, Target};

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|target| target.name == name).unwrap()
}

fn feed(target: &Target, input: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} fails on {what}: {hex}", target.name);
    }
}

fn explore(name: &str, rounds: u64) {
    let target = target(name);
    let corpus = (target.corpus)();
    assert!(!corpus.is_empty(), "{name} has real inputs to begin with");
    for (index, input) in corpus.iter().enumerate() {
        feed(&target, input, &format!("real input {index}"));
    }
    let rounds = std::env::var("ZEBU_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(rounds);
    let mut mutator = Mutator::new(0x7a65_6275);
    for round in 0..rounds {
        let input = mutator.vary(&corpus);
        feed(&target, &input, &format!("variation {round}"));
    }
}

#[test]
fn requests() {
    explore("requests", 100_000);
}

#[test]
fn conversation() {
    explore("conversation", 3_000);
}

#[test]
fn client_library() {
    explore("client_library", 10_000);
}

#[test]
fn election() {
    explore("election", 50_000);
}

#[test]
fn packets() {
    explore("packets", 50_000);
}

#[test]
fn peer() {
    explore("peer", 30_000);
}

#[test]
fn peer_extremes() {
    explore("peer_extremes", 30_000);
}

#[test]
fn log() {
    explore("log", 3_000);
}

#[test]
fn snapshot() {
    explore("snapshot", 3_000);
}

#[test]
fn stream() {
    explore("stream", 3_000);
}

#[test]
fn configuration() {
    explore("configuration", 5_000);
}

#[test]
fn credentials() {
    explore("credentials", 20_000);
}

#[test]
fn jks() {
    explore("jks", 10_000);
}

#[test]
fn pkcs12() {
    explore("pkcs12", 500);
}

#[test]
fn pkcs12_bags() {
    explore("pkcs12_bags", 3_000);
}

#[test]
fn pem() {
    explore("pem", 3_000);
}

#[test]
fn digest_md5() {
    explore("digest_md5", 50_000);
}

#[test]
fn jaas() {
    explore("jaas", 50_000);
}

#[test]
fn quorum_auth() {
    explore("quorum_auth", 50_000);
}

#[test]
fn principal() {
    explore("principal", 2_000);
}

#[test]
fn tls_ports() {
    explore("tls_ports", 200);
}
