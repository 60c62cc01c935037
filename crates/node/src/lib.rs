//! The whole server's brain: joins tree and storage; owns sessions, the order of requests and replies,
//! credentials and limits.
//!
//! Pure: no sockets, files, clocks, threads or global randomness. Time, randomness and the locks come from
//! whoever runs it, so that the simulator runs the code that ships.

mod agreement;
mod clock;
mod core;
mod deciding;
mod ensemble;
mod lane;
mod learning;
pub mod limits;
mod notice;
mod random;
mod read;
mod reading;
mod receive;
mod replica;
mod restore;
pub mod session;
mod settings;
mod shape;
mod stats;
mod throttle;

pub use agreement::Membership;
pub use clock::Moment;
pub use core::{AfterAppend, CommitError, Event, LogBatch, Node};
pub use ensemble::{DiskOrder, Order};
pub use lane::{CloseReason, Lane, LaneId, LaneSession, Lanes, Phase};
pub use notice::Notice;
pub use random::Random;
pub use receive::{Demand, Submission};
pub use replica::Replica;
pub use restore::Restore;
pub use settings::{Enforcement, LeaderClients, LocalSessionSupport, NodeSettings, ReconfigSupport};
pub use shape::ReplyShape;
pub use stats::{LaneStats, Latency, ServerStats, Unreported};
pub use throttle::{Admission, Arrival, ConnectionThrottle, ThrottleSettings};
