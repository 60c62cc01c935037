//! Tests only: every program that fetches something, with its registry at a closed port. The suite must fail
//! with the word `unreachable`: a network that is down must not be taken for a fault, and never for success.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::program::{self, Call};
use super::server::Peer;
use super::suites::{self, Runner, Source};
use super::{Part, Shown};
use crate::step::{cargo, project_root};

/// Nobody listens here: the port of an old service that needs a privilege to open.
const CLOSED: &str = "127.0.0.1:1";

/// What the program of a suite says in an empty cache while no registry answers.
fn what_breaks(suite: &str, mut command: Command) -> Vec<String> {
    let empty = tempfile::tempdir().unwrap();
    close_registries(&mut command, empty.path());
    let (peer, part, shown) = (Peer::Zebu, Part::Full, Shown::Failures);
    let limit = Duration::from_secs(120);
    let cache = &empty.path().join("cache");
    let report =
        program::run(command, None, &Call { suite, peer, part, limit, shown, cache, programs: None })
            .unwrap();
    assert!(report.tests.is_empty(), "{suite}: {:?}", report.tests);
    report.broken
}

/// Points everything that fetches at the closed port, and away from what was fetched before.
fn close_registries(command: &mut Command, empty: &Path) {
    let url = format!("http://{CLOSED}");
    let maven: Vec<String> = ["http", "https"]
        .iter()
        .map(|scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=1"))
        .collect();
    let repository = empty.join("maven");
    command.env("MAVEN_OPTS", format!("-Dmaven.repo.local={} {}", repository.display(), maven.join(" ")));
    command.env("PIP_INDEX_URL", &url).env("PIP_RETRIES", "0").env("PIP_NO_CACHE_DIR", "1");
    command.env("PIP_CONFIG_FILE", "/dev/null").env_remove("PIP_EXTRA_INDEX_URL");
    command.env("GOPROXY", &url).env("GOMODCACHE", empty.join("go")).env("GOTOOLCHAIN", "local");
    let apt = empty.join("apt.conf");
    std::fs::write(&apt, format!("Acquire::http::Proxy \"{url}\";\nAcquire::https::Proxy \"{url}\";\n"))
        .unwrap();
    command.env("APT_CONFIG", apt);
    command.env("CARGO_TARGET_DIR", empty);
}

/// The program of a suite with an address where none is needed yet: it must come to the fetching first.
fn program_of(name: &str) -> Command {
    let all = suites::read().unwrap();
    let suite = all.iter().find(|suite| suite.name == name).unwrap();
    let Runner::Program(path) = &suite.runs else { panic!("{name} is no program") };
    let mut command = Command::new(project_root().join(path));
    if suite.server == Source::Given {
        command.arg(CLOSED);
    }
    command
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory: PathBuf| directory.join(tool).is_file());
    if !found {
        println!("not tested: {tool} is not installed");
    }
    found
}

fn assert_unreachable(suite: &str, broken: &[String]) {
    assert!(broken.len() == 1 && broken[0].starts_with("unreachable "), "{suite}: {broken:?}");
}

#[test]
fn maven() {
    if is_installed("mvn") {
        // All scripts fetch by the same function; one with a server and one without stand for them.
        for suite in ["java-client", "kafka", "curator-suite", "c-suite"] {
            assert_unreachable(suite, &what_breaks(suite, program_of(suite)));
        }
    }
}

#[test]
fn every_script_fetches_jars_by_the_same_function() {
    for suite in suites::read().unwrap() {
        let Runner::Program(path) = &suite.runs else { continue };
        if !path.ends_with(".sh") {
            continue;
        }
        let text = std::fs::read_to_string(project_root().join(path)).unwrap();
        assert!(!text.contains("mvn "), "{path} calls Maven itself");
        assert_eq!(text.contains("java -"), text.contains("fetch_jars"), "{path}");
    }
}

#[test]
fn the_python_package_index() {
    if is_installed("python3") {
        for suite in ["kazoo", "kazoo-suite", "kubernetes"] {
            assert_unreachable(suite, &what_breaks(suite, program_of(suite)));
        }
    }
}

#[test]
fn go_modules() {
    if is_installed("go") {
        for suite in ["go", "go-suite", "collectors"] {
            assert_unreachable(suite, &what_breaks(suite, program_of(suite)));
        }
    }
}

#[test]
fn debian_packages() {
    if is_installed("apt-get") {
        assert_unreachable("clickhouse", &what_breaks("clickhouse", program_of("clickhouse")));
    }
}

#[test]
fn apache_zookeeper_itself() {
    if is_installed("mvn") {
        let built = cargo(&["build", "--quiet", "--package", "zebu-interop"]).status().unwrap();
        assert!(built.success());
        let binary = crate::step::target_directory().join("debug/zebu-interop");
        for arguments in [&["vectors"][..], &["differential", "--apache-vs-apache"], &["kill"], &["files"]] {
            let mut command = Command::new(&binary);
            command.args(arguments);
            assert_unreachable(arguments[0], &what_breaks(arguments[0], command));
        }
    }
}
