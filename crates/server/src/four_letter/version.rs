//! What the server calls itself. The number in front is the ZooKeeper release whose behaviour it has, because
//! scripts read it there; Zebu's own version follows.

/// The ZooKeeper release that clients and scripts may expect.
pub const COMPATIBLE_RELEASE: &str = "3.9.5";
/// Zebu's own version.
pub const ZEBU_VERSION: &str = env!("CARGO_PKG_VERSION");

/// When this was built, as `yyyy-MM-dd HH:mm UTC`. Release builds set it; others do not pretend to know.
pub fn build_date() -> &'static str {
    option_env!("ZEBU_BUILD_DATE").unwrap_or("1970-01-01 00:00 UTC")
}

/// The full version, as `srvr`, `envi` and `mntr` show it.
pub fn full_version() -> String {
    format!("{COMPATIBLE_RELEASE}-zebu-{ZEBU_VERSION}, built on {}", build_date())
}
