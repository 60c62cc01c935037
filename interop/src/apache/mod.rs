//! Apache ZooKeeper as a process: which release, where its classes come from, how it is started.
//! Jars are fetched into the target directory and never committed.

mod debian;
mod maven;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use zebu_testing::Launch;
use zebu_testing::vectors::Release;

pub(crate) use self::maven::cache;

/// Which Apache ZooKeeper to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    /// A release that Maven can give.
    Maven(String),
    /// The one that the distribution's package `zookeeper` installed.
    Debian,
}

impl Edition {
    /// `debian`, `latest` or a version number.
    pub(crate) fn parse(text: &str) -> Edition {
        match text {
            "debian" => Edition::Debian,
            "latest" => Edition::Maven(maven::NEWEST.to_owned()),
            version => Edition::Maven(version.to_owned()),
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> String {
        match self {
            Edition::Maven(version) => version.clone(),
            Edition::Debian => debian::version(),
        }
    }

    /// Its name and number, for the table of results.
    pub(crate) fn version(&self) -> String {
        format!("Apache ZooKeeper {}", self.number())
    }

    /// Which recorded exchanges hold for it.
    pub(crate) fn release(&self) -> Release {
        match self {
            Edition::Maven(_) => Release::V3_9_5,
            Edition::Debian => Release::V3_8_0,
        }
    }

    /// How to start it; fetches what is missing.
    pub(crate) fn launch(&self) -> Result<Launch> {
        Ok(java(self.class_path()?))
    }

    /// One of its command-line tools, by class.
    pub(crate) fn tool(&self, class: &str) -> Result<Command> {
        let mut command = Command::new(java_program());
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-cp").arg(self.class_path()?).arg(class);
        Ok(command)
    }

    fn class_path(&self) -> Result<OsString> {
        match self {
            Edition::Maven(version) => maven::class_path(version),
            Edition::Debian => debian::class_path(),
        }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edition::Maven(version) => write!(formatter, "Apache {version}"),
            Edition::Debian => formatter.write_str("Apache of the distribution"),
        }
    }
}

/// A small and quickly started Java machine: tests care about answers, not about peak throughput.
fn java(class_path: OsString) -> Launch {
    let before = [
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.jmx.log4j.disable=true",
        // Of Debian's; who wants to hear more says so behind it.
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ];
    let mut after: Vec<OsString> = vec!["-cp".into(), class_path];
    after.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
    Launch { program: java_program(), before: before.map(OsString::from).to_vec(), after }
}

fn java_program() -> PathBuf {
    std::env::var_os("JAVA_HOME").map_or("java".into(), |home| PathBuf::from(home).join("bin/java"))
}
