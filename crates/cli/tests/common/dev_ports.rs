//! Free ports for `zebu dev` with three servers.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use zebu_testing::port;

/// Ports that follow the first one: for clients, the quorum, elections and consoles.
const FOLLOWING: [u16; 11] = [1, 2, 701, 702, 703, 1701, 1702, 1703, 2701, 2702, 2703];

/// The first port of an ensemble. No other test gets one of its ports.
pub(crate) fn first_free() -> u16 {
    port::free_address_with(&FOLLOWING).unwrap().port()
}
