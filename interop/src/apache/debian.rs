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
    "slf4j-simple",
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

/// Its number, from the second name that the package gives to the file: `zookeeper-3.8.0.jar`.
pub(super) fn version() -> String {
    let names = std::fs::read_dir(JARS).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let number = names.filter_map(|name| {
        let number = name.to_str()?.strip_prefix("zookeeper-")?.strip_suffix(".jar")?;
        number.starts_with(|first: char| first.is_ascii_digit()).then(|| number.to_owned())
    });
    number.max().unwrap_or_else(|| "of the distribution".to_owned())
}

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
