//! What the tree means, seen from outside: one module per concern.

mod create;
mod delete;
mod expiry;
mod golden;
mod loader;
mod multi;
mod pending;
mod quota;
mod random;
mod reconfig;
mod replay;
mod session;
mod set;
mod stat;
mod support;
mod walk;
mod watches;
