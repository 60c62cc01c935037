//! One of the targets under libFuzzer, chosen by the variable ZEBU_FUZZ_TARGET.
#![no_main]

use std::sync::LazyLock;

use zebu_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("ZEBU_FUZZ_TARGET").unwrap_or_default();
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    match TARGETS.into_iter().find(|target| target.name == name) {
        Some(target) => target,
        None => panic!("ZEBU_FUZZ_TARGET names none of {}", known.join(", ")),
    }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
