//! Runs a suite program and takes down what it says. Owns the process: its environment, its log, its time
//! limit and its end. The interface is described in interop/README.md.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::report::Report;
use super::server::{Peer, RunningServer, zebu_binary};
use super::{Part, Shown, apache};
use crate::step::target_directory;

const LOG_LINES_SHOWN: usize = 15;
const END_LIMIT: Duration = Duration::from_secs(10);

/// How a program runs.
pub(crate) struct Call<'a> {
    pub(crate) suite: &'a str,
    pub(crate) peer: Peer,
    pub(crate) part: Part,
    pub(crate) limit: Duration,
    pub(crate) shown: Shown,
    /// For everything that it fetches or builds.
    pub(crate) cache: &'a Path,
    /// A directory with programs that go before those of the system.
    pub(crate) programs: Option<&'a Path>,
}

/// The directory for everything that is fetched or built.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let directory = target_directory().join("interop");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    Ok(directory)
}

/// Runs the program; with a server it gets the server's address and may have it restarted.
pub(crate) fn run(
    mut command: Command,
    mut server: Option<&mut RunningServer>,
    call: &Call,
) -> anyhow::Result<Report> {
    set_environment(&mut command, call)?;
    if let Some(server) = &server {
        command.arg(server.address());
    }
    let log_path = log_path(call)?;
    let mut log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone()?);
    // A group of its own: what the program started ends with it.
    command.process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let talk = talk(&mut child, &mut server, &mut log, call);
    if talk.is_err() {
        ask_to_end(&mut child);
        signal_group(&child, "-KILL");
    }
    let status = child.wait()?;
    // A server that the program forgot must not stay.
    signal_group(&child, "-KILL");
    let mut report = talk?;
    note_end(&mut report, status);
    if report.has_trouble() {
        println!("  its whole output: {}", log_path.display());
        if call.shown == Shown::Failures && report.tests.is_empty() {
            print!("{}", tail(&log_path));
        }
    }
    Ok(report)
}

/// A program that did not run to its end has not passed, whatever it said before.
fn note_end(report: &mut Report, status: ExitStatus) {
    if !status.success() && report.broken.is_empty() {
        report.broken.push(format!("the program did not run to its end: {status}"));
    }
}

fn set_environment(command: &mut Command, call: &Call) -> anyhow::Result<()> {
    command.env("INTEROP_CACHE", call.cache).env("INTEROP_PART", call.part.word());
    command.env("INTEROP_PEER", call.peer.word());
    if let Some(programs) = call.programs {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs.to_path_buf()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path)?);
    }
    match call.peer {
        Peer::Zebu => command.env("ZEBU", zebu_binary()),
        Peer::Apache => command.env_remove("ZEBU").env("ZOOKEEPER_CLASSPATH", apache::class_path()?),
    };
    Ok(())
}

fn talk(
    child: &mut Child,
    server: &mut Option<&mut RunningServer>,
    log: &mut File,
    call: &Call,
) -> anyhow::Result<Report> {
    let lines = lines_of(child)?;
    let mut input = child.stdin.take().context("the program has no standard input")?;
    let end = Instant::now() + call.limit;
    let mut report = Report::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(report),
            Err(RecvTimeoutError::Timeout) => bail!("it did not end within {:?}", call.limit),
        };
        writeln!(log, "{line}")?;
        if call.shown == Shown::Everything {
            println!("  {line}");
        }
        if line == "@restart" {
            let answer: &[u8] = match server {
                Some(server) if server.can_restart() => {
                    server.restart()?;
                    b"@restarted\n"
                }
                _ => b"@refused\n",
            };
            input.write_all(answer).context("the program stopped listening")?;
        } else {
            report.take_line(&without_suite(&line, call.suite));
        }
    }
}

/// Some programs put the suite's name before each test's; a name that goes to the first colon would be that
/// alone.
fn without_suite(line: &str, suite: &str) -> String {
    for word in ["ok ", "not ok ", "skip "] {
        let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(suite));
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(": "))
            // Otherwise it is a test with the name of the suite, and its reason.
            && (word == "ok " || rest.contains(": "))
        {
            return format!("{word}{rest}");
        }
    }
    line.to_owned()
}

fn lines_of(child: &mut Child) -> anyhow::Result<Receiver<String>> {
    let output = child.stdout.take().context("the program has no standard output")?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Gives the program time to stop what it started, some of it perhaps in groups of their own.
fn ask_to_end(child: &mut Child) {
    signal_group(child, "-TERM");
    let end = Instant::now() + END_LIMIT;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
}

fn signal_group(child: &Child, signal: &str) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
}

fn log_path(call: &Call) -> anyhow::Result<PathBuf> {
    let directory = call.cache.join("log");
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    Ok(directory.join(format!("{}.log", call.suite)))
}

fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    shown.iter().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    fn run_script(script: &str, limit: Duration) -> anyhow::Result<Report> {
        let cache = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (peer, part, shown) = (Peer::Zebu, Part::Quick, Shown::Failures);
        run(
            command,
            None,
            &Call { suite: "test", peer, part, limit, shown, cache: cache.path(), programs: None },
        )
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn takes_down_what_a_program_says() {
        let report =
            run_script("echo version x 1; echo ok $INTEROP_PART $INTEROP_PEER; exit 0", LONG).unwrap();
        assert_eq!(report.version.as_deref(), Some("x 1"));
        assert_eq!(report.tests[0].name, "quick zebu");
        assert_eq!(report.broken, [""; 0]);
    }

    #[test]
    fn the_name_of_the_suite_is_no_part_of_a_test() {
        assert_eq!(without_suite("not ok kafka: a topic: late", "kafka"), "not ok a topic: late");
        assert_eq!(without_suite("ok kafka", "kafka"), "ok kafka");
        assert_eq!(without_suite("not ok kafka: late", "kafka"), "not ok kafka: late");
        assert_eq!(without_suite("ok kafka-topic: x", "kafka"), "ok kafka-topic: x");
    }

    #[test]
    fn a_program_that_ends_badly_has_not_passed() {
        let report = run_script("echo ok a; exit 3", LONG).unwrap();
        assert_eq!(report.tests[0].verdict, Verdict::Passed);
        assert_eq!(report.broken, ["the program did not run to its end: exit status: 3"]);
    }

    #[test]
    fn a_registry_out_of_reach_has_its_own_word() {
        let report = run_script("echo unreachable the registry: no route; exit 1", LONG).unwrap();
        assert_eq!(report.broken, ["unreachable the registry: no route"]);
    }

    #[test]
    fn a_program_without_a_server_cannot_have_it_restarted() {
        let report = run_script("echo @restart; read answer; echo \"skip restart: $answer\"", LONG).unwrap();
        assert_eq!(report.tests[0].verdict, Verdict::Skipped("@refused".to_owned()));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let started = Instant::now();
        let error = run_script("sleep 600 & echo ok a; wait", Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().contains("did not end within"), "{error}");
        assert!(started.elapsed() < LONG);
    }
}
