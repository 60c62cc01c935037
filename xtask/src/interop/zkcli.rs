//! The zkCli suite: feeds Apache's command-line client one command at a time and compares what it prints with
//! the script, and with what it prints when its server is Apache's. After each command a read of a missing
//! node is sent; the answer to it marks where the output ends.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};

use super::pattern::matches;
use super::report::{Report, Verdict};
use super::script::{Exchange, Output, compare, parse};
use super::server::{Peer, RunningServer, Target};
use super::{Shown, apache};
use crate::step::project_root;

const SCRIPT: &str = "interop/clients/zkcli_smoke.txt";

/// The Java machine starts slowly on a busy machine; a hanging client must still come to an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the script against the target and, unless that is Apache itself, against Apache's server too. A
/// command passes when it prints what the script says and what it prints with Apache's server.
pub(crate) fn run(target: &Target, shown: Shown) -> anyhow::Result<Report> {
    let class_path = apache::class_path()?;
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let root = format!("/zkcli-{started}");
    let script = Script::read(&root)?;
    let reference = match target {
        Target::Started(Peer::Apache) => None,
        Target::Started(Peer::Zebu) | Target::Given(_) => {
            let server = RunningServer::start(&Target::Started(Peer::Apache))?;
            Some(script.play(&class_path, &server).context("with Apache's own server")?)
        }
    };
    let server = RunningServer::start(target)?;
    let played = script.play(&class_path, &server);
    let report = played.map(|played| script.judge(&played, reference.as_ref(), shown));
    server.finish(report)
}

/// The commands and the path below which they work.
struct Script {
    root: String,
    exchanges: Vec<Exchange>,
}

/// What a session printed.
struct Played {
    /// What zkCli calls itself.
    version: String,
    /// Per command: its output, and what was wrong with it by the script's own words.
    commands: Vec<(Vec<String>, Result<(), String>)>,
    /// Watch events that the script does not speak of.
    left_over: Vec<String>,
}

impl Script {
    fn read(root: &str) -> anyhow::Result<Script> {
        let text =
            std::fs::read_to_string(project_root().join(SCRIPT)).with_context(|| format!("read {SCRIPT}"))?;
        Ok(Script { root: root.to_owned(), exchanges: parse(&text, root)? })
    }

    fn play(&self, class_path: &OsString, server: &RunningServer) -> anyhow::Result<Played> {
        let mut session = Session::open(class_path, server.address())?;
        // The connection's own event and zkCli's greeting come before the first mark.
        session.output_of("sync /")?;
        let version = session.output_of("version")?.pop().unwrap_or_default();
        // "ZooKeeper CLI version: 3.8.0-REVISION, built on DATE"
        let number = version.rsplit(": ").next().and_then(|text| text.split(['-', ',']).next());
        let version = format!("zkCli {}", number.unwrap_or("of unknown version"));
        let mut commands = Vec::new();
        for exchange in &self.exchanges {
            let output = session
                .output_of(&exchange.command)
                .with_context(|| format!("{SCRIPT}:{}: {}", exchange.line, exchange.command))?;
            let wrong = session.check(exchange, &output).map_err(|error| format!("{error:#}"));
            let mut output: Vec<String> = output.iter().map(|line| masked(line, server.address())).collect();
            if exchange.command == "whoami" {
                // Apache keeps the credentials of a connection in a hash set.
                output.sort();
            }
            commands.push((output, wrong));
        }
        let mut left_over = session.close();
        left_over.iter_mut().for_each(|event| *event = masked(event, server.address()));
        Ok(Played { version, commands, left_over })
    }

