//! The log of the process: its form, its target and its filter, and their change at run time.
//!
//! Lines go to standard error, or to a file that is rotated by size. The filter is `zebu.log.filter` of
//! zoo.cfg, else `ZEBU_LOG` or `RUST_LOG`. A reload reads it again.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};
use zebu_server::config::{ConfigInputs, Environment};
use zebu_server::rotated_file::{RotatedFile, RotatedFileConfig};

use crate::config_file::Peek;
use crate::log_lines::{JournalLines, JsonLines, JsonNames};

const FILTER_KEY: &str = "zebu.log.filter";
const FORMAT_KEY: &str = "zebu.log.format";
const FILE_KEY: &str = "zebu.log.file";
const FILE_BYTES_KEY: &str = "zebu.log.fileBytes";
const FILES_KEY: &str = "zebu.log.files";
const FILE_BYTES: u64 = 64 << 20;
const FILE_BYTES_MIN: u64 = 1024;
const ROTATED_FILES: u64 = 10;
const ROTATED_FILES_MAX: u64 = 1000;
/// Set by systemd for a process whose standard error goes to journald.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text
    Text,
    /// One JSON object per line: timestamp, level, message and fields
    Json,
    /// One JSON object per line with the names of the Elastic Common Schema
    Ecs,
}

impl LogFormat {
    /// The name on the command line and in zoo.cfg.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
            LogFormat::Ecs => "ecs",
        }
    }
}

/// The log as the command line wants it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArguments {
    /// How log lines look (or zebu.log.format in zoo.cfg) [default: text]
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// Write the log to this file instead of standard error (or zebu.log.file in zoo.cfg); it is rotated at
    /// zebu.log.fileBytes, and zebu.log.files old files are kept
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

/// The keys of zoo.cfg that the log has, and the rest of what decides about it.
#[derive(Debug)]
struct LogSettings {
    format: LogFormat,
    filter: EnvFilter,
    file: Option<RotatedFileConfig>,
    my_id: Option<String>,
}

impl LogSettings {
    fn read(
        arguments: &LogArguments,
        config: Option<&Peek>,
        environment: &Environment,
    ) -> Result<LogSettings, String> {
        let get = |key: &str| config.and_then(|config| config.get(key));
        let format = match (arguments.log_format, get(FORMAT_KEY)) {
            (Some(format), _) => format,
            (None, None) => LogFormat::Text,
            (None, Some(name)) => LogFormat::from_str(name, false)
                .map_err(|_| format!("{FORMAT_KEY}={name} is not known; it is one of text, json, ecs"))?,
        };
        let number = |key: &str, default: u64, range: std::ops::RangeInclusive<u64>| match get(key) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                format!("{key}={text} is not a number from {} to {}", range.start(), range.end())
            }),
        };
        let bytes_max = number(FILE_BYTES_KEY, FILE_BYTES, FILE_BYTES_MIN..=u64::from(u32::MAX))?;
        let rotated_max = number(FILES_KEY, ROTATED_FILES, 0..=ROTATED_FILES_MAX)?;
        let path = arguments.log_file.clone().or_else(|| get(FILE_KEY).map(PathBuf::from));
        let file = path.map(|path| RotatedFileConfig {
            path,
            bytes_max,
            rotated_max: u32::try_from(rotated_max).unwrap_or(u32::MAX),
        });
        let my_id = config.and_then(Peek::data_dir).and_then(|directory| {
            let text = std::fs::read_to_string(directory.join("myid")).ok()?;
            text.trim().parse::<i64>().ok().map(|id| id.to_string())
        });
        Ok(LogSettings { format, filter: read_filter(config, environment)?, file, my_id })
    }
}

