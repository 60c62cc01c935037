//! What a rolling restart tells while it goes on: lines for people, or one JSON object per line.

use std::time::Instant;

use serde_json::{Value, json};

use crate::console::{print_error, print_line};

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportForm {
    Text,
    Json,
}

/// Reports steps with the time since the begin.
pub(super) struct Report {
    form: ReportForm,
    began: Instant,
}

impl Report {
    pub(super) fn new(form: ReportForm) -> Report {
        Report { form, began: Instant::now() }
    }

    /// A step of one server, or of all if there is none.
    pub(super) fn step(&self, event: &str, server: Option<&str>, text: &str) {
        match self.form {
            ReportForm::Text => {
                let seconds = self.began.elapsed().as_secs();
                let server = server.map_or(String::new(), |server| format!("{server}: "));
                print_line(format!("[{seconds:>4} s] {server}{text}"));
            }
            ReportForm::Json => print_line(self.object(event, server, text).to_string()),
        }
    }

    /// The end, at a problem.
    pub(super) fn failure(&self, server: Option<&str>, text: &str) {
        match self.form {
            ReportForm::Text => {
                let server = server.map_or(String::new(), |server| format!("{server}: "));
                print_error(format!("stopped: {server}{text}"));
            }
            ReportForm::Json => print_line(self.object("failed", server, text).to_string()),
        }
    }

    fn object(&self, event: &str, server: Option<&str>, text: &str) -> Value {
        let elapsed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        json!({ "event": event, "server": server, "text": text, "elapsed_ms": elapsed_ms })
    }
}
