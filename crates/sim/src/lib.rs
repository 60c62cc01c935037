//! A deterministic simulator of complete ensembles: the shipped node, Zab, tree, storage and client session
//! state machine run in one thread. Time is virtual; the network and the disks fail as real ones do.
//!
//! A seed determines everything: the size of the ensemble, the calls of its clients, the faults. Everything
//! that servers and clients show is compared with one replayed history; a violated guarantee ends the run.
//! The simulator uses no socket, file, clock or thread of the machine.

mod check;
mod client;
mod clock;
mod committed_history;
mod context;
mod coverage;
mod fault_kind;
mod history;
mod listing;
pub mod live;
mod members;
mod model;
mod network;
mod operation;
mod plan;
mod queue;
mod random;
mod run;
mod run_parameters;
mod script;
mod server;
mod view;
mod world;

pub use crate::context::RunCounts;
pub use crate::coverage::{CoveredPath, PathCounts};
pub use history::Violation;
pub use run::{EnsembleKind, Run, RunReport, TraceLines, run_garbled, run_seed, shrink};
pub use script::run_script;
