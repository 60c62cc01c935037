//! `zebu start`: the server in the background, with the pid file and the words of zkServer.sh.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Pid;
use zebu_server::config::{ConfigInputs, Environment, LocalSystem, load};

use super::serve::serve;
use crate::config_arguments::environment;
use crate::config_file::locate;
use crate::console::{begin, print_error, print_line};
use crate::logging::LogArguments;
use crate::pid_file::PidFile;
use crate::server_process::{Identity, LockHolder, ServerFiles};

/// A server that lives this long has started.
const START_GRACE: Duration = Duration::from_secs(1);
/// A server takes the lock of its data directory before it reads any file there.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// Lets the server ignore SIGHUP, as nohup does, until it handles this signal. A process inherits the
/// setting and cannot set it for its child.
const IGNORE_HANGUP: &str = "trap '' HUP; exec \"$@\"";
const POLL: Duration = Duration::from_millis(20);

/// Start a server in the background
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  zebu start                          conf/zoo.cfg (or ZOOCFGDIR, ZOOCFG)
  zebu start /etc/zebu/zoo.cfg
  zebu start -Dzookeeper.snapCount=50000 zoo.cfg
  zebu start --foreground             find the configuration as start does, then stay

The process id is written to zookeeper_server.pid in dataDir (or ZOOPIDFILE) once the server has locked dataDir, the \
log goes to zookeeper-$USER-server-$HOSTNAME.out in ZOO_LOG_DIR (or ./logs). The server outlives the terminal; \
SIGHUP reads its log filter again.

Exit status: 0 started, 1 not started.")]
pub(crate) struct Start {
    /// A Java property, glued as for java
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) properties: Vec<String>,

    /// zoo.cfg; a bare name is looked for in the configuration directory
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<String>,

    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,

    /// Print the command that would run, and nothing else
    #[arg(long)]
    pub(crate) print_command: bool,
}

impl Start {
    /// Starts.
    pub(crate) fn run(self) -> ExitCode {
        let environment = environment();
        let binary = std::env::current_exe().ok();
        let config = locate(self.config.as_deref(), &environment, binary.as_deref());
        print_error(format!("Using config: {}", config.display()));
        let binary = binary.unwrap_or_else(|| PathBuf::from("zebu"));
        let words = self.words(&config);
        if self.print_command {
            let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            print_line(format!("\"{}\" {}", binary.display(), quoted.join(" ")));
            return ExitCode::SUCCESS;
        }
        let inputs = ConfigInputs {
            arguments: vec![config.to_string_lossy().into_owned()],
            properties: self.properties,
            environment,
        };
        if self.foreground {
            return serve(&inputs, &LogArguments::default());
        }
        begin("Starting zookeeper ... ");
        match start(&inputs, &binary, &words) {
            Ok(()) => {
                print_line("STARTED");
                ExitCode::SUCCESS
            }
            Err(why) => {
                print_line(why);
                ExitCode::FAILURE
            }
        }
    }

    fn words(&self, config: &Path) -> Vec<String> {
        let mut words = vec!["serve".to_owned()];
        words.extend(self.properties.iter().map(|property| format!("-D{property}")));
        words.push(config.to_string_lossy().into_owned());
        words
    }
}

fn start(inputs: &ConfigInputs, binary: &Path, words: &[String]) -> Result<(), String> {
    let loaded = load(inputs, &LocalSystem);
    for finding in loaded.diagnostics.warnings.iter().chain(&loaded.diagnostics.errors) {
        print_error(finding.to_string());
    }
    let config = loaded.config.ok_or("FAILED TO START")?;
    let pid_file = PidFile::of(&config.storage.data_dir, &inputs.environment);
    let files = ServerFiles {
        config: inputs.arguments.iter().collect(),
        data_dir: config.storage.data_dir.clone(),
        data_log_dir: Some(config.storage.data_log_dir.clone()),
    };
    refuse_if_running(&files, &pid_file)?;
    let snapshots = config.storage.snapshot_dir();
    if !config.storage.create_directories && !snapshots.is_dir() {
        return Err(format!(
            "ZooKeeper data directory is missing at {} fix the path or run initialize",
            config.storage.data_dir.display()
        ));
    }
    if let Some(directory) = pid_file.path.parent() {
        let _ = std::fs::create_dir_all(directory);
    }
    let (log, log_path) = open_log(&inputs.environment)
        .map_err(|(path, error)| format!("FAILED TO START\n{} cannot be written: {error}", path.display()))?;
    let mut child = spawn(binary, words, &log).map_err(|error| format!("FAILED TO START\n{error}"))?;
    let pid = Pid::from_child(&child);
    let failed = || format!("FAILED TO START\nsee {}", log_path.display());
    if !holds_lock(&mut child, &files) {
        end(&mut child);
        return Err(failed());
    }
    // Only one process has the lock, so only one writes the file.
    if let Err(error) = pid_file.write(pid) {
        end(&mut child);
        return Err(format!("FAILED TO WRITE PID\n{}: {error}", pid_file.path.display()));
    }
    if survives(&mut child) {
        return Ok(());
    }
    pid_file.remove_of(pid);
    Err(failed())
}

