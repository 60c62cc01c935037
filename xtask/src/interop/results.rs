//! What came of a suite, and the newest full result of each, kept below target/interop: the table of the
//! documents can then be made of several runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::allowed::Judgement;
use super::program;
use super::report::OwnDeviation;
use super::server::Peer;
use super::suites::Suite;

/// What came of one suite against one server.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) suite: String,
    pub(crate) peer: Peer,
    /// When it ran, as `2026-03-31`.
    pub(crate) day: String,
    pub(crate) version: String,
    pub(crate) judgement: Judgement,
    /// Differences that the suite's own reviewed list allows.
    pub(crate) own_deviations: Vec<OwnDeviation>,
    /// What failed the first time, if it ran twice.
    #[serde(default)]
    pub(crate) unsteady: Vec<String>,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Whether the suite fails the run.
    pub(crate) fn has_failed(&self) -> bool {
        !self.judgement.failures.is_empty()
    }

    /// The line that is printed when the suite has ended.
    pub(crate) fn line(&self) -> String {
        let verdict = if self.has_failed() { "FAILED" } else { "ok" };
        let Judgement { passed, failures, skipped, .. } = &self.judgement;
        format!(
            "{}: {verdict}, {} passed, {} failed, {} allowed to fail, {} skipped, {:.0} s",
            self.suite,
            passed.len(),
            failures.len(),
            self.judgement.allowed_count(),
            skipped.len(),
            self.took.as_secs_f64()
        )
    }
}

/// The newest full results of one suite.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) zebu: Outcome,
    /// The same programs against Apache ZooKeeper, if they ran.
    pub(crate) apache: Option<Outcome>,
}

impl Pair {
    /// What passes with Apache and neither passes with Zebu nor is allowed to fail, by name.
    pub(crate) fn only_with_apache(&self) -> Vec<&str> {
        let Judgement { passed, allowed, .. } = &self.zebu.judgement;
        let is_explained = |name: &&String| {
            passed.contains(name) || allowed.iter().any(|allowed| allowed.tests.contains(name))
        };
        let with_apache = self.apache.iter().flat_map(|apache| &apache.judgement.passed);
        with_apache.filter(|name| !is_explained(name)).map(String::as_str).collect()
    }
}

/// The day of this moment.
pub(crate) fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Keeps a result in place of the suite's last one.
pub(crate) fn keep(outcome: &Outcome) -> anyhow::Result<()> {
    keep_in(&directory()?, outcome)
}

/// The newest results, in the order of the suites; an error if a suite never ran in full.
pub(crate) fn newest(suites: &[Suite]) -> anyhow::Result<Vec<Pair>> {
    let names: Vec<&str> = suites.iter().map(|suite| &*suite.name).collect();
    newest_in(&directory()?, &names)
}

fn directory() -> anyhow::Result<PathBuf> {
    Ok(program::cache()?.join("results"))
}

fn place(directory: &Path, suite: &str, peer: Peer) -> PathBuf {
    directory.join(format!("{suite}.{}.json", peer.word()))
}

fn keep_in(directory: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let path = place(directory, &outcome.suite, outcome.peer);
    fs::write(&path, serde_json::to_vec_pretty(outcome)?).with_context(|| format!("write {}", path.display()))
}

fn newest_in(directory: &Path, suites: &[&str]) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    for suite in suites {
        let apache = read(&place(directory, suite, Peer::Apache))?;
        match read(&place(directory, suite, Peer::Zebu))? {
            Some(zebu) => pairs.push(Pair { zebu, apache }),
            None => missing.push(*suite),
        }
    }
    if !missing.is_empty() {
        bail!("no full result is kept of: {0}; run cargo xtask interop --full {0}", missing.join(" "));
    }
    Ok(pairs)
}

fn read(path: &Path) -> anyhow::Result<Option<Outcome>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    let outcome = serde_json::from_slice(&text);
    outcome.with_context(|| format!("{} is not usable; run its suite again", path.display())).map(Some)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::allowed::{Allowed, Deviation};
    use super::*;

    /// A result with something of everything.
    pub(crate) fn outcome(peer: Peer) -> Outcome {
        let deviation = Deviation {
            suite: "kazoo".to_owned(),
            test: "TestSSL*".to_owned(),
            reason: "no TLS yet".to_owned(),
            peers: vec![Peer::Zebu],
        };
        let own = OwnDeviation { name: "null-acl".to_owned(), times: 3, reason: "safe".to_owned() };
        Outcome {
            suite: "kazoo".to_owned(),
            peer,
            day: "2026-03-31".to_owned(),
            version: "kazoo 2".to_owned(),
            judgement: Judgement {
                passed: ["a", "b", "c"].map(str::to_owned).to_vec(),
                failures: vec!["lock: late".to_owned()],
                skipped: vec!["old: no".to_owned()],
                allowed: vec![Allowed {
                    deviation,
                    tests: ["TestSSL.a", "TestSSL.b"].map(str::to_owned).to_vec(),
                }],
            },
            own_deviations: vec![own],
            unsteady: Vec::new(),
            took: Duration::from_secs(2),
        }
    }

    #[test]
    fn the_newest_result_of_each_server_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("results");
        let error = newest_in(&directory, &["kazoo", "c"]).unwrap_err().to_string();
        assert_eq!(error, "no full result is kept of: kazoo c; run cargo xtask interop --full kazoo c");
        let old = Outcome { version: "kazoo 1".to_owned(), ..outcome(Peer::Zebu) };
        keep_in(&directory, &old).unwrap();
        keep_in(&directory, &outcome(Peer::Zebu)).unwrap();
        let alone = Pair { zebu: outcome(Peer::Zebu), apache: None };
        assert_eq!(newest_in(&directory, &["kazoo"]).unwrap(), [alone]);
        keep_in(&directory, &outcome(Peer::Apache)).unwrap();
        let both = Pair { zebu: outcome(Peer::Zebu), apache: Some(outcome(Peer::Apache)) };
        assert_eq!(newest_in(&directory, &["kazoo"]).unwrap(), [both]);
        assert!(newest_in(&directory, &["kazoo", "c"]).is_err());
    }

    #[test]
    fn what_passes_with_apache_only_is_found() {
        let mut apache = outcome(Peer::Apache);
        apache.judgement.passed = ["b", "TestSSL.a", "lock", "old", "new"].map(str::to_owned).to_vec();
        let pair = Pair { zebu: outcome(Peer::Zebu), apache: Some(apache) };
        assert_eq!(pair.only_with_apache(), ["lock", "old", "new"]);
        let alone = Pair { zebu: outcome(Peer::Zebu), apache: None };
        assert!(alone.only_with_apache().is_empty());
    }

    #[test]
    fn the_line_of_a_suite_counts() {
        let line = outcome(Peer::Zebu).line();
        assert_eq!(line, "kazoo: FAILED, 3 passed, 1 failed, 2 allowed to fail, 1 skipped, 2 s");
    }
}
