//! `zebu start`, `stop` and `restart` beside other processes: only the server of the configuration is found,
//! signalled and named in the pid file.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use zebu_testing::{four_letter, port};

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A configuration whose server is stopped at the end.
struct Home {
    directory: TempDir,
    port: u16,
}

impl Home {
    fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        let port = port::free_address().unwrap().port();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let text = format!("dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n", data.display());
        std::fs::write(directory.path().join("zoo.cfg"), text).unwrap();
        Home { directory, port }
    }

    fn command(&self, binary: &Path, word: &str) -> Command {
        let mut command = Command::new(binary);
        command.arg(word).arg("zoo.cfg").current_dir(self.directory.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Standard output and status.
    fn zebu(&self, word: &str) -> (String, Option<i32>) {
        heard(&self.command(Path::new(ZEBU), word).output().unwrap())
    }

    fn pid_file(&self) -> PathBuf {
        self.directory.path().join("data/zookeeper_server.pid")
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(std::fs::read_to_string(self.pid_file()).ok()?.parse().ok()?)
    }

    fn await_answer(&self) {
        let deadline = Instant::now() + TIME_LIMIT;
        let address = ([127, 0, 0, 1], self.port).into();
        while four_letter::ask(address, "srvr", Duration::from_millis(500)).is_err() {
            assert!(Instant::now() < deadline, "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process that the lock file names.
    fn lock_holder(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.directory.path().join("data/zebu.lock")).ok()?;
        Pid::from_raw(text.rsplit(' ').next()?.parse().ok()?)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = self.lock_holder().filter(|pid| command_line(*pid).contains("serve")) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn heard(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

fn command_line(pid: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Another process copies. If this one had the copy open for writing, a program that a parallel test starts
/// would inherit it, and the copy could not be executed ("text file busy").
fn copy_program(from: &str, to: &Path) {
    let status = Command::new("cp").arg("--").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "{from} cannot be copied to {}", to.display());
}

/// A process that is no Zebu server, under a given name.
struct OtherProcess(Child, #[expect(dead_code, reason = "keeps the program")] TempDir);

impl OtherProcess {
    fn named(name: &str, further: &[&str]) -> OtherProcess {
        // A shell that waits, under another name: it shows its words as its command line.
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join(name);
        copy_program("/bin/sh", &binary);
        let mut command = Command::new(binary);
        command.arg0(name).args(["-c", "read line", name]).args(further).stdin(Stdio::piped());
        OtherProcess(command.spawn().unwrap(), directory)
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_is_found_again_after_its_binary_got_another_name() {
    let home = Home::new();
    let (old, new) = (home.directory.path().join("zebu-0.1.0"), home.directory.path().join("zebu-0.2.0"));
    for binary in [&old, &new] {
        copy_program(ZEBU, binary);
    }
    let (text, status) = heard(&home.command(&old, "start").output().unwrap());
    assert_eq!((text.as_str(), status), ("Starting zookeeper ... STARTED\n", Some(0)));
    let first = home.pid().unwrap();
    let (text, status) = heard(&home.command(&new, "restart").output().unwrap());
    let expected = "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n";
    assert_eq!((text.as_str(), status), (expected, Some(0)));
    let second = home.pid().unwrap();
    assert!(second != first && command_line(second).contains("zebu-0.2.0"), "{}", command_line(second));
    let (text, status) = home.zebu("stop");
    assert_eq!((text.as_str(), status), ("Stopping zookeeper ... STOPPED\n", Some(0)));
    assert!(!home.pid_file().exists());
}

#[test]
fn a_process_that_is_no_server_is_never_signalled() {
    let home = Home::new();
    for name in ["java", "zebu", "kafka"] {
        let mut other = OtherProcess::named(name, &["-Xmx1g", "kafka.Kafka"]);
        std::fs::write(home.pid_file(), other.0.id().to_string()).unwrap();
        let (text, status) = home.zebu("stop");
        assert!(text.starts_with("Stopping zookeeper ... no zookeeper to stop (process "), "{text}");
        assert!(text.contains(" is not a running server but "), "{text}");
        assert_eq!(status, Some(0), "{text}");
        assert!(other.is_alive());
        // The file names a running process; another program may use it.
        assert!(home.pid_file().exists());
    }
    let mut other = OtherProcess::named("java", &[]);
    std::fs::write(home.pid_file(), other.0.id().to_string()).unwrap();
    let (text, status) = home.zebu("restart");
    assert_eq!((text.contains("STARTED"), status), (true, Some(0)), "{text}");
    assert!(other.is_alive());
    assert_eq!(home.pid(), home.lock_holder());
    assert_eq!(home.zebu("stop").1, Some(0));
}

#[test]
fn an_apache_server_is_stopped_only_if_it_names_this_configuration() {
    const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    let home = Home::new();
    let mut other = OtherProcess::named("java", &[MAIN, "/etc/other/zoo.cfg"]);
    std::fs::write(home.pid_file(), other.0.id().to_string()).unwrap();
    for word in ["stop", "start"] {
        let (text, status) = home.zebu(word);
        assert!(
            text.contains("cannot be identified: it is an Apache ZooKeeper that names another"),
            "{text}"
        );
        assert_eq!(status, Some(1), "{text}");
        assert!(other.is_alive() && home.pid_file().exists());
    }
    let config = home.directory.path().join("zoo.cfg").display().to_string();
    let mut own = OtherProcess::named("java", &[MAIN, &config]);
    std::fs::write(home.pid_file(), own.0.id().to_string()).unwrap();
    let (text, status) = home.zebu("start");
    let expected = format!("Starting zookeeper ... already running as process {}.\n", own.0.id());
    assert_eq!((text, status), (expected, Some(1)));
    // The process must be reaped, or it stays as a zombie; `stop` takes that for an end.
    let (text, status) = home.zebu("stop");
    assert_eq!((text.as_str(), status), ("Stopping zookeeper ... STOPPED\n", Some(0)));
    assert!(!own.is_alive() && !home.pid_file().exists());
}

#[test]
fn starts_at_the_same_time_leave_one_server_and_its_pid_file() {
    for _ in 0..3 {
        let home = Home::new();
        let starts: Vec<Child> = (0..4)
            .map(|_| {
                let mut command = home.command(Path::new(ZEBU), "start");
                command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        let heard: Vec<_> =
            starts.into_iter().map(|start| heard(&start.wait_with_output().unwrap())).collect();
        let started = heard.iter().filter(|(_, status)| *status == Some(0)).count();
        assert_eq!(started, 1, "{heard:?}");
        assert!(home.pid().is_some());
        assert_eq!(home.pid(), home.lock_holder(), "{heard:?}");
        let (text, status) = home.zebu("stop");
        assert_eq!((text.as_str(), status), ("Stopping zookeeper ... STOPPED\n", Some(0)));
    }
}

#[test]
fn a_server_without_a_pid_file_is_found_by_its_lock() {
    let home = Home::new();
    assert_eq!(home.zebu("start").1, Some(0));
    let server = home.pid();
    for content in [None, Some(""), Some("nonsense")] {
        std::fs::remove_file(home.pid_file()).unwrap();
        if let Some(content) = content {
            std::fs::write(home.pid_file(), content).unwrap();
        }
        let (text, status) = home.zebu("start");
        assert_eq!((text.contains("already running as process"), status), (true, Some(1)), "{text}");
        std::fs::write(home.pid_file(), "").unwrap();
    }
    let (text, status) = home.zebu("stop");
    assert_eq!((text.as_str(), status), ("Stopping zookeeper ... STOPPED\n", Some(0)));
    assert_eq!(server, home.lock_holder());
}

#[test]
fn a_start_that_fails_leaves_the_pid_file_of_others_alone() {
    let home = Home::new();
    let mut other = OtherProcess::named("java", &[]);
    std::fs::write(home.pid_file(), other.0.id().to_string()).unwrap();
    let held = std::net::TcpListener::bind(("127.0.0.1", home.port)).unwrap();
    let (text, status) = home.zebu("start");
    assert!(text.starts_with("Starting zookeeper ... FAILED TO START\nsee "), "{text}");
    assert_eq!(status, Some(1));
    assert_eq!(home.pid(), Some(Pid::from_child(&other.0)));
    assert!(other.is_alive());
    drop(held);
}

#[test]
fn a_hangup_does_not_end_a_server_in_the_background() {
    let home = Home::new();
    assert_eq!(home.zebu("start").1, Some(0));
    home.await_answer();
    let pid = home.pid().unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    // A signal that ends it would have done so before the next answer.
    for _ in 0..3 {
        home.await_answer();
    }
    let (text, status) = home.zebu("stop");
    assert_eq!((text.as_str(), status), ("Stopping zookeeper ... STOPPED\n", Some(0)));
}
