//! Instructions of one run of a step: this program runs itself under a counter, with few runs and with many,
//! and the difference is theirs alone. perf where the processor lets it count, valgrind elsewhere.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs of the step in the two counts.
const FEW: usize = 1_000;
const MANY: usize = 11_000;

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Perf,
    Valgrind,
}

/// Instructions of one run, user only.
pub(crate) fn of(step: &str, nodes: usize) -> Result<f64> {
    let counter =
        if count(Counter::Perf, "decode-get", 1, 1).is_ok() { Counter::Perf } else { Counter::Valgrind };
    let (few, many) = (count(counter, step, nodes, FEW)?, count(counter, step, nodes, MANY)?);
    Ok(many.saturating_sub(few) as f64 / (MANY - FEW) as f64)
}

fn count(counter: Counter, step: &str, nodes: usize, runs: usize) -> Result<u64> {
    let own = std::env::current_exe()?;
    let (program, words): (_, &[&str]) = match counter {
        Counter::Perf => ("perf", &["stat", "-x", ",", "-e", "instructions:u"]),
        Counter::Valgrind => {
            ("valgrind", &["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        }
    };
    let output = Command::new(program)
        .args(words)
        .arg(own)
        .args([
            "micro",
            "--bare",
            "--only",
            step,
            "--nodes",
            &nodes.to_string(),
            "--count",
            &runs.to_string(),
        ])
        .output()
        .with_context(|| format!("run {program}; is it installed?"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match counted(&said) {
        Some(instructions) if output.status.success() => Ok(instructions),
        Some(_) | None => bail!("{program} counted nothing for {step}: {said}"),
    }
}

/// From `123456,,instructions:u,…` of perf or `==1== I refs: 1,234,567` of valgrind.
fn counted(said: &str) -> Option<u64> {
    said.lines().find_map(|line| match line.split_once("refs:") {
        Some((_, number)) => number.trim().replace(',', "").parse().ok(),
        None => line.contains(",instructions:u").then(|| line.split(',').next()?.parse().ok())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_counters_are_understood() {
        assert_eq!(counted("==7== \n==7== I refs:        1,234,567\n"), Some(1_234_567));
        assert_eq!(counted("==7== I   refs:      89\n"), Some(89));
        assert_eq!(counted("4711,,instructions:u,100,100.00,,\n"), Some(4711));
        assert_eq!(counted("<not supported>,,instructions:u,0,100.00,,\n"), None);
    }
}
