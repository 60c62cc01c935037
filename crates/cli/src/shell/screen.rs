//! Where the shell writes: standard output and standard error, and, while a line is being edited, above that
//! line. A reader that went away is no error.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use jiff::tz::TimeZone;
use rustyline::ExternalPrinter;

use super::failure::Stream;
use super::invocation::{Form, Verbosity};
use super::json;
use super::reply::{Event, Reply};
use super::text::{self, Medium, Written};

/// The writing end.
pub(crate) struct Screen {
    medium: Medium,
    error_medium: Medium,
    zone: TimeZone,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Screen {
    /// The screen of this process.
    pub(crate) fn new() -> Screen {
        let of = |is_terminal| if is_terminal { Medium::Terminal } else { Medium::Plain };
        let medium = of(std::io::stdout().is_terminal());
        let error_medium = of(std::io::stderr().is_terminal());
        Screen { medium, error_medium, zone: TimeZone::system(), printer: None }
    }

    /// From now on events are written above the line that is being edited.
    pub(crate) fn print_above_the_line(&mut self, printer: Box<dyn ExternalPrinter + Send>) {
        self.printer = Some(printer);
    }

    /// Writes an answer.
    pub(crate) fn reply(&self, reply: &Reply, form: Form, verbosity: Verbosity) {
        let written = match form {
            Form::Text => text::render(reply, self.medium, verbosity, &self.zone),
            Form::Json => {
                let line = json::render(reply).map(|value| format!("{value}\n")).unwrap_or_default();
                Written { out: self.for_out(&line).into_owned().into_bytes(), error: Vec::new() }
            }
        };
        if !written.out.is_empty() {
            write_out(&written.out);
        }
        if !written.error.is_empty() {
            let error = String::from_utf8_lossy(&written.error);
            let _ = std::io::stderr().lock().write_all(self.for_error(&error).as_bytes());
        }
    }

    /// Writes a line.
    pub(crate) fn line(&self, stream: Stream, line: &str) {
        match stream {
            Stream::Out => write_out(format!("{}\n", self.for_out(line)).as_bytes()),
            Stream::Error => self.print_error(line),
        }
    }

    /// Writes a line to standard error that is no failure.
    pub(crate) fn note(&self, line: &str) {
        let _ = std::io::stderr().lock().write_all(format!("{}\n", self.for_error(line)).as_bytes());
    }

    /// Text without control sequences if standard output is a terminal.
    fn for_out<'t>(&self, text: &'t str) -> Cow<'t, str> {
        for_medium(text, self.medium)
    }

    /// Text without control sequences if standard error is a terminal.
    fn for_error<'t>(&self, text: &'t str) -> Cow<'t, str> {
        for_medium(text, self.error_medium)
    }

    fn print_error(&self, line: &str) {
        let colour = self.medium == Medium::Terminal && self.error_medium == Medium::Terminal;
        let line = self.for_error(line);
        let line = if colour { format!("\x1b[31m{line}\x1b[0m\n") } else { format!("{line}\n") };
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    /// Writes a watch event between answers.
    pub(crate) fn event(&mut self, event: &Event, form: Form) {
        let line = match form {
            Form::Text => text::event(event),
            Form::Json => format!("{}\n", json::event(event)),
        };
        let line = match self.medium {
            Medium::Plain => line,
            Medium::Terminal => text::safe(line.as_bytes()),
        };
        match &mut self.printer {
            Some(printer) => drop(printer.print(line)),
            None => write_out(line.as_bytes()),
        }
    }
}

fn for_medium(text: &str, medium: Medium) -> Cow<'_, str> {
    match medium {
        Medium::Plain => Cow::Borrowed(text),
        Medium::Terminal => Cow::Owned(text::safe(text.as_bytes())),
    }
}

fn write_out(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
