//! `zebu serve`: the server in the foreground.

use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use zebu_server::config::{ConfigInputs, LocalSystem, load};
use zebu_server::{ServeError, ServerReady};

use crate::config_arguments::ConfigArguments;
use crate::console::print_error;
use crate::logging::{self, LogFormat};

/// The status for bad arguments or a bad configuration.
pub(crate) const BAD_CONFIG: u8 = 2;

/// Serve in the foreground until SIGTERM or SIGINT
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu serve
  zebu serve conf/zoo.cfg
  zebu serve -Djute.maxbuffer=4194304 -Dzookeeper.4lw.commands.whitelist='*' conf/zoo.cfg
  zebu serve 2181 /var/lib/zebu
  ZEBU_LOG=debug zebu serve --log-format json conf/zoo.cfg

-D words are also taken from SERVER_JVMFLAGS and JVMFLAGS, as ZooKeeper's scripts do.

Exit status: 0 stopped, 2 bad arguments or configuration, 3 data directory not usable, 1 anything else.")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,

    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

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
        serve(&self.config.inputs(), self.log_format)
    }
}

/// One line that says where the server listens and how to connect.
fn announce(ready: &ServerReady) {
    let port = ready.address.port();
    let host = match ready.address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    print_error(format!("Zebu listens on {}; connect with: zkCli.sh -server {host}:{port}", ready.address));
}

/// Reads the configuration, reports what was noticed and serves.
pub(crate) fn serve(inputs: &ConfigInputs, format: LogFormat) -> ExitCode {
    if let Err(why) = logging::start(format, &inputs.environment) {
        print_error(why);
        return ExitCode::from(BAD_CONFIG);
    }
    let loaded = load(inputs, &LocalSystem);
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
    match zebu_server::run(config, announce) {
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
