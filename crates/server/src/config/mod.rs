//! Configuration: raw text in, checked and immutable values out. Read once, in one place, at start.
//!
//! `load` takes what the user said (`Inputs`) and returns either a `ServerConfig` or the list of what is
//! wrong. Nothing here prints, logs or ends the process.

mod build;
mod duplicates;
mod ensemble;
pub mod findings;
mod known;
mod listen;
pub mod load;
pub mod membership;
mod mixed;
mod nearest;
pub mod observers;
pub mod path_reading;
pub mod peer_config;
pub mod properties;
mod protection;
mod reader;
pub mod server_config;
mod sources;
#[cfg(test)]
mod tests;
pub mod throttle_config;

pub use findings::{Finding, Findings, Origin};
pub use load::{Inputs, Loaded, Surroundings, ThisMachine, load};
pub use membership::Membership;
pub use server_config::{
    AuthConfig, BindAddress, ByteCount, ConfigSource, ContainerConfig, DigestAlgorithm, LimitConfig,
    ListenConfig, OriginalText, PurgeInterval, ServerConfig, SessionConfig, SnapshotCompression,
    StorageConfig, SuperDigest, TreeConfig, WordWhitelist,
};
pub use sources::Environment;
pub use throttle_config::{ConnectionThrottleConfig, ConnectionWeights, RequestThrottleConfig};
