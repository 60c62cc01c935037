//! A session of the shell: runs one command after the other and keeps what lives between them: the
//! connection, the watches, the history. What a command means is the command's own business.

use zebu_client::{Client, ConnectStringError, ErrorCode};

use super::command::{Entry, Outcome};
use super::connection::Connection;
use super::failure::{Failure, Stream};
use super::flags::{self, Flag, switch};
use super::history::History;
use super::invocation::{Form, Invocation, Verbosity};
use super::reply::{Event, Reply};
use super::screen::Screen;
use super::watches::Watches;
use super::{json, table, words};
use crate::console::{print_error, printable};
use crate::protection::Protection;

/// The status of a command that does not exist.
const NOT_FOUND: u8 = 127;
/// The status of a command that the user stopped.
const INTERRUPTED: u8 = 130;

/// Whether watch events are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    Shown,
    Hidden,
}

/// Whether another command may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    GoOn,
    Quit,
}

/// The shell.
pub(crate) struct Session {
    pub(crate) invocation: Invocation,
    pub(crate) protection: Protection,
    connection: Option<Connection>,
    pub(crate) watches: Watches,
    pub(crate) history: History,
    pub(crate) screen: Screen,
    pub(crate) events: Events,
    /// The exit status so far: that of the last command.
    pub(crate) status: u8,
}

impl Session {
    /// A shell without a connection.
    pub(crate) fn new(invocation: Invocation, protection: Protection) -> Session {
        Session {
            invocation,
            protection,
            connection: None,
            watches: Watches::default(),
            history: History::default(),
            screen: Screen::new(),
            events: Events::Shown,
            status: 0,
        }
    }

    /// Begins to connect; what was connected before is closed.
    pub(crate) async fn connect(&mut self, servers: &str) -> Result<(), ConnectStringError> {
        let next = Connection::start(servers, &self.invocation, &self.protection)?;
        self.disconnect().await;
        self.connection = Some(next);
        Ok(())
    }

    /// Ends the session with the servers, if there is one.
    pub(crate) async fn disconnect(&mut self) {
        self.watches.clear();
        if let Some(connection) = self.connection.take() {
            let servers = connection.servers.clone();
            let event = connection.close().await;
            self.show_event(&event);
            // `connect` without a name goes there again.
            self.invocation.servers = servers;
        }
    }

    /// The connection.
    pub(crate) fn connection(&self) -> Result<&Connection, Failure> {
        self.connection.as_ref().filter(|connection| connection.is_alive()).ok_or(Failure::NotConnected)
    }

    /// The servers of the connection, or of the last one.
    pub(crate) fn servers(&self) -> &str {
        self.connection.as_ref().map_or(&self.invocation.servers, |connection| &connection.servers)
    }

