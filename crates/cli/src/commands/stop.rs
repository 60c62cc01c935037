//! `zebu stop`: ends a server that was started in the background.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Pid;

use crate::config_arguments::environment;
use crate::config_file::{Peek, locate};
use crate::console::{begin, complain, say};
use crate::pid_file::{PidFile, is_alive, is_running_server, terminate};

/// A server needs longer than this only if its disk hangs.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Stop a server that was started in the background
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  zebu stop
  zebu stop /etc/zebu/zoo.cfg

Waits until the process has ended. Exit status: 0 it does not run any more, 1 it still does.")]
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
        complain(format!("Using config: {}", config.display()));
        let data_dir = match Peek::read(&config).map(|peek| peek.data_dir()) {
            Ok(Some(data_dir)) => data_dir,
            Ok(None) => {
                complain(format!("{}: dataDir is not set", config.display()));
                return ExitCode::FAILURE;
            }
            Err(why) => {
                complain(why);
                return ExitCode::FAILURE;
            }
        };
        let pid_file = PidFile::of(&data_dir, &environment);
        begin("Stopping zookeeper ... ");
        stop(&pid_file)
    }
}

fn stop(pid_file: &PidFile) -> ExitCode {
    let Some(pid) = pid_file.read() else {
        say(format!("no zookeeper to stop (could not find file {})", pid_file.path.display()));
        return ExitCode::SUCCESS;
    };
    if !is_running_server(pid) {
        pid_file.remove();
        say(format!("no zookeeper to stop (process {} is not a running server)", pid.as_raw_nonzero()));
        return ExitCode::SUCCESS;
    }
    if let Err(error) = terminate(pid) {
        say(format!("process {} cannot be stopped: {error}", pid.as_raw_nonzero()));
        return ExitCode::FAILURE;
    }
    if !ends(pid) {
        say(format!("process {} still runs", pid.as_raw_nonzero()));
        return ExitCode::FAILURE;
    }
    pid_file.remove();
    say("STOPPED");
    ExitCode::SUCCESS
}

fn ends(pid: Pid) -> bool {
    let deadline = Instant::now() + STOP_LIMIT;
    while is_alive(pid) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL);
    }
    true
}
