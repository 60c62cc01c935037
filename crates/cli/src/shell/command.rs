//! What a command is to the shell: an entry of the table, and something that can be run once its words are
//! understood.

use std::future::Future;
use std::pin::Pin;

use super::failure::Failure;
use super::flags::{Flag, Given, Takes};
use super::reply::Reply;
use super::session::Session;

/// What a command comes to.
pub(crate) type Outcome = Result<Reply, Failure>;

/// A command at work.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A command whose words were understood.
pub(crate) trait Command {
    /// Does it.
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a>;
}

/// Words that were understood, or why not.
pub(crate) type Parsed = Result<Box<dyn Command>, Failure>;

/// Where users know a command from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// zkCli has it and lists it.
    ZkCli,
    /// zkCli had it, or has it without listing it.
    Unlisted,
    /// Only this shell has it.
    Zebu,
}

/// Whether a command needs a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Session,
    Nothing,
}

/// One row of the table of commands.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// What follows the name, as zkCli spells it.
    pub(crate) syntax: &'static str,
    pub(crate) about: &'static str,
    pub(crate) examples: &'static [&'static str],
    pub(crate) origin: Origin,
    pub(crate) needs: Needs,
    pub(crate) flags: &'static [Flag],
    pub(crate) parse: fn(&Given) -> Parsed,
}

impl Entry {
    /// The line that is shown when the words are wrong; `get` and `set` list their options, as in zkCli.
    pub(crate) fn usage(&self) -> String {
        let line = format!("{} {}", self.name, self.syntax);
        match self.name {
            "get" | "set" => format!("{line}\n{}\n", self.option_lines()),
            _ => line,
        }
    }

    /// Everything about the command.
    pub(crate) fn help(&self) -> String {
        let mut text = format!("{}\n\nUsage: {} {}\n", self.about, self.name, self.syntax);
        if !self.flags.is_empty() {
            text.push_str(&format!("\nOptions:\n{}\n", self.option_lines()));
        }
        text.push_str("\nExamples:\n");
        self.examples.iter().for_each(|example| text.push_str(&format!("  {example}\n")));
        text.pop();
        text
    }

    fn option_lines(&self) -> String {
        let spelled = |flag: &Flag| match flag.takes {
            Takes::Nothing => format!("-{}", flag.name),
            Takes::Value => format!("-{} <arg>", flag.name),
        };
        let widest = self.flags.iter().map(|flag| spelled(flag).len()).max().unwrap_or(0);
        let line = |flag: &Flag| format!(" {:widest$}   {}", spelled(flag), flag.about);
        self.flags.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
