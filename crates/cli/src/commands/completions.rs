//! `zebu completions`: scripts that complete commands in a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu completions bash > /etc/bash_completion.d/zebu
  zebu completions zsh > ~/.zfunc/_zebu
  zebu completions fish > ~/.config/fish/completions/zebu.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    pub(crate) fn run(self) -> ExitCode {
        let mut script = Vec::new();
        // The shell reads its words itself; here its commands are spelled out.
        let mut command = crate::CommandLine::command().mut_subcommand("shell", |shell| {
            let commands =
                crate::shell::command_list().map(|(name, about)| clap::Command::new(name).about(about));
            shell.subcommands(commands).disable_help_subcommand(true)
        });
        clap_complete::generate(self.shell, &mut command, "zebu", &mut script);
        let _ = std::io::stdout().write_all(&script);
        ExitCode::SUCCESS
    }
}
