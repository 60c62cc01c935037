//! The ZooKeeper of the distribution: an optional peer, used only where it is installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

const JARS: &str = "/usr/share/java";

/// What its start script puts on the class path, as far as a standalone server needs it.
const NAMES: &[&str] = &[
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "netty-handler",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "netty-common",
    "netty-buffer",
    "netty-codec",
    "netty-resolver",
    "netty-all",
    "metrics-core",
    "metrics3-core",
    "snappy-java",
    "snappy",
    "jline2",
    "commons-cli",
    "log4j-1.2",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
];

pub(super) fn class_path() -> Result<OsString> {
    let jar = |name: &&str| -> PathBuf { Path::new(JARS).join(format!("{name}.jar")) };
    if !jar(&"zookeeper").exists() {
        bail!(
            "{JARS}/zookeeper.jar does not exist: install the package `zookeeper`, or name another release"
        );
    }
    let jars = NAMES.iter().map(jar).filter(|path| path.exists());
    Ok(std::env::join_paths(jars)?)
}
