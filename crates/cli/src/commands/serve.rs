//! `zebu serve`: the server in the foreground.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use zebu_admin::AdminServer;
use zebu_server::ServeError;
use zebu_server::config::{ConfigInputs, LocalSystem, load};

use crate::config_arguments::ConfigArguments;
use crate::console::print_error;
use crate::kerberos_environment;
use crate::logging::{self, LogArguments};
use crate::systemd::SystemdNotifier;

/// The status for bad arguments or a bad configuration.
pub(crate) const BAD_CONFIG: u8 = 2;

/// The status for an admin port or exporter port that cannot be opened, as ZooKeeper has it.
const ADMIN_FAILED: u8 = 4;

/// Serve in the foreground until SIGTERM or SIGINT
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu serve
  zebu serve conf/zoo.cfg
  zebu serve -Djute.maxbuffer=4194304 -Dzookeeper.4lw.commands.whitelist='*' conf/zoo.cfg
  zebu serve 2181 /var/lib/zebu
  ZEBU_LOG=debug zebu serve --log-format json conf/zoo.cfg

SIGHUP reads zebu.log.filter of zoo.cfg again, for example zebu.log.filter=debug. With NOTIFY_SOCKET, as systemd sets it, \
the server reports READY, STATUS, RELOADING, STOPPING and WATCHDOG.

-D words are also taken from SERVER_JVMFLAGS and JVMFLAGS, as ZooKeeper's scripts do.

Exit status: 0 stopped, 2 bad arguments or configuration, 3 data directory not usable, 4 admin or exporter port not \
usable, 1 anything else.")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,

    #[command(flatten)]
    pub(crate) log: LogArguments,

    /// Leave the terminal's session; used by `zebu start`
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

impl Serve {
    /// Serves.
    pub(crate) fn run(self) -> ExitCode {
        if self.detached {
            // Fails only for a process that leads a group already, which is detached enough.
            let _ = rustix::process::setsid();
        }
        serve(&self.config.inputs(), &self.log)
    }
}

/// Reads the configuration, reports what was noticed and serves.
pub(crate) fn serve(inputs: &ConfigInputs, log: &LogArguments) -> ExitCode {
    let log = match logging::start(log, inputs) {
        Ok(log) => log,
        Err(why) => {
            print_error(why);
            return ExitCode::from(BAD_CONFIG);
        }
    };
    let loaded = load(inputs, &LocalSystem);
    if let Some(files) = loaded.config.as_ref().and_then(|config| config.security.kerberos.as_ref())
        && let Err(error) = kerberos_environment::enter(files)
    {
        print_error(format!("cannot execute zebu anew with the variables of Kerberos: {error}"));
        return ExitCode::FAILURE;
    }
    for note in &loaded.diagnostics.notes {
        tracing::info!("{note}");
    }
    for warning in &loaded.diagnostics.warnings {
        tracing::warn!("{warning}");
    }
    for error in &loaded.diagnostics.errors {
        tracing::error!("{error}");
    }
    let Some(config) = loaded.config else {
        print_error("Invalid config, exiting abnormally");
        return ExitCode::from(BAD_CONFIG);
    };
    zebu_server::raise_open_file_limit();
    let admin = match AdminServer::start(&config) {
        Ok(admin) => admin,
        Err(error) => {
            tracing::error!("{error}");
            print_error("Unable to start AdminServer, exiting abnormally");
            return ExitCode::from(ADMIN_FAILED);
        }
    };
    let attach = |views| {
        if let Some(admin) = &admin {
            admin.attach(views);
        }
    };
    let notifier = Arc::new(SystemdNotifier::start(log, &inputs.environment));
    match zebu_server::run(config, attach, notifier) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            if matches!(error, ServeError::DataDirectory { .. }) {
                print_error("Unable to access datadir, exiting abnormally");
            }
            ExitCode::from(error.exit_code())
        }
    }
}