/// An error if a server of this configuration runs, or may run.
fn refuse_if_running(files: &ServerFiles, pid_file: &PidFile) -> Result<(), String> {
    let running = |pid: Pid| Err(format!("already running as process {}.", pid.as_raw_nonzero()));
    match files.lock_holder() {
        LockHolder::Process(pid) => return running(pid),
        LockHolder::Unnamed => {
            let directory = files.data_dir.display();
            return Err(format!(
                "FAILED TO START\n{directory} is locked by a server that is no process of this system"
            ));
        }
        LockHolder::Nobody => {}
    }
    let Some(pid) = pid_file.read() else { return Ok(()) };
    match files.identify(pid) {
        Identity::Server => running(pid),
        identity @ Identity::Unknown(_) => Err(format!(
            "FAILED TO START\nprocess {} of {} {identity}; stop it, or remove the file if it is not the server",
            pid.as_raw_nonzero(),
            pid_file.path.display()
        )),
        Identity::Ended | Identity::Stranger(_) => Ok(()),
    }
}

fn spawn(binary: &Path, words: &[String], log: &File) -> io::Result<Child> {
    let with_streams = |mut command: Command| {
        command.args(words).arg("--detached").stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log.try_clone()?).spawn()
    };
    let mut through_shell = Command::new("/bin/sh");
    through_shell.args(["-c", IGNORE_HANGUP, "zebu"]).arg(binary);
    match with_streams(through_shell) {
        // A machine without a shell: the server still leaves the session of the terminal.
        Err(error) if error.kind() == io::ErrorKind::NotFound => with_streams(Command::new(binary)),
        spawned => spawned,
    }
}

/// Waits until the child has locked the data directory; false if it ends before or takes too long.
fn holds_lock(child: &mut Child, files: &ServerFiles) -> bool {
    let pid = Pid::from_child(child);
    let deadline = Instant::now() + LOCK_LIMIT;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        // The name comes first: asking for the lock of a server that starts would hold it up.
        if files.named_holder() == Some(pid) && files.lock_holder() == LockHolder::Process(pid) {
            return true;
        }
        sleep(POLL);
    }
    false
}

/// Ends a child that did not come to serve.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn survives(child: &mut Child) -> bool {
    let deadline = Instant::now() + START_GRACE;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return false;
        }
        sleep(POLL);
    }
    true
}

fn open_log(environment: &Environment) -> Result<(File, PathBuf), (PathBuf, io::Error)> {
    let path = log_path(environment, &host_name());
    let open = || {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        OpenOptions::new().create(true).append(true).open(&path)
    };
    match open() {
        Ok(file) => Ok((file, path)),
        Err(error) => Err((path, error)),
    }
}

fn log_path(environment: &Environment, host: &str) -> PathBuf {
    let directory = environment.get("ZOO_LOG_DIR").filter(|path| !path.is_empty()).unwrap_or("logs");
    let user = environment.get("USER").unwrap_or_default();
    Path::new(directory).join(format!("zookeeper-{user}-server-{host}.out"))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_paths() {
        let variables = Environment(
            [("ZOO_LOG_DIR".to_owned(), "/var/log/zk".to_owned()), ("USER".to_owned(), "zk".to_owned())]
                .into(),
        );
        assert_eq!(log_path(&variables, "h1"), Path::new("/var/log/zk/zookeeper-zk-server-h1.out"));
        assert_eq!(log_path(&Environment::default(), "h1"), Path::new("logs/zookeeper--server-h1.out"));
    }
}
