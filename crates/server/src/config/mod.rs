//! Configuration: raw text in, checked and immutable values out. It is read once, at the start.
//!
//! `load` takes the user's `ConfigInputs` and returns either a `ServerConfig` or the list of
//! errors. Nothing here prints, logs or ends the process.

pub mod admin;
mod apache_compat;
mod build;
pub mod diagnostics;
pub mod disk_room;
mod duplicates;
mod ensemble;
pub mod exporter;
pub mod feeds;
pub mod freshness;
pub mod keeper;
mod known_keys;
mod listen;
pub mod listings;
pub mod load;
mod log_diff_limit;
pub mod membership;
mod nearest;
pub mod observers;
pub mod path_reading;
pub mod peer_config;
pub mod properties;
mod protection;
pub mod security;
pub mod server_config;
mod session_config;
mod setting_reader;
mod sources;
#[cfg(test)]
mod tests;
pub mod throttle_config;
pub mod traffic;

pub use diagnostics::{ConfigDiagnostic, ConfigDiagnostics, SettingOrigin};
pub use disk_room::DiskRoomConfig;
pub use exporter::{ExporterConfig, ExporterListener};
pub use feeds::FeedConfig;
pub use freshness::FreshnessConfig;
pub use keeper::KeeperConfig;
pub use listings::ListingConfig;
pub use load::{
    ConfigInputs, LoadedConfig, LocalSystem, QuorumProtection, SystemAccess, load, load_quorum_protection,
};
pub use log_diff_limit::LogDiffLimit;
pub use membership::MembershipConfig;
pub use nearest::nearest_name;
pub use server_config::{
    AuthConfig, AuthDigestAlgorithm, BindAddress, ByteCount, ConfigSource, ContainerConfig,
    FourLetterWhitelist, LimitConfig, ListenConfig, OriginalText, PurgeInterval, ServerConfig,
    SnapshotCompression, StorageConfig, SuperDigest, TreeConfig, WrittenSettings,
};
pub use session_config::{DRAIN_TIME_DEFAULT, SessionConfig};
pub use sources::Environment;
pub use throttle_config::{ConnectionThrottleConfig, ConnectionWeights, RequestThrottleConfig};
