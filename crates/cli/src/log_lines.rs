//! The forms of a log line besides plain text: JSON for log collectors, and text with the priority that
//! journald reads. It owns the forms only; `logging.rs` chooses one.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Numbers beyond this lose digits in programs whose numbers are floating point, so they become text.
const EXACT_MAX: u64 = 1 << 53;
const TIME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// Text with a priority in front, without time and colours: journald has its own time.
pub(crate) struct JournalLines(Format<Full, ()>);

impl JournalLines {
    pub(crate) fn new() -> JournalLines {
        JournalLines(Format::default().without_time().with_ansi(false))
    }
}

/// The priority of syslog.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The names of the fields that every line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonNames {
    /// `timestamp`, `level`: Loki finds the level by itself.
    Plain,
    /// The Elastic Common Schema: `@timestamp`, `log.level`.
    Ecs,
}

/// One JSON object per line, without nesting.
pub(crate) struct JsonLines {
    pub(crate) names: JsonNames,
    /// The content of `myid`, if there was one at the start.
    pub(crate) my_id: Option<String>,
}

impl JsonLines {
    fn line(&self, level: Level, target: &str, now: &str, fields: &EventFields) -> String {
        let mut line = String::with_capacity(256);
        let ecs = self.names == JsonNames::Ecs;
        line.push('{');
        push_text(&mut line, if ecs { "@timestamp" } else { "timestamp" }, now);
        let level = if ecs { level.as_str().to_ascii_lowercase() } else { level.as_str().to_owned() };
        push_text(&mut line, if ecs { "log.level" } else { "level" }, &level);
        push_text(&mut line, "message", &fields.message);
        push_text(&mut line, if ecs { "log.logger" } else { "target" }, target);
        push_text(&mut line, if ecs { "service.name" } else { "service" }, "zebu");
        if ecs {
            push_text(&mut line, "event.dataset", "zebu.server");
            push_text(&mut line, "ecs.version", "8.11.0");
        }
        if let Some(id) = &self.my_id {
            push_text(&mut line, if ecs { "service.node.name" } else { "myid" }, id);
        }
        for (name, value) in &fields.values {
            push_key(&mut line, &self.free_name(name));
            line.push_str(value);
        }
        line.push('}');
        line
    }

    /// A field with the name of one that every line has gets another name.
    fn free_name(&self, name: &str) -> String {
        let reserved: &[&str] = match self.names {
            JsonNames::Plain => &["timestamp", "level", "message", "target", "service", "myid"],
            JsonNames::Ecs => &["message"],
        };
        match (self.names, reserved.contains(&name)) {
            (JsonNames::Ecs, _) => format!("zebu.{name}"),
            (JsonNames::Plain, true) => format!("{name}_"),
            (JsonNames::Plain, false) => name.to_owned(),
        }
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let now = jiff::Timestamp::now().strftime(TIME_FORMAT).to_string();
        let metadata = event.metadata();
        writeln!(writer, "{}", self.line(*metadata.level(), metadata.target(), &now, &fields))
    }
}

fn push_key(line: &mut String, name: &str) {
    if line.len() > 1 {
        line.push(',');
    }
    line.push_str(&json_text(name));
    line.push(':');
}

fn push_text(line: &mut String, name: &str, value: &str) {
    push_key(line, name);
    line.push_str(&json_text(value));
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The fields of an event, with values as JSON.
#[derive(Debug, Default)]
struct EventFields {
    message: String,
    values: Vec<(&'static str, String)>,
}

impl EventFields {
    fn push(&mut self, field: &Field, value: String) {
        self.values.push((field.name(), value));
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.push(field, json_text(&text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.push(field, json_text(value));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        let is_exact = value.unsigned_abs() <= EXACT_MAX;
        self.push(field, if is_exact { value.to_string() } else { json_text(&value.to_string()) });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, if value <= EXACT_MAX { value.to_string() } else { json_text(&value.to_string()) });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, if value.is_finite() { value.to_string() } else { json_text(&value.to_string()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> EventFields {
        EventFields {
            message: "a \"message\"\nof two lines".to_owned(),
            values: vec![("zxid", "7".to_owned()), ("level", "\"x\"".to_owned())],
        }
    }

    #[test]
    fn plain_names() {
        let lines = JsonLines { names: JsonNames::Plain, my_id: Some("3".to_owned()) };
        let line = lines.line(Level::WARN, "zebu::core", "2026-11-18T08:12:01.377000Z", &fields());
        assert_eq!(
            line,
            "{\"timestamp\":\"2026-11-18T08:12:01.377000Z\",\"level\":\"WARN\",\
             \"message\":\"a \\\"message\\\"\\nof two lines\",\"target\":\"zebu::core\",\"service\":\"zebu\",\
             \"myid\":\"3\",\"zxid\":7,\"level_\":\"x\"}"
        );
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["message"], "a \"message\"\nof two lines");
    }

    #[test]
    fn names_of_elastic() {
        let lines = JsonLines { names: JsonNames::Ecs, my_id: None };
        let line = lines.line(Level::INFO, "zebu", "now", &fields());
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["@timestamp"], &parsed["log.level"]), (&"now".into(), &"info".into()));
        assert_eq!((&parsed["service.name"], &parsed["zebu.zxid"]), (&"zebu".into(), &7.into()));
    }

    #[test]
    fn priorities() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(priority), [3, 4, 6, 7, 7]);
    }
}
