//! Sets up the log of the process: text or JSON on standard error, filtered by `ZEBU_LOG` or `RUST_LOG`.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use zebu_server::config::Environment;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging; called once.
///
/// # Errors
/// Says what is wrong with the filter.
pub(crate) fn start(format: LogFormat, environment: &Environment) -> Result<(), String> {
    let named = ["ZEBU_LOG", "RUST_LOG"]
        .into_iter()
        .find_map(|name| environment.get(name).filter(|value| !value.is_empty()).map(|value| (name, value)));
    let (name, text) = named.unwrap_or(("ZEBU_LOG", "info"));
    let filter = EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("{name}=\"{text}\" is not a log filter ({error}); try info or debug"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| format!("the log cannot be started: {error}"))
}
