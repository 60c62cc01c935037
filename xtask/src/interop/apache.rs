//! Apache's classes for the servers and clients of the suites: Debian's package, or what the environment
//! names.

use std::ffi::OsString;
use std::path::Path;

use anyhow::bail;

/// Names a class path with server and zkCli and what they need, for releases that Debian does not have.
const VARIABLE: &str = "ZEBU_ZOOKEEPER_CLASSPATH";

/// Debian's own list of zookeeper.jar lacks the codec that its Netty listener uses.
const DEBIAN_JARS: [&str; 3] =
    ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar", "/usr/share/java/netty-codec.jar"];

/// The class path; an error where nothing is installed.
pub(crate) fn class_path() -> anyhow::Result<OsString> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(given);
    }
    if !Path::new(DEBIAN_JARS[0]).exists() {
        bail!("{} is missing: install Debian's libzookeeper-java or set {VARIABLE}", DEBIAN_JARS[0]);
    }
    Ok(DEBIAN_JARS.join(":").into())
}
