//! `zebu restart`: stop, then start.

use std::process::ExitCode;

use clap::Args;

use super::start::Start;
use super::stop::Stop;

/// Stop a background server and start it again
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  zebu restart
  zebu restart /etc/zebu/zoo.cfg")]
pub(crate) struct Restart {
    /// A Java property, glued as for java
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    properties: Vec<String>,

    /// zoo.cfg; a bare name is looked for in the configuration directory
    #[arg(value_name = "CONFIG")]
    config: Option<String>,
}

impl Restart {
    /// Restarts.
    pub(crate) fn run(self) -> ExitCode {
        let Restart { properties, config } = self;
        let stopped = Stop { config: config.clone() }.run();
        if stopped != ExitCode::SUCCESS {
            return stopped;
        }
        Start { properties, config, foreground: false, print_command: false }.run()
    }
}