    fn judge(&self, played: &Played, reference: Option<&Played>, shown: Shown) -> Report {
        let mut report = Report { version: Some(played.version.clone()), ..Report::default() };
        let mut add = |name: String, result: Result<(), String>| {
            if shown == Shown::Everything {
                println!("  {name}: {result:?}");
            }
            report.add(name, result.map_or_else(Verdict::Failed, |()| Verdict::Passed));
        };
        for (index, (exchange, (output, by_script))) in
            self.exchanges.iter().zip(&played.commands).enumerate()
        {
            let with_apache = reference.map_or(Ok(()), |reference| {
                let (expected, _) = &reference.commands[index];
                same(expected, output)
            });
            let place = format!(" ({SCRIPT}:{})", exchange.line);
            let result = by_script.clone().and(with_apache).map_err(|text| text + &place);
            add(exchange.command.replace(&self.root, "$ROOT"), result);
        }
        if let Some(reference) = reference {
            add("unannounced watch events".to_owned(), same(&reference.left_over, &played.left_over));
        }
        report
    }
}

/// Whether Apache's server and the one under test made zkCli print the same.
fn same(apache: &[String], other: &[String]) -> Result<(), String> {
    for index in 0..apache.len().max(other.len()) {
        let (expected, got) = (apache.get(index), other.get(index));
        if expected != got {
            let text =
                |line: Option<&String>| line.map_or("nothing more".to_owned(), |line| format!("{line:?}"));
            return Err(format!("with Apache's server {}, here {}", text(expected), text(got)));
        }
    }
    Ok(())
}

/// A line without what differs between two runs of one server: times, zxids, session ids, the address, and
/// the order of lists that come from a hash table.
fn masked(line: &str, address: &str) -> String {
    let line = line.replace(address, "SERVER");
    let covered = ["cZxid = 0x", "mZxid = 0x", "pZxid = 0x", "ctime = ", "mtime = ", "ephemeralOwner = 0x"];
    for start in covered {
        if let Some(value) = line.strip_prefix(start) {
            // Whether there is an owner is no accident.
            return if value == "0" { line } else { format!("{start}…") };
        }
    }
    if let Some((before, _)) = line.split_once(" zxid: ") {
        return format!("{before} zxid: …");
    }
    if let Some(list) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let mut items: Vec<&str> = list.split(", ").collect();
        items.sort_unstable();
        return format!("[{}]", items.join(", "));
    }
    line
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
        command
            .args(["-Xmx128m", "-Dfile.encoding=UTF-8", "-cp"])
            .arg(class_path)
            .arg("org.apache.zookeeper.ZooKeeperMain");
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

    fn check(&mut self, exchange: &Exchange, output: &[String]) -> anyhow::Result<()> {
        if let Output::Lines(expected) = &exchange.output
            && let Err(difference) = compare(expected, output)
        {
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

    /// Ends zkCli and gives the watch events that nobody took.
    fn close(mut self) -> Vec<String> {
        let _ = writeln!(self.input, "quit");
        let end = Instant::now() + PATIENCE;
        // It ends with the pipe: by then everything is read.
        while let Ok(line) = self.next_line(end) {
            let mut output = Vec::new();
            self.sort(line, &mut output);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What the connection itself says at its end is a matter of timing.
        self.events.retain(|event| !event.contains(" type:None "));
        self.events.sort();
        std::mem::take(&mut self.events)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_two_runs_is_covered() {
        let address = "127.0.0.1:2181";
        assert_eq!(masked("cZxid = 0x1f", address), "cZxid = 0x…");
        assert_eq!(masked("ephemeralOwner = 0x0", address), "ephemeralOwner = 0x0");
        assert_eq!(masked("ephemeralOwner = 0x10000a", address), "ephemeralOwner = 0x…");
        assert_eq!(masked("dataVersion = 3", address), "dataVersion = 3");
        assert_eq!(masked("[b, a]", address), masked("[a, b]", address));
        assert_eq!(masked("closed 127.0.0.1:2181", address), "closed SERVER");
    }

    #[test]
    fn a_difference_names_both_lines() {
        let lines = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(same(&lines("a b"), &lines("a b")), Ok(()));
        let error = same(&lines("a b"), &lines("a c")).unwrap_err();
        assert_eq!(error, "with Apache's server \"b\", here \"c\"");
        let error = same(&lines("a"), &lines("a c")).unwrap_err();
        assert_eq!(error, "with Apache's server nothing more, here \"c\"");
    }
}
