//! Bytes that change on their way: from the election, between leader and learner, from clients. Whatever
//! comes of it, no server panics. What the servers then agree upon is another matter: they trust each other.

use zebu_sim::run_garbled;

#[test]
fn no_byte_makes_a_server_panic() {
    let events: u64 = (2_000_000..2_000_020).map(run_garbled).sum();
    assert!(events > 10_000);
}
