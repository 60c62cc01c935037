//! The way from raw inputs to a checked configuration. The only place that knows all the steps; it reads
//! files and names through `Surroundings` and never ends the process.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::build;
use super::findings::{Findings, Origin};
use super::properties;
use super::reader::Reader;
use super::server_config::{ConfigSource, OriginalText, ServerConfig};
use super::sources::{Environment, Settings};
use super::{ensemble, mixed, protection};
use crate::host_address;

/// What the user said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// What stands behind `serve`: nothing, a file, or `port dataDir [tickTime] [maxClientCnxns]`.
    pub arguments: Vec<String>,
    /// The `-D` words without their `-D`, in order: `name=value`.
    pub properties: Vec<String>,
    /// The variables of the process.
    pub environment: Environment,
}

/// What reading a configuration may look at outside of its inputs.
pub trait Surroundings {
    /// Reads a file.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The addresses of a host name.
    ///
    /// # Errors
    /// Those of the system.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether a directory exists.
    fn is_directory(&self, path: &Path) -> bool;

    /// The number of a network interface, by the zone of an IPv6 literal (`fe80::1%eth0`).
    ///
    /// # Errors
    /// There is no such interface.
    fn interface_index(&self, zone: &str) -> io::Result<u32>;
}

/// The machine that this process runs on.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl Surroundings for ThisMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn interface_index(&self, zone: &str) -> io::Result<u32> {
        host_address::zone_index(zone)
    }
}

/// The outcome: a configuration exactly when there are no errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// `None` if there are errors.
    pub config: Option<ServerConfig>,
    /// Everything that was noticed, in the order of the file.
    pub findings: Findings,
}

/// Reads and checks a configuration. Finds all mistakes at once.
pub fn load(inputs: &Inputs, surroundings: &dyn Surroundings) -> Loaded {
    let mut findings = Findings::default();
    let config = load_with(inputs, surroundings, &mut findings);
    protection::conclude(&mut findings);
    findings.sort();
    let config = config.filter(|_| findings.errors.is_empty());
    Loaded { config, findings }
}

fn load_with(
    inputs: &Inputs,
    surroundings: &dyn Surroundings,
    findings: &mut Findings,
) -> Option<ServerConfig> {
    let (source, text, settings) = match &inputs.arguments[..] {
        [] => (ConfigSource::BuiltIn, String::new(), built_in_settings(inputs, findings)),
        [file] => {
            let path = PathBuf::from(file);
            let text = read_config_file(&path, surroundings, findings)?;
            let settings = file_settings(&path, &text, inputs, findings)?;
            (ConfigSource::File(path), text, settings)
        }
        arguments => {
            (ConfigSource::Arguments, String::new(), positional_settings(arguments, inputs, findings)?)
        }
    };
    settings.note_keys_without_effect(findings);
    protection::check(&settings, findings);
    let mut reader = Reader { settings: &settings, findings };
    let data_dir = build::data_dir(&mut reader, surroundings);
    let (membership, shape) = ensemble::read_membership(&mut reader, &data_dir, surroundings);
    mixed::check(reader.settings, &membership, reader.findings);
    let mut config = build::server_config(&mut reader, &source, &data_dir, membership, shape, surroundings);
    config.source = source;
    config.original_text = OriginalText(text);
    Some(config)
}

fn read_config_file(path: &Path, surroundings: &dyn Surroundings, findings: &mut Findings) -> Option<String> {
    let origin = Origin::File(path.to_owned());
    match surroundings.read(path) {
        Ok(bytes) => Some(properties::decode_latin1(&bytes)),
        Err(error) => {
            findings.error(&origin, format!("the configuration file cannot be read: {error}"));
            None
        }
    }
}

fn file_settings(path: &Path, text: &str, inputs: &Inputs, findings: &mut Findings) -> Option<Settings> {
    let at = |line| Origin::Line { file: path.to_owned(), line };
    let mut settings = Settings::new(Origin::File(path.to_owned()));
    settings.add_properties(&inputs.properties, &inputs.environment, findings);
    match properties::parse(text) {
        Ok(entries) => settings.add_file(entries, at, findings),
        Err(error) => {
            findings.error(&at(error.line), error.to_string());
            return None;
        }
    }
    Some(settings)
}

/// What a server does that is told nothing: small, and reachable from this machine only.
fn built_in_settings(inputs: &Inputs, findings: &mut Findings) -> Settings {
    let mut settings = Settings::new(Origin::CommandLine);
    settings.add_properties(&inputs.properties, &inputs.environment, findings);
    for (key, value) in [
        ("clientPort", "2181"),
        ("clientPortAddress", "127.0.0.1"),
        ("dataDir", "./zebu-data"),
        ("tickTime", "2000"),
    ] {
        settings.put(key, value, Origin::CommandLine);
    }
    settings
}

/// ZooKeeper's form without a file. Its connection limit is off unless it is given.
fn positional_settings(arguments: &[String], inputs: &Inputs, findings: &mut Findings) -> Option<Settings> {
    if arguments.len() > 4 {
        let text = format!(
            "{} arguments are too many; allowed: zoo.cfg, or port dataDir [tickTime] [maxClientCnxns]",
            arguments.len()
        );
        findings.error(&Origin::CommandLine, text);
        return None;
    }
    let mut settings = Settings::new(Origin::CommandLine);
    settings.add_properties(&inputs.properties, &inputs.environment, findings);
    settings.put("maxClientCnxns", "0", Origin::CommandLine);
    for (key, value) in ["clientPort", "dataDir", "tickTime", "maxClientCnxns"].iter().zip(arguments) {
        settings.put(key, value, Origin::CommandLine);
    }
    Some(settings)
}
