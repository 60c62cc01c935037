//! The agreement protocol: who leads, what is decided. Pure: events and the time come in, actions go out;
//! no sockets, files, clocks, threads or global randomness.
//!
//! So far: quorums and the election. Discovery, synchronisation and broadcast follow.

pub mod election;
pub mod quorum;

pub use election::{Action, Decision, Elector, ElectorSettings, Role, Standing};
pub use quorum::{HierarchyError, QuorumRule};
