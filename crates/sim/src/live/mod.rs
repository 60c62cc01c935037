//! The checkers of the simulator for real ensembles: a client without sockets that records every frame, and a
//! replay. The replay compares the record with the history that the servers have written to their logs.
//!
//! The caller provides sockets, threads and files; this module uses none of them. Facts that are unknown for
//! real servers are not checked: leaders, confirmed disk writes and the times of faults.

mod player;
mod record;
mod replay;
mod workload;

pub use player::{Player, PlayerRequest};
pub use record::ClientRecord;
pub use replay::{BrokenPromise, CheckSummary, HistoryTxn, check_record};
pub use zebu_client::core::ServerReply;
