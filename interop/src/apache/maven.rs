//! Fetches a release with its dependencies by Maven, into `target/interop`. The pom is written there too:
//! it is made from a few words and belongs to no source tree.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The newest release of the line that Zebu follows.
pub(super) const NEWEST: &str = "3.9.5";

/// Works with this logging interface; some releases would bring an older one.
const LOGBACK: &str = "1.3.15";
const SLF4J: &str = "2.0.13";

/// Needed to run a server, and not named by ZooKeeper's own pom as needed at run time.
const METRICS: &str = "4.1.12.1";
const SNAPPY: &str = "1.1.10.5";

/// Needed by its command-line tools.
const COMMONS_CLI: &str = "1.5.0";

/// Only what ends a server is worth a line in a test's output.
const LOGBACK_CONFIGURATION: &str = r#"<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level [%thread] %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <logger name="org.apache.zookeeper.server.NIOServerCnxn" level="OFF"/>
  <root level="ERROR"><appender-ref ref="console"/></root>
</configuration>
"#;

pub(super) fn class_path(version: &str) -> Result<OsString> {
    ensure!(
        !version.is_empty() && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c)),
        "{version:?} is not a version number; give one such as {NEWEST}, `latest` or `debian`"
    );
    let directory = cache()?.join(format!("apache-zookeeper-{version}"));
    let jars = directory.join("jars");
    // Files of another list of jars do not count.
    let pom = pom_text(version);
    if fs::read_to_string(directory.join("complete")).ok().as_ref() != Some(&pom) {
        fetch(version, &directory, &jars, &pom)?;
        fs::write(directory.join("complete"), &pom)?;
    }
    let mut paths = vec![directory];
    for entry in fs::read_dir(&jars).with_context(|| format!("read {}", jars.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(std::env::join_paths(paths)?)
}

fn fetch(version: &str, directory: &Path, jars: &Path, pom_text: &str) -> Result<()> {
    // Another release of a jar must not stay beside the one that is wanted.
    match fs::remove_dir_all(jars) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", jars.display()));
        }
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(jars).with_context(|| format!("create {}", jars.display()))?;
    fs::write(directory.join("logback.xml"), LOGBACK_CONFIGURATION)?;
    let pom = directory.join("pom.xml");
    fs::write(&pom, pom_text)?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(&pom).arg("dependency:copy-dependencies");
    maven.arg(format!("-DoutputDirectory={}", jars.display())).arg("-DincludeScope=runtime");
    let output = maven.output().context("run mvn; Maven must be installed to fetch Apache ZooKeeper")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // The word by which a run tells a registry out of reach from a fault.
        let first = said.lines().find(|line| line.contains("ERROR")).unwrap_or("mvn said nothing");
        println!("unreachable Maven's repository, or ZooKeeper {version} in it: {first}");
        bail!("mvn could not fetch ZooKeeper {version}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn pom_text(version: &str) -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>zebu</groupId><artifactId>interop</artifactId><version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{}{}{}{}{}{}  </dependencies>\n</project>\n",
        dependency("org.apache.zookeeper", "zookeeper", version),
        dependency("org.slf4j", "slf4j-api", SLF4J),
        dependency("ch.qos.logback", "logback-classic", LOGBACK),
        dependency("io.dropwizard.metrics", "metrics-core", METRICS),
        dependency("org.xerial.snappy", "snappy-java", SNAPPY),
        dependency("commons-cli", "commons-cli", COMMONS_CLI),
    )
}

/// `target/interop` of this workspace.
pub(crate) fn cache() -> Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    };
    let cache = target.join("interop");
    fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    Ok(cache.canonicalize()?)
}
