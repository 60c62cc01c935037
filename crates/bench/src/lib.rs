//! Load for any ZooKeeper-compatible server: sessions that keep a number of requests in flight, and a
//! report of what came back, how long it took and what it cost the server.
//!
//! It speaks the raw protocol and does as little as possible per request, so that the server is measured
//! and not the client. It only sends load to where it is told.

mod arrival;
mod body;
mod connects;
mod cost;
mod driver;
mod echo;
mod fan_out;
mod grow;
mod idle;
mod metronome;
mod mix;
mod nodes;
mod process;
mod report;
mod run;
mod server;
mod session;
mod storm;
mod tally;

pub use connects::{ConnectsReport, connects};
pub use cost::ServerCost;
pub use echo::serve_echo;
pub use fan_out::{FanOutReport, fan_out};
pub use grow::{GrowthStep, grow};
pub use idle::{IdleReport, idle};
pub use mix::{Mix, MixError, Operation};
pub use nodes::{Nodes, prepare};
pub use process::{ProcessUsage, Usage};
pub use report::{Latencies, Report, Second};
pub use run::{BenchError, Load, Pace, Progress, run};
pub use server::BenchServer;
pub use storm::{StormReport, storm};
