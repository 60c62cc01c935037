//! The small protocol between a smoke program and its caller: `ok …`, `skipped …` and `FAILED …` lines, and
//! `@restart` answered with `@restarted`. The programs are in interop/clients/.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::server::RunningServer;
use super::table::Outcome;

/// Longer than any smoke program takes on a slow machine; a program that hangs must not stop the whole run.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Runs a smoke program against the server.
pub(crate) fn run(
    command: &mut Command,
    server: &mut RunningServer,
    verbose: bool,
) -> anyhow::Result<Outcome> {
    command.arg(server.address());
    if server.can_restart() {
        command.arg("--restarts");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let outcome = talk(&mut child, server, verbose);
    if outcome.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let mut outcome = outcome?;
    if !status.success() && outcome.failures.is_empty() {
        outcome.failures.push(format!("the program ended without a word: {status}"));
    }
    Ok(outcome)
}

fn talk(child: &mut Child, server: &mut RunningServer, verbose: bool) -> anyhow::Result<Outcome> {
    let lines = lines_of(child)?;
    let mut input = child.stdin.take().context("the program has no standard input")?;
    let end = Instant::now() + TIME_LIMIT;
    let mut outcome = Outcome::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => bail!("the program did not end within {TIME_LIMIT:?}"),
        };
        if verbose {
            println!("  {line}");
        }
        if line == "@restart" {
            server.restart()?;
            input.write_all(b"@restarted\n").context("the program stopped listening")?;
        } else {
            count(&line, &mut outcome);
        }
    }
}

fn count(line: &str, outcome: &mut Outcome) {
    match line.split_once(' ') {
        Some(("ok", _)) => outcome.passed += 1,
        Some(("skipped", _)) => outcome.skipped += 1,
        Some(("FAILED", what)) => outcome.failures.push(what.to_owned()),
        _ => {}
    }
}

fn lines_of(child: &mut Child) -> anyhow::Result<Receiver<String>> {
    let output = child.stdout.take().context("the program has no standard output")?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_words_count() {
        let mut outcome = Outcome::default();
        for line in
            ["ok create", "skipped restart: no", "FAILED watch: late", "okay then", "17 checks passed", ""]
        {
            count(line, &mut outcome);
        }
        assert_eq!(outcome, Outcome { passed: 1, skipped: 1, failures: vec!["watch: late".to_owned()] });
    }
}
