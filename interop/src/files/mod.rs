//! The files test: one data directory, written in turn by Zebu and by Apache ZooKeeper. After each change of
//! hands the whole tree is read back through the protocol and compared with what clients saw before, and
//! Apache's own tools read what Zebu wrote.

mod arrangement;
mod doomed;
mod hop;
mod requests;
mod run;
mod seats;
mod tools;
mod workload;

pub(crate) use run::{Plan, run};
