//! The server as a state machine: joins tree, Zab and storage. It owns sessions, the order of requests and
//! replies, credentials and limits.
//!
//! Pure: no sockets, files, clocks, threads or global randomness. The caller passes time and random seeds and
//! holds the locks, so that the simulator runs the shipped code.

mod audit;
mod clock;
mod connect;
mod connection;
mod consensus;
mod context;
mod core;
mod direct_read;
mod ensemble;
pub mod feed;
mod freshness;
mod keeper;
mod learner;
pub mod limits;
mod listing;
mod listing_cache;
mod metrics;
mod multi_read;
mod notice;
mod pending_request;
mod prepared_reply;
mod primary;
mod read;
mod read_only;
mod read_work;
mod receive;
mod replica;
mod request_copy;
mod restore;
mod sasl;
mod serving_mode;
pub mod session;
mod settings;
mod shape;
mod split_mix;
mod stats;
mod suspended;
mod throttle;
mod traffic;
mod watch_limit;

pub use audit::{AuditEvent, AuditLevel, AuditOperation, AuditResult, AuditUser, escape};
pub use clock::Now;
pub use connection::{
    ClientConnection, ConnectionId, ConnectionPhase, ConnectionSession, Connections, DisconnectReason,
};
pub use consensus::ConsensusPeer;
pub use context::ServeContext;
pub use core::{AfterAppend, ClientEvent, CommitError, LogBatch, Node};
pub use ensemble::{Effect, ServeEffect};
pub use freshness::{FenceRequest, FreshnessSettings};
pub use keeper::{KeeperSettings, LIST_BYTES_MAX, LIST_RECURSIVE_NODES_MAX};
pub use listing::{CLIENT_PACKET_MAX, ListingSettings};
pub use metrics::NodeMetrics;
pub use notice::OperatorNotice;
pub use pending_request::{AnsweredRequests, UNCHARGED_BYTES_MAX};
pub use receive::{RequestKind, SubmittedRequest};
pub use replica::{EnsembleAuthCounts, Replica};
pub use restore::Restore;
pub use sasl::{
    SaslFailedClients, SaslMechanism, SaslOutcome, SaslRequest, SaslRound, SaslRoundResult, SaslSettings,
};
pub use serving_mode::ServingMode;
pub use settings::{AuthEnforcement, LeaderClients, LocalSessionSupport, NodeSettings, ReconfigSupport};
pub use shape::ReplyShape;
pub use split_mix::SplitMix64;
pub use stats::{ConnectionStats, LatencyStats, ServerStats, StatsDelta};
pub use throttle::{Admission, ConnectionThrottle, SessionRequest, ThrottleSettings};
pub use traffic::{NotableRequest, TrafficReport, TrafficSettings};