fn read_filter(config: Option<&Peek>, environment: &Environment) -> Result<EnvFilter, String> {
    let of_file = config.and_then(|config| config.get(FILTER_KEY)).map(|text| (FILTER_KEY, text));
    let named = of_file.or_else(|| {
        let set = |name| environment.get(name).filter(|value| !value.is_empty()).map(|value| (name, value));
        ["ZEBU_LOG", "RUST_LOG"].into_iter().find_map(set)
    });
    let (name, text) = named.unwrap_or(("ZEBU_LOG", "info"));
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("{name}=\"{text}\" is not a log filter ({error}); try info or debug"))
}

/// Changes the running log.
pub(crate) struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
    file: Option<LogFile>,
    config: Option<PathBuf>,
    environment: Environment,
}

impl LogControl {
    /// Reads the filter again, and opens the file again if another program has moved it.
    pub(crate) fn reload(&self) {
        if let Some(file) = &self.file {
            file.0.lock().unwrap_or_else(PoisonError::into_inner).close_if_moved();
        }
        let config = match self.config.as_deref().map(Peek::read).transpose() {
            Ok(config) => config,
            Err(why) => return tracing::warn!(why, "the log filter stays as it is"),
        };
        match read_filter(config.as_ref(), &self.environment) {
            Ok(filter) => {
                let text = filter.to_string();
                // Fails only if the log is gone, which lasts as long as the process.
                let _ = self.filter.reload(filter);
                tracing::info!(
                    filter = text,
                    "SIGHUP: the log filter was read again; other settings are read at the start only"
                );
            }
            Err(why) => tracing::warn!(why, "the log filter stays as it is"),
        }
    }
}

/// Starts logging; called once.
///
/// # Errors
/// Says what is wrong with the settings.
pub(crate) fn start(arguments: &LogArguments, inputs: &ConfigInputs) -> Result<LogControl, String> {
    let config = match inputs.arguments.as_slice() {
        [path] => Some(PathBuf::from(path)),
        _ => None,
    };
    // A file that cannot be read is an error of the configuration, which the log reports.
    let peek = config.as_deref().and_then(|path| Peek::read(path).ok());
    let environment = &inputs.environment;
    let LogSettings { format, filter, file, my_id } =
        LogSettings::read(arguments, peek.as_ref(), environment)?;
    let file = file.map(LogFile::open).transpose()?;
    let (filter, handle) = reload::Layer::new(filter);
    let for_journal = file.is_none() && environment.get(JOURNAL_VARIABLE).is_some_and(is_own_stderr);
    let is_terminal = file.is_none() && io::stderr().is_terminal();
    let target = LogTarget(file.clone());
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text if for_journal => {
            fmt::layer().event_format(JournalLines::new()).with_ansi(false).with_writer(target).boxed()
        }
        LogFormat::Text => fmt::layer().with_ansi(is_terminal).with_writer(target).boxed(),
        LogFormat::Json | LogFormat::Ecs => {
            let names = if format == LogFormat::Ecs { JsonNames::Ecs } else { JsonNames::Plain };
            fmt::layer().event_format(JsonLines { names, my_id }).with_writer(target).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|error| format!("the log cannot be started: {error}"))?;
    Ok(LogControl { filter: handle, file, config, environment: environment.clone() })
}

/// Starts the log of a tool that runs for long and has no configuration. It goes to standard error, with the
/// filter of `ZEBU_LOG`. Called once.
///
/// # Errors
/// Says what is wrong with the settings.
pub(crate) fn start_tool(format: LogFormat) -> Result<(), String> {
    let named =
        ["ZEBU_LOG", "RUST_LOG"].map(|name| (name.to_owned(), std::env::var(name).unwrap_or_default()));
    let filter = read_filter(None, &Environment(named.into()))?;
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).boxed(),
        LogFormat::Json | LogFormat::Ecs => {
            let names = if format == LogFormat::Ecs { JsonNames::Ecs } else { JsonNames::Plain };
            fmt::layer().event_format(JsonLines { names, my_id: None }).with_writer(io::stderr).boxed()
        }
    };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.map_err(|error| format!("the log cannot be started: {error}"))
}

