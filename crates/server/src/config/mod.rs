//! Configuration: raw text in, checked and immutable values out. Read once, in one place, at start.

pub mod membership;
pub mod server_config;

pub use membership::Membership;
pub use server_config::{
    AuthConfig, BindAddress, ByteCount, ConfigSource, ConnectionThrottleConfig, ConnectionWeights,
    ContainerConfig, DigestAlgorithm, LimitConfig, ListenConfig, OriginalText, PurgeInterval,
    RequestThrottleConfig, ServerConfig, SessionConfig, SnapshotCompression, StorageConfig, SuperDigest,
    TreeConfig, WordWhitelist,
};
