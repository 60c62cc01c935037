//! `zebu stop`: ends the server of a configuration. It signals a process only if that process is the server.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Pid;
use zebu_server::config::DRAIN_TIME_DEFAULT;

use crate::config_arguments::environment;
use crate::config_file::{Peek, locate};
use crate::console::{begin, print_error, print_line};
use crate::pid_file::PidFile;
use crate::server_process::{Identity, LockHolder, ServerFiles, is_alive, terminate};

/// After its drain, a server needs longer than this only if its disk hangs.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Stop the server of a configuration
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  zebu stop
  zebu stop /etc/zebu/zoo.cfg

The process that holds the lock of dataDir is stopped, or the process of the pid file if its command line shows that \
it is the server of this configuration (Zebu or Apache ZooKeeper). No other process is ever signalled.
A member of an ensemble first sends its clients to the other servers (zebu.drainTime). \
Waits until the process has ended. Exit status: 0 no server runs any more, 1 one does or may.")]
pub(crate) struct Stop {
    /// zoo.cfg; a bare name is looked for in the configuration directory
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<String>,
}

impl Stop {
    /// Stops.
    pub(crate) fn run(self) -> ExitCode {
        let environment = environment();
        let config = locate(self.config.as_deref(), &environment, std::env::current_exe().ok().as_deref());
        print_error(format!("Using config: {}", config.display()));
        let peek = match Peek::read(&config) {
            Ok(peek) => peek,
            Err(why) => {
                print_error(why);
                return ExitCode::FAILURE;
            }
        };
        let Some(data_dir) = peek.data_dir() else {
            print_error(format!("{}: dataDir is not set", config.display()));
            return ExitCode::FAILURE;
        };
        let pid_file = PidFile::of(&data_dir, &environment);
        let files = ServerFiles { config, data_dir, data_log_dir: peek.data_log_dir() };
        begin("Stopping zookeeper ... ");
        match find(&files, &pid_file) {
            Target::Server(pid) => stop(pid, &pid_file, STOP_LIMIT + drain_time(&peek)),
            Target::Nothing(why) => {
                print_line(format!("no zookeeper to stop ({why})"));
                ExitCode::SUCCESS
            }
            Target::Unclear(why) => {
                print_line(format!("FAILED\n{why}"));
                ExitCode::FAILURE
            }
        }
    }
}

/// What there is to stop.
enum Target {
    Server(Pid),
    /// No server runs; why that is certain.
    Nothing(String),
    /// A server may run, but no process can be stopped for it.
    Unclear(String),
}

/// Looks at the pid file and at the lock of the data directory.
fn find(files: &ServerFiles, pid_file: &PidFile) -> Target {
    let path = pid_file.path.display();
    let named = pid_file.read();
    let identity = named.map(|pid| (pid, files.identify(pid)));
    if let Some((pid, Identity::Server)) = identity {
        return Target::Server(pid);
    }
    match files.lock_holder() {
        LockHolder::Process(pid) => match files.identify(pid) {
            Identity::Server => return Target::Server(pid),
            other => {
                return Target::Unclear(format!("process {} {other}; stop it by hand", pid.as_raw_nonzero()));
            }
        },
        LockHolder::Unnamed => {
            return Target::Unclear(format!(
                "{} is locked by a server that is no process of this system, perhaps of another container; stop it \
                 there",
                files.data_dir.display()
            ));
        }
        LockHolder::Nobody => {}
    }
    match identity {
        None => Target::Nothing(format!("could not find file {path}")),
        Some((pid, Identity::Ended)) => {
            pid_file.remove_of(pid);
            Target::Nothing(format!("process {} has ended", pid.as_raw_nonzero()))
        }
        Some((pid, identity @ (Identity::Server | Identity::Stranger(_)))) => {
            Target::Nothing(format!("process {} of {path} {identity}", pid.as_raw_nonzero()))
        }
        Some((pid, identity @ Identity::Unknown(_))) => Target::Unclear(format!(
            "process {} of {path} {identity}; stop it by hand, or remove the file if it is not the server",
            pid.as_raw_nonzero()
        )),
    }
}

/// The time in which the server sends its clients away, or the default for a value that it refuses.
fn drain_time(peek: &Peek) -> Duration {
    let set = peek.get("zebu.drainTime").and_then(|value| value.trim().parse().ok());
    set.map_or(DRAIN_TIME_DEFAULT, Duration::from_millis)
}

fn stop(pid: Pid, pid_file: &PidFile, limit: Duration) -> ExitCode {
    if let Err(error) = terminate(pid) {
        print_line(format!("process {} cannot be stopped: {error}", pid.as_raw_nonzero()));
        return ExitCode::FAILURE;
    }
    if !ends(pid, limit) {
        print_line(format!("process {} still runs", pid.as_raw_nonzero()));
        return ExitCode::FAILURE;
    }
    pid_file.remove_of(pid);
    print_line("STOPPED");
    ExitCode::SUCCESS
}

fn ends(pid: Pid, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while is_alive(pid) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL);
    }
    true
}
