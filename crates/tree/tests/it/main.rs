//! What the tree means, seen from outside: one module per concern.

// Helpers of tests are tests, but clippy only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod create;
mod delete;
mod delete_tree;
mod expiry;
mod golden;
mod keeper;
mod loader;
mod multi;
mod pages;
mod pending;
mod quota;
mod random;
mod reconfig;
mod replay;
mod scan;
mod session;
mod set;
mod stat;
mod support;
mod walk;
mod watches;
