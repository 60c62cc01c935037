//! The list of suites, interop/suites.toml: what each runs and how long it may take.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::Part;
use crate::step::project_root;

const FILE: &str = "interop/suites.toml";

/// One line of the list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suite {
    pub(crate) name: String,
    /// `program:PATH`, `crate:COMMAND` of zebu-interop, or `zkcli`.
    #[serde(deserialize_with = "runner")]
    pub(crate) runs: Runner,
    /// Where its server comes from.
    #[serde(default)]
    pub(crate) server: Source,
    /// What the table says about it if the suite does not say so itself.
    pub(crate) version: Option<String>,
    /// When it runs without being named.
    #[serde(default)]
    pub(crate) when: When,
    /// Arguments of the quick and of the full part, for whatever starts its own servers.
    #[serde(default)]
    quick: Vec<String>,
    #[serde(default)]
    full: Vec<String>,
    /// Directories of `target/interop` that it fills and another suite fills too.
    #[serde(default)]
    pub(crate) shares: Vec<String>,
    /// What its failure means.
    #[serde(default)]
    pub(crate) failure: Failure,
    /// Seconds after which a part is stopped.
    #[serde(default = "quick_limit")]
    quick_limit: u64,
    #[serde(default = "full_limit")]
    full_limit: u64,
}

/// What a suite is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// A program of the interface in interop/README.md, below the project's top.
    Program(String),
    /// A command of the zebu-interop crate.
    Crate(String),
    /// The zkCli sessions, which this program conducts itself.
    ZkCli,
}

/// Where the server of a suite comes from.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    /// The suite starts its own.
    #[default]
    Own,
    /// It is given the address of a fresh one.
    Given,
}

/// When a suite runs without being named.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum When {
    /// Always; it has a quick part.
    #[default]
    Always,
    /// With `--full` only.
    Full,
}

/// What a failure of the quick part means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Failure {
    /// The suite does the same each time: it has failed.
    #[default]
    Counts,
    /// Foreign threads and timeouts take part: it has failed if it fails again. The first failure is printed.
    CountsTwice,
}

fn quick_limit() -> u64 {
    300
}

fn full_limit() -> u64 {
    1800
}

fn runner<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Runner, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.split_once(':') {
        Some(("program", path)) => Ok(Runner::Program(path.to_owned())),
        Some(("crate", command)) => Ok(Runner::Crate(command.to_owned())),
        None if text == "zkcli" => Ok(Runner::ZkCli),
        _ => Err(serde::de::Error::custom(format!(
            "{text:?} is neither program:PATH nor crate:COMMAND nor zkcli"
        ))),
    }
}

impl Suite {
    /// Its further arguments in this part.
    pub(crate) fn arguments(&self, part: Part) -> &[String] {
        match part {
            Part::Quick => &self.quick,
            Part::Full => &self.full,
        }
    }

    /// How long this part may take.
    pub(crate) fn limit(&self, part: Part) -> Duration {
        Duration::from_secs(match part {
            Part::Quick => self.quick_limit,
            Part::Full => self.full_limit,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    suite: Vec<Suite>,
}

/// Reads the list.
pub(crate) fn read() -> anyhow::Result<Vec<Suite>> {
    let text = std::fs::read_to_string(project_root().join(FILE)).with_context(|| format!("read {FILE}"))?;
    parse(&text).with_context(|| format!("{FILE} is not usable"))
}

pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Suite>> {
    let list: List = toml::from_str(text)?;
    for (index, suite) in list.suite.iter().enumerate() {
        let is_new = list.suite[..index].iter().all(|other| other.name != suite.name);
        ensure!(is_new, "two suites are named {}", suite.name);
    }
    Ok(list.suite)
}

/// The named suites, or all that run in this part.
pub(crate) fn choose(names: &[String], available: &[Suite], part: Part) -> anyhow::Result<Vec<Suite>> {
    if names.is_empty() {
        let runs = |suite: &&Suite| suite.when == When::Always || part == Part::Full;
        return Ok(available.iter().filter(runs).cloned().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let Some(suite) = available.iter().find(|suite| suite.name == *name) else {
            let known: Vec<_> = available.iter().map(|suite| &*suite.name).collect();
            bail!("no suite is named {name}; there are: {}", known.join(", "));
        };
        chosen.push(suite.clone());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[suite]]
        name = "c"
        runs = "program:interop/clients/c_client.sh"
        server = "given"

        [[suite]]
        name = "differential"
        runs = "crate:differential"
        failure = "counts-twice"
        quick = ["--seeds", "1"]
        full = ["--seeds", "20"]
        full_limit = 3600

        [[suite]]
        name = "zkcli"
        runs = "zkcli"
        when = "full"
    "#;

    fn names(suites: &[Suite]) -> Vec<&str> {
        suites.iter().map(|suite| &*suite.name).collect()
    }

    #[test]
    fn reads_what_a_suite_runs() {
        let suites = parse(LIST).unwrap();
        assert_eq!(suites[0].runs, Runner::Program("interop/clients/c_client.sh".to_owned()));
        assert_eq!((suites[0].failure, suites[1].failure), (Failure::Counts, Failure::CountsTwice));
        assert_eq!((suites[0].server, suites[1].server), (Source::Given, Source::Own));
        assert_eq!(suites[1].arguments(Part::Full), ["--seeds", "20"]);
        assert_eq!(suites[1].limit(Part::Full), Duration::from_secs(3600));
        assert_eq!(suites[1].limit(Part::Quick), Duration::from_secs(300));
    }

    #[test]
    fn no_name_means_every_suite_of_the_part_and_a_wrong_name_is_an_error() {
        let suites = parse(LIST).unwrap();
        assert_eq!(names(&choose(&[], &suites, Part::Quick).unwrap()), ["c", "differential"]);
        assert_eq!(names(&choose(&[], &suites, Part::Full).unwrap()), ["c", "differential", "zkcli"]);
        assert_eq!(names(&choose(&["zkcli".to_owned()], &suites, Part::Quick).unwrap()), ["zkcli"]);
        let error = choose(&["zkcil".to_owned()], &suites, Part::Quick).unwrap_err().to_string();
        assert_eq!(error, "no suite is named zkcil; there are: c, differential, zkcli");
    }

    #[test]
    fn mistakes_in_the_list_are_errors() {
        assert!(parse("[[suite]]\nname = \"a\"\nruns = \"script:x\"").is_err());
        assert!(parse("[[suite]]\nname = \"a\"\nruns = \"zkcli\"\nlimit = 3").is_err());
        let twice = "[[suite]]\nname = \"a\"\nruns = \"zkcli\"\n".repeat(2);
        assert_eq!(parse(&twice).unwrap_err().to_string(), "two suites are named a");
    }

    #[test]
    fn every_listed_program_is_there() {
        for suite in read().unwrap() {
            if let Runner::Program(path) = &suite.runs {
                assert!(project_root().join(path).exists(), "{path} is missing");
            }
        }
    }
}
