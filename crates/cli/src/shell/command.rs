//! A command of the shell: its entry in the table, and its executable form after parsing.

use std::future::Future;
use std::pin::Pin;

use super::failure::Failure;
use super::flags::{Flag, Given};
use super::reply::Reply;
use super::session::Session;

/// The result of a command.
pub(crate) type Outcome = Result<Reply, Failure>;

/// The future of a running command.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A parsed command.
pub(crate) trait Command {
    /// Executes the command.
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a>;
}

/// A parsed command, or the error in its words.
pub(crate) type Parsed = Result<Box<dyn Command>, Failure>;

/// The origin of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// zkCli has it and lists it.
    ZkCli,
    /// zkCli had it, or has it without listing it.
    Unlisted,
    /// Only this shell has it.
    Zebu,
}

/// One row of the table of commands.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// The arguments after the name, as in zkCli's usage.
    pub(crate) syntax: &'static str,
    pub(crate) about: &'static str,
    pub(crate) examples: &'static [&'static str],
    pub(crate) origin: Origin,
    pub(crate) needs_session: bool,
    pub(crate) flags: &'static [Flag],
    pub(crate) parse: fn(&Given) -> Parsed,
}

impl Entry {
    /// The usage line for wrong arguments; `get` and `set` list their options, as in zkCli.
    pub(crate) fn usage(&self) -> String {
        let line = format!("{} {}", self.name, self.syntax);
        match self.name {
            "get" | "set" => {
                let of_zkcli: Vec<Flag> = self.flags.iter().copied().filter(|flag| !flag.is_own).collect();
                format!("{line}\n{}\n", option_lines(&of_zkcli))
            }
            _ => line,
        }
    }

    /// The whole help text of the command.
    pub(crate) fn help(&self) -> String {
        let mut text = format!("{}\n\nUsage: {} {}\n", self.about, self.name, self.syntax);
        if !self.flags.is_empty() {
            text.push_str(&format!("\nOptions:\n{}\n", option_lines(self.flags)));
        }
        text.push_str("\nExamples:\n");
        self.examples.iter().for_each(|example| text.push_str(&format!("  {example}\n")));
        text.pop();
        text
    }
}

fn option_lines(flags: &[Flag]) -> String {
    let spelled = |flag: &Flag| format!("-{}{}", flag.name, if flag.takes_value { " <arg>" } else { "" });
    let widest = flags.iter().map(|flag| spelled(flag).len()).max().unwrap_or(0);
    let line = |flag: &Flag| format!(" {:widest$}   {}", spelled(flag), flag.about);
    flags.iter().map(line).collect::<Vec<_>>().join("\n")
}