    /// The client, seen from the chroot.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.connection().map(|connection| connection.client.clone())
    }

    /// Says why no command can run at all.
    pub(crate) fn refuse_to_begin(&self, code: &str, text: &str) {
        match self.invocation.form {
            Form::Json => self.screen.line(Stream::Out, &json::failure(code, text, None).to_string()),
            Form::Text => self.screen.line(Stream::Error, text),
        }
    }

    /// Says a line that is no answer.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        self.screen.note(line.as_ref());
    }

    /// The prompt of the next command.
    pub(crate) fn prompt(&self) -> String {
        let state = self.connection.as_ref().map_or("CLOSED", Connection::state_word);
        format!("[zk: {}({state}) {}] ", self.servers(), self.history.next_number())
    }

    /// Runs a line.
    pub(crate) async fn run_line(&mut self, line: &str) -> Turn {
        let split = words::split(line);
        if split.is_empty() {
            return Turn::GoOn;
        }
        self.history.add(line);
        self.run_words(split).await
    }

    /// Runs a command that is in words already.
    pub(crate) async fn run_words(&mut self, mut split: Vec<String>) -> Turn {
        loop {
            let (form, outcome) = self.outcome(&split).await;
            self.show_state();
            let reply = match outcome {
                Ok(reply) => reply,
                Err(failure) => {
                    self.show_failure(&failure, &split[0], form);
                    self.show_events();
                    return Turn::GoOn;
                }
            };
            if let Reply::Again(line) = reply {
                self.history.replace_last(&line);
                split = words::split(&line);
                continue;
            }
            self.screen.reply(&reply, form, self.invocation.verbosity);
            self.show_events();
            if reply == Reply::Quit {
                return Turn::Quit;
            }
            self.status = 0;
            return Turn::GoOn;
        }
    }

    async fn outcome(&mut self, split: &[String]) -> (Form, Outcome) {
        const JSON: Flag = switch("json", "The answer as JSON");
        let form = self.invocation.form;
        let Some(entry) = table::find(&split[0]) else {
            return (form, Err(Failure::NotFound));
        };
        if split[1..].iter().any(|word| word == "--help") {
            return (Form::Text, Ok(Reply::Line(entry.help())));
        }
        if entry.needs_session
            && let Err(failure) = self.connection()
        {
            return (form, Err(failure));
        }
        let mut known = entry.flags.to_vec();
        known.push(JSON);
        let given = match flags::parse(&split[1..], &known) {
            Ok(given) => given,
            Err(error) => return (form, Err(error.into())),
        };
        let form = if given.has("json") { Form::Json } else { form };
        let command = match (entry.parse)(&given) {
            Ok(command) => command,
            Err(failure) => return (form, Err(failure)),
        };
        let unreachable =
            self.connection.as_ref().filter(|_| entry.needs_session).map(Connection::unreachable);
        let warned = async move {
            // The reason is told at once; the command goes on waiting, for a server that is being restarted.
            if let Some(unreachable) = unreachable {
                let reasons = unreachable.await.join(", ");
                print_error(printable(&format!("{reasons}; waiting for a server")));
            }
            std::future::pending::<()>().await
        };
        let outcome = tokio::select! {
            outcome = command.run(self) => outcome,
            Ok(()) = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
            () = warned => Err(Failure::Interrupted),
        };
        (form, outcome.map_err(|failure| self.with_reason(failure)))
    }

    /// Adds why no server could be reached to a failure for that reason.
    fn with_reason(&self, failure: Failure) -> Failure {
        let reasons = self.connection.as_ref().map(Connection::failures).unwrap_or_default();
        match failure {
            Failure::Refused { code, path, mut lines }
                if code == ErrorCode::ConnectionLoss.name() && !reasons.is_empty() =>
            {
                lines.push((Stream::Error, format!("no server can be reached: {}", reasons.join(", "))));
                Failure::Refused { code, path, lines }
            }
            other => other,
        }
    }

    fn show_failure(&mut self, failure: &Failure, name: &str, form: Form) {
        self.status = match failure {
            Failure::NotFound => NOT_FOUND,
            Failure::Interrupted => INTERRUPTED,
            Failure::Usage | Failure::NotConnected | Failure::Said(_) | Failure::Refused { .. } => 1,
        };
        let usage = || table::find(name).map(Entry::usage).unwrap_or_default();
        if form == Form::Json {
            let (code, message) = failure.summary();
            let message = match failure {
                Failure::NotFound => table::no_such_command(name),
                Failure::Usage => usage(),
                Failure::NotConnected | Failure::Interrupted | Failure::Said(_) | Failure::Refused { .. } => {
                    message
                }
            };
            let object = json::failure(code, message.trim_end(), failure.path());
            return self.screen.line(Stream::Out, &object.to_string());
        }
        match failure {
            Failure::NotFound => self.screen.line(Stream::Error, &table::no_such_command(name)),
            Failure::Usage => self.note(usage()),
            Failure::NotConnected => self.screen.line(Stream::Error, "Not connected"),
            Failure::Interrupted => self.note("interrupted"),
            Failure::Said(lines) | Failure::Refused { lines, .. } => {
                lines.iter().for_each(|(stream, line)| self.screen.line(*stream, line));
            }
        }
    }

    /// Tells a change of the connection, if there is one.
    pub(crate) fn show_state(&mut self) {
        while let Some(event) = self.connection.as_mut().and_then(Connection::take_change) {
            self.show_event(&event);
        }
    }

    /// Tells all events that have come.
    pub(crate) fn show_events(&mut self) {
        self.show_state();
        for event in self.watches.ready() {
            self.show_event(&event);
        }
    }

    /// Waits for an event and tells it.
    pub(crate) async fn wait_for_event(&mut self) {
        let changed = async {
            match &mut self.connection {
                Some(connection) => connection.changed().await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = self.watches.next() => Some(event),
            () = changed => None,
        };
        match event {
            Some(event) => self.show_event(&event),
            None => self.show_state(),
        }
    }

    fn show_event(&mut self, event: &Event) {
        let of_the_connection = event.kind == "None";
        if self.events == Events::Hidden
            || (of_the_connection && self.invocation.verbosity == Verbosity::Quiet)
        {
            return;
        }
        self.screen.event(event, self.invocation.form);
    }
}
