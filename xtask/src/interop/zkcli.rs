//! The zkCli suite: feeds Apache's command-line client one command at a time and compares what it prints.
//! After each command a read of a missing node is sent; the answer to it marks where the output ends.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};

use super::script::{Exchange, compare, matches, parse};
use super::table::Outcome;
use crate::step::project_root;

/// Names a class path with zkCli and what it needs, for releases that Debian does not have.
const CLASS_PATH_VARIABLE: &str = "ZEBU_ZOOKEEPER_CLASSPATH";
const DEBIAN_JARS: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar"];

/// The Java machine starts slowly on a busy machine; a hanging client must still come to an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Apache's classes: from the environment, or Debian's package.
pub(crate) fn class_path() -> anyhow::Result<OsString> {
    if let Some(given) = std::env::var_os(CLASS_PATH_VARIABLE) {
        return Ok(given);
    }
    if !Path::new(DEBIAN_JARS[0]).exists() {
        bail!(
            "{} is missing: install Debian's libzookeeper-java or set {CLASS_PATH_VARIABLE}",
            DEBIAN_JARS[0]
        );
    }
    Ok(DEBIAN_JARS.join(":").into())
}

/// Runs the script.
pub(crate) fn run(class_path: &OsString, address: &str, verbose: bool) -> anyhow::Result<Outcome> {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let root = format!("/zkcli-{started}");
    let text = std::fs::read_to_string(project_root().join("interop/clients/zkcli_smoke.txt"))?;
    let exchanges = parse(&text, &root)?;
    let mut session = Session::open(class_path, address)?;
    let mut outcome = Outcome::default();
    // The connection's own event and zkCli's greeting come before the first mark.
    session.output_of("sync /")?;
    for exchange in &exchanges {
        match session.check(exchange) {
            Ok(()) => {
                outcome.passed += 1;
                if verbose {
                    println!("  ok {}", exchange.command);
                }
            }
            Err(error) => {
                let place = format!("zkcli_smoke.txt:{}: {}", exchange.line, exchange.command);
                outcome.failures.push(format!("{place}: {error:#}"));
                break;
            }
        }
    }
    session.close();
    Ok(outcome)
}

struct Session {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    marks: usize,
    /// Watch events that no expectation has taken yet.
    events: Vec<String>,
}

impl Session {
    fn open(class_path: &OsString, address: &str) -> anyhow::Result<Session> {
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-cp"]).arg(class_path).arg("org.apache.zookeeper.ZooKeeperMain");
        command.args(["-server", address]);
        // One pipe for both streams: results and errors then keep their order.
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().context("cannot start java")?;
        // The command holds the writing ends; as long as it lives the pipe would never end.
        drop(command);
        let input = child.stdin.take().context("zkCli has no standard input")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Session { child, input, lines, marks: 0, events: Vec::new() })
    }

    fn check(&mut self, exchange: &Exchange) -> anyhow::Result<()> {
        let output = self.output_of(&exchange.command)?;
        if let Err(difference) = compare(&exchange.output, &output) {
            bail!("{difference}");
        }
        exchange.events.iter().try_for_each(|event| self.take_event(event))
    }

    /// Sends a command and gives its output without watch events and blank lines.
    fn output_of(&mut self, command: &str) -> anyhow::Result<Vec<String>> {
        self.marks += 1;
        let mark = format!("/no-such-node-{}", self.marks);
        writeln!(self.input, "{command}\nget {mark}").context("zkCli ended")?;
        let end_line = format!("Node does not exist: {mark}");
        let end = Instant::now() + PATIENCE;
        let mut output = Vec::new();
        loop {
            let line = self.next_line(end)?;
            if line == end_line {
                return Ok(output);
            }
            self.sort(line, &mut output);
        }
    }

    /// Waits for a watch event.
    fn take_event(&mut self, pattern: &str) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(index) = self.events.iter().position(|event| matches(pattern, event)) {
                self.events.remove(index);
                return Ok(());
            }
            let line = self.next_line(end).with_context(|| {
                format!("the event {pattern:?} did not come; left over: {:?}", self.events)
            })?;
            let mut output = Vec::new();
            self.sort(line, &mut output);
            if let Some(line) = output.first() {
                bail!("expected the event {pattern:?}, got {line:?}");
            }
        }
    }

    fn next_line(&self, end: Instant) -> anyhow::Result<String> {
        let left = end.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left).context("zkCli ended or says nothing more")
    }

    fn sort(&mut self, line: String, output: &mut Vec<String>) {
        if line.starts_with("WatchedEvent ") {
            self.events.push(line);
        } else if !line.is_empty() && line != "WATCHER::" {
            output.push(line);
        }
    }

    fn close(mut self) {
        let _ = writeln!(self.input, "quit");
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