/// The variable holds device and inode of the stream to journald. A process whose standard error was sent
/// elsewhere inherits it too.
fn is_own_stderr(stream: &str) -> bool {
    let Ok(own) = rustix::fs::fstat(io::stderr()) else { return false };
    let mut parts = stream.split(':').map(str::parse::<u64>);
    matches!((parts.next(), parts.next()), (Some(Ok(device)), Some(Ok(inode))) if device == own.st_dev && inode == own.st_ino)
}

/// The file of the log, shared by all threads.
#[derive(Clone)]
struct LogFile(Arc<Mutex<RotatedFile>>);

impl LogFile {
    fn open(config: RotatedFileConfig) -> Result<LogFile, String> {
        let path = config.path.clone();
        if let Some(directory) = path.parent().filter(|directory| *directory != Path::new("")) {
            let _ = std::fs::create_dir_all(directory);
        }
        let mut file = RotatedFile::new(config);
        file.open().map_err(|error| format!("the log file {} cannot be opened: {error}", path.display()))?;
        Ok(LogFile(Arc::new(Mutex::new(file))))
    }
}

/// Standard error, or a file.
struct LogTarget(Option<LogFile>);

/// Writes one line at a time.
enum LineWriter<'a> {
    Stderr(io::Stderr),
    File(&'a LogFile),
}

impl<'a> MakeWriter<'a> for LogTarget {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        match &self.0 {
            None => LineWriter::Stderr(io::stderr()),
            Some(file) => LineWriter::File(file),
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            LineWriter::Stderr(stderr) => stderr.write(line),
            LineWriter::File(file) => {
                let appended = file.0.lock().unwrap_or_else(PoisonError::into_inner).append(line);
                // A full disk must not swallow the line that says so.
                if appended.is_err() {
                    io::stderr().write_all(line)?;
                }
                Ok(line.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(text: &str) -> (tempfile::TempDir, Peek) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("zoo.cfg");
        std::fs::write(&path, text).unwrap();
        let peek = Peek::read(&path).unwrap();
        (home, peek)
    }

    fn read(arguments: &LogArguments, text: &str) -> Result<LogSettings, String> {
        let (_home, peek) = peek(text);
        LogSettings::read(arguments, Some(&peek), &Environment([("ZEBU_LOG".into(), "warn".into())].into()))
    }

    #[test]
    fn the_command_line_counts_before_the_file_and_the_file_before_variables() {
        let none = LogArguments::default();
        let settings = read(&none, "zebu.log.format=ecs\nzebu.log.filter=debug\nzebu.log.file=/l\n").unwrap();
        assert_eq!((settings.format, settings.filter.to_string()), (LogFormat::Ecs, "debug".to_owned()));
        let file = settings.file.unwrap();
        assert_eq!((file.path, file.bytes_max, file.rotated_max), (PathBuf::from("/l"), 64 << 20, 10));
        let wished = LogArguments { log_format: Some(LogFormat::Json), log_file: Some("/m".into()) };
        let text = "zebu.log.format=ecs\nzebu.log.file=/l\nzebu.log.fileBytes=2048\nzebu.log.files=0\n";
        let settings = read(&wished, text).unwrap();
        assert_eq!((settings.format, settings.filter.to_string()), (LogFormat::Json, "warn".to_owned()));
        let file = settings.file.unwrap();
        assert_eq!((file.path, file.bytes_max, file.rotated_max), (PathBuf::from("/m"), 2048, 0));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("zebu.log.format=xml", "text, json, ecs"),
            ("zebu.log.fileBytes=10", "zebu.log.fileBytes=10 is not a number from 1024"),
            ("zebu.log.files=many", "zebu.log.files=many"),
            ("zebu.log.filter=a=b=c", "is not a log filter"),
        ] {
            let error = read(&LogArguments::default(), text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
