//! The version that the server reports. It starts with the compatible ZooKeeper release, because
//! scripts read it there. Zebu's own version follows.

/// The ZooKeeper release that clients and scripts may expect.
pub const COMPATIBLE_RELEASE: &str = "3.9.5";
/// Zebu's own version.
pub const ZEBU_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The date of the sources, as `yyyy-MM-dd HH:mm UTC`; see `build.rs`.
pub fn build_date() -> &'static str {
    env!("ZEBU_BUILD_DATE")
}

/// The commit of the sources, in release builds from a repository.
pub fn build_commit() -> Option<&'static str> {
    option_env!("ZEBU_BUILD_COMMIT")
}

/// The full version, as `srvr`, `envi` and `mntr` show it.
pub fn full_version() -> String {
    format!("{COMPATIBLE_RELEASE}-zebu-{ZEBU_VERSION}, built on {}", build_date())
}
