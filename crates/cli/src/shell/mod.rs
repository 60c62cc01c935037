//! The shell: takes what zkCli takes and prints what it prints, and more where people look. Words become a
//! command, the command becomes an answer, the answer becomes text or JSON; each step is a room of its own.

mod acl;
mod command;
mod commands;
mod completion;
mod connection;
mod editor;
mod failure;
mod flags;
mod hexdump;
mod history;
mod invocation;
mod json;
mod paths;
mod quota;
mod reply;
mod screen;
mod session;
mod subtree;
mod subtree_file;
mod subtree_writer;
mod table;
mod text;
mod version;
mod walk;
mod watches;
mod words;

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::console::{print_error, print_line};
use crate::protection::Protection;
use editor::{CurrentClient, Keyboard, Typed};
use invocation::{Invocation, Verbosity};
use session::{Session, Turn};

use invocation::is_shell_option;

/// How long the end of the session may take when the shell ends.
const GOODBYE: Duration = Duration::from_secs(2);
/// Lines of standard input that are read ahead.
const READ_AHEAD: usize = 64;

/// The commands with what they do, for help and completion scripts.
pub(crate) fn command_list() -> impl Iterator<Item = (&'static str, &'static str)> {
    table::sorted().map(|entry| (entry.name, entry.about))
}

/// Whether a command line is for the shell although it does not say so: it begins with an option or a command
/// of the shell. Commands of the program itself, such as `stat`, have been told apart before.
pub(crate) fn is_meant(first: &str) -> bool {
    is_shell_option(first) || table::find(first).is_some()
}

/// Runs the shell with the words behind `zebu shell`.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let invocation = match invocation::parse(words) {
        Ok(invocation) => invocation,
        Err(reason) => {
            print_error(reason);
            return ExitCode::FAILURE;
        }
    };
    if let Some(error) = &invocation.option_error {
        print_error(error);
    }
    let protection = match invocation.protection.open() {
        Ok(protection) => protection,
        Err(error) => {
            print_error(error.to_string());
            return ExitCode::from(error.shell_status());
        }
    };
    protection.notes.iter().for_each(print_error);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            print_error(format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let status = runtime.block_on(serve(invocation, protection));
    // A thread may still wait for a key or for standard input.
    runtime.shutdown_background();
    ExitCode::from(status)
}

async fn serve(invocation: Invocation, protection: Protection) -> u8 {
    let (servers, command) = (invocation.servers.clone(), invocation.command.clone());
    let (waits_for_connection, timeout) = (invocation.waits_for_connection, invocation.timeout);
    let verbosity = invocation.verbosity;
    let mut session = Session::new(invocation, protection);
    if verbosity == Verbosity::LikeZkCli {
        print_line(format!("Connecting to {servers}"));
    }
    if let Err(error) = session.connect(&servers).await {
        session.refuse_to_begin("BadArguments", &error.to_string());
        return 1;
    }
    if waits_for_connection && !is_connected_within(&session, timeout).await {
        let text = format!("KeeperErrorCode = ConnectionLoss: no server of {servers} within {timeout:?}");
        session.refuse_to_begin("ConnectionLoss", &text);
        return 1;
    }
    if !command.is_empty() {
        session.history.add(&command.join(" "));
        session.run_words(command).await;
    } else if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        interact(&mut session).await;
    } else {
        if verbosity == Verbosity::LikeZkCli {
            print_line("Welcome to ZooKeeper!\nJLine support is disabled");
        }
        read_commands(&mut session).await;
    }
    session.events = session::Events::Hidden;
    let _ = tokio::time::timeout(GOODBYE, session.disconnect()).await;
    session.status
}

async fn is_connected_within(session: &Session, patience: Duration) -> bool {
    let Ok(client) = session.client() else { return false };
    matches!(tokio::time::timeout(patience, client.ready()).await, Ok(Ok(_)))
}

/// Commands from a file or a pipe, until it ends.
async fn read_commands(session: &mut Session) {
    let (sender, mut lines) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        while let Ok(1..) = input.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            if sender.blocking_send(text).is_err() {
                return;
            }
        }
    });
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = session.wait_for_event() => continue,
        };
        let Some(line) = line else { return };
        if session.run_line(&line).await == Turn::Quit {
            return;
        }
    }
}

/// Commands from a person.
async fn interact(session: &mut Session) {
    let current: CurrentClient = Arc::new(Mutex::new(None));
    let mut keyboard = match Keyboard::start(current.clone()) {
        Ok((keyboard, printer)) => {
            session.screen.print_above_the_line(printer);
            keyboard
        }
        Err(error) => {
            print_error(format!("cannot edit lines here ({error}); reading them as they come"));
            return read_commands(session).await;
        }
    };
    if session.invocation.verbosity == Verbosity::LikeZkCli {
        print_line(
            "Welcome to ZooKeeper!\nJLine support is enabled (help lists the commands, the tab key completes)",
        );
    }
    // The first prompt should tell how it stands; a server that answers does so at once.
    is_connected_within(session, Duration::from_millis(500)).await;
    session.show_events();
    loop {
        *current.lock().unwrap_or_else(PoisonError::into_inner) = session.client().ok();
        keyboard.ask(session.prompt());
        let typed = loop {
            tokio::select! {
                typed = keyboard.typed.recv() => break typed,
                () = session.wait_for_event() => {}
            }
        };
        match typed {
            Some(Typed::Line(line)) => {
                if session.run_line(&line).await == Turn::Quit {
                    return;
                }
            }
            Some(Typed::Nothing) => {}
            Some(Typed::End) | None => return,
        }
    }
}
