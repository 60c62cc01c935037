//! A deterministic simulator of whole ensembles: the shipped brain, agreement, tree, storage and client
//! session machine, in one thread, with virtual time, on a network and on disks that fail as real ones do.
//!
//! A seed decides everything: how large the ensemble is, what its clients ask for, which faults come. What
//! members and clients show is compared with one replayed history; a promise that is broken ends the run.
//! No socket, file, clock or thread of the machine is used.

mod check;
mod client;
mod clock;
mod core;
mod history;
mod ledger;
pub mod live;
mod members;
mod model;
mod network;
mod operation;
mod plan;
mod queue;
mod random;
mod run;
mod script;
mod server;
mod shape;
mod view;
mod world;

pub use crate::core::Counts;
pub use history::Violation;
pub use run::{EnsembleKind, Lines, Report, Run, run_garbled, run_seed, shrink};
pub use script::run_script;
