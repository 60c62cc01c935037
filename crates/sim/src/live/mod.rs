//! The checkers of the simulator for ensembles that are real: a client without sockets whose every word is
//! recorded, and a judge that compares the record with the history that the members have written to their logs.
//!
//! Whoever runs an ensemble brings sockets, threads and files; none of them is used here. What the judge
//! cannot know about real members is left out: who led, what a disk had confirmed, who was disturbed when.

mod player;
mod record;
mod replay;
mod workload;

pub use player::{Order, Player};
pub use record::Record;
pub use replay::{Broken, Judgement, Transaction, judge};
pub use zebu_client::core::Answer;
