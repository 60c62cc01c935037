//! `zebu man`: the manual pages, made from the definitions of the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use zebu_server::four_letter::version::build_date;

use crate::console::{print_error, print_line};

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu man /usr/local/share/man/man1
  zebu man . && man ./zebu-serve.1")]
pub(crate) struct Man {
    /// Where the pages go
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Man {
    /// Writes the pages.
    pub(crate) fn run(self) -> ExitCode {
        let mut command = crate::CommandLine::command().disable_help_subcommand(true);
        command.build();
        match write_pages(&command, "zebu", &self.directory) {
            Ok(count) => {
                print_line(format!("{count} pages in {}", self.directory.display()));
                ExitCode::SUCCESS
            }
            Err(error) => {
                print_error(format!("{}: {error}", self.directory.display()));
                ExitCode::FAILURE
            }
        }
    }
}

/// Writes the page of a command and those of its subcommands: `zebu.1`, `zebu-log.1`, `zebu-log-dump.1`.
fn write_pages(command: &Command, name: &str, directory: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(directory)?;
    let date = build_date().split(' ').next().unwrap_or_default();
    // The names of subcommands are whole since the command was built: zebu-log-dump.
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).date(date);
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(directory.join(format!("{name}.1")), text)?;
    let mut count = 1;
    let own = |part: &&Command| !part.is_hide_set() && part.get_name() != "help";
    for part in command.get_subcommands().filter(own) {
        count += write_pages(part, &format!("{name}-{}", part.get_name()), directory)?;
    }
    Ok(count)
}
