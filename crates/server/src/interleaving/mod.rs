//! Explores the interleavings of threads: shuttle's scheduler runs a test many times, and chooses at
//! each operation on a lock, atomic or channel which thread goes on.
//!
//! No time passes, so timers never fire and a lost wakeup is found as a deadlock. The seeds are fixed,
//! so a failure repeats. `crates/server/mutants` holds bugs that these tests must find.

mod core_slot;
pub(crate) mod fake_socket;
mod permits;
pub(crate) mod primitives;
mod reply_batches;
pub(crate) mod server;

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

use primitives::Exploration;

const SEED: u64 = 1;

/// Stack of a thread. Debug builds need more than shuttle's default.
const STACK_BYTES: usize = 512 << 10;

/// Preemptions at which the second scheduler aims.
const PREEMPTIONS: usize = 3;

/// Runs a test with this many interleavings of each of two schedulers: one chooses at random, one has
/// few preemptions.
pub(crate) fn explore(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    // Tasks create timers, which need a runtime. It never runs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let _exploration = Exploration::begin();
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let test = Arc::new(test);
    let random = RandomScheduler::new_from_seed(SEED, iterations);
    Runner::new(random, config.clone()).run({
        let test = test.clone();
        move || test()
    });
    Runner::new(PctScheduler::new_from_seed(SEED, PREEMPTIONS, iterations), config).run(move || test());
}
