//! Loads a configuration from raw inputs. This module orders all steps. It reads files and names
//! through [`SystemAccess`] and never ends the process.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::build;
use super::diagnostics::{ConfigDiagnostics, SettingOrigin};
use super::properties;
use super::security::quorum_sasl::QuorumSaslConfig;
use super::security::tls::QuorumTlsConfig;
use super::server_config::{ConfigSource, OriginalText, ServerConfig, WrittenSettings};
use super::setting_reader::SettingReader;
use super::sources::{Environment, RawSettings};
use super::{apache_compat, ensemble, protection, security};
use zebu_kerberos::LibraryFiles;

use crate::ports::host_address;
use crate::tls::store_file;

/// The inputs of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigInputs {
    /// The arguments after `serve`: none, a file, or `port dataDir [tickTime] [maxClientCnxns]`.
    pub arguments: Vec<String>,
    /// The `-D` words without their `-D`, in order: `name=value`.
    pub properties: Vec<String>,
    /// The environment variables of the process.
    pub environment: Environment,
}

/// The system calls that loading a configuration needs.
pub trait SystemAccess {
    /// Reads a file.
    ///
    /// # Errors
    /// An error of the system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Reads a regular file of up to `limit` bytes, and never waits for a pipe or a device.
    ///
    /// # Errors
    /// An error of the system, or the file is no regular file or too long.
    fn read_bounded(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.read(path)?;
        if bytes.len() > limit { Err(io::Error::from(io::ErrorKind::FileTooLarge)) } else { Ok(bytes) }
    }

    /// Whether every user of the machine may read the file.
    fn is_world_readable(&self, _path: &Path) -> bool {
        false
    }

    /// Resolves a host name.
    ///
    /// # Errors
    /// An error of the system.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether a directory exists.
    fn is_directory(&self, path: &Path) -> bool;

    /// The index of a network interface, by the zone of an IPv6 literal (`fe80::1%eth0`).
    ///
    /// # Errors
    /// There is no such interface.
    fn interface_index(&self, zone: &str) -> io::Result<u32>;
}

/// The system of this process.
#[derive(Debug, Clone, Copy)]
pub struct LocalSystem;

impl SystemAccess for LocalSystem {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn read_bounded(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        store_file::read_regular_file(path, limit)
    }

    fn is_world_readable(&self, path: &Path) -> bool {
        store_file::is_world_readable(path)
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

/// The result: a configuration exactly when there are no errors.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// `None` if there are errors.
    pub config: Option<ServerConfig>,
    /// All diagnostics, in the order of the file.
    pub diagnostics: ConfigDiagnostics,
}

/// What protects the connections between servers.
#[derive(Debug, Clone, PartialEq)]
pub struct QuorumProtection {
    /// `sslQuorum` and its stores.
    pub tls: QuorumTlsConfig,
    /// `quorum.auth.*`.
    pub sasl: QuorumSaslConfig,
    /// The files that the Kerberos library must find in the environment; `None` without a Kerberos login.
    pub kerberos: Option<LibraryFiles>,
}

/// Loads and checks a configuration. Finds all errors at once.
pub fn load(inputs: &ConfigInputs, system: &dyn SystemAccess) -> LoadedConfig {
    let mut diagnostics = ConfigDiagnostics::default();
    let config = load_with(inputs, system, &mut diagnostics);
    protection::summarize(&mut diagnostics);
    diagnostics.sort();
    let config = config.filter(|_| diagnostics.errors.is_empty());
    LoadedConfig { config, diagnostics }
}

/// Loads only what protects the connections between servers, for a program that joins an ensemble and is no
/// server of it. The file may be the configuration of a server, or have nothing but these keys.
pub fn load_quorum_protection(
    file: &Path,
    properties: &[String],
    environment: &Environment,
    system: &dyn SystemAccess,
) -> (Option<QuorumProtection>, ConfigDiagnostics) {
    let mut diagnostics = ConfigDiagnostics::default();
    let inputs = ConfigInputs {
        arguments: Vec::new(),
        properties: properties.to_vec(),
        environment: environment.clone(),
    };
    let protection = read_config_file(file, system, &mut diagnostics)
        .and_then(|text| file_settings(file, &text, &inputs, &mut diagnostics))
        .map(|settings| {
            let mut reader = SettingReader { settings: &settings, diagnostics: &mut diagnostics };
            security::quorum_protection(&mut reader, system)
        });
    diagnostics.sort();
    (protection.filter(|_| diagnostics.errors.is_empty()), diagnostics)
}

fn load_with(
    inputs: &ConfigInputs,
    system: &dyn SystemAccess,
    diagnostics: &mut ConfigDiagnostics,
) -> Option<ServerConfig> {
    let (source, text, settings) = match &inputs.arguments[..] {
        [] => (ConfigSource::BuiltIn, String::new(), built_in_settings(inputs, diagnostics)),
        [file] => {
            let path = PathBuf::from(file);
            let text = read_config_file(&path, system, diagnostics)?;
            let settings = file_settings(&path, &text, inputs, diagnostics)?;
            (ConfigSource::File(path), text, settings)
        }
        arguments => {
            (ConfigSource::Arguments, String::new(), positional_settings(arguments, inputs, diagnostics)?)
        }
    };
    settings.note_keys_without_effect(diagnostics);
    protection::check_protection(&settings, diagnostics);
    let mut reader = SettingReader { settings: &settings, diagnostics };
    let data_dir = build::data_dir(&mut reader, system);
    let membership = ensemble::read_membership(&mut reader, &data_dir, system);
    apache_compat::check_apache_compatibility(reader.settings, &membership, reader.diagnostics);
    let mut config = build::server_config(&mut reader, &source, &data_dir, membership, system);
    config.source = source;
    config.original_text = OriginalText(text);
    let written = settings.values.iter().map(|(key, setting)| (key.clone(), setting.value.clone()));
    config.written_settings = WrittenSettings(written.collect());
    Some(config)
}

fn read_config_file(
    path: &Path,
    system: &dyn SystemAccess,
    diagnostics: &mut ConfigDiagnostics,
) -> Option<String> {
    let origin = SettingOrigin::File(path.to_owned());
    match system.read(path) {
        Ok(bytes) => Some(properties::decode_latin1(&bytes)),
        Err(error) => {
            diagnostics.error(&origin, format!("the configuration file cannot be read: {error}"));
            None
        }
    }
}

fn file_settings(
    path: &Path,
    text: &str,
    inputs: &ConfigInputs,
    diagnostics: &mut ConfigDiagnostics,
) -> Option<RawSettings> {
    let at = |line| SettingOrigin::Line { file: path.to_owned(), line };
    let mut settings = RawSettings::new(SettingOrigin::File(path.to_owned()));
    settings.add_properties(&inputs.properties, &inputs.environment, diagnostics);
    match properties::parse_properties(text) {
        Ok(entries) => settings.add_file(entries, at, diagnostics),
        Err(error) => {
            diagnostics.error(&at(error.line), error.to_string());
            return None;
        }
    }
    Some(settings)
}

/// The settings without arguments: small, and reachable from this machine only.
fn built_in_settings(inputs: &ConfigInputs, diagnostics: &mut ConfigDiagnostics) -> RawSettings {
    let mut settings = RawSettings::new(SettingOrigin::CommandLine);
    settings.add_properties(&inputs.properties, &inputs.environment, diagnostics);
    for (key, value) in [
        ("clientPort", "2181"),
        ("clientPortAddress", "127.0.0.1"),
        ("dataDir", "./zebu-data"),
        ("tickTime", "2000"),
    ] {
        settings.insert(key, value, SettingOrigin::CommandLine);
    }
    settings
}

/// ZooKeeper's form without a file. Its connection limit is off unless given.
fn positional_settings(
    arguments: &[String],
    inputs: &ConfigInputs,
    diagnostics: &mut ConfigDiagnostics,
) -> Option<RawSettings> {
    if arguments.len() > 4 {
        let text = format!(
            "{} arguments are too many; allowed: zoo.cfg, or port dataDir [tickTime] [maxClientCnxns]",
            arguments.len()
        );
        diagnostics.error(&SettingOrigin::CommandLine, text);
        return None;
    }
    let mut settings = RawSettings::new(SettingOrigin::CommandLine);
    settings.add_properties(&inputs.properties, &inputs.environment, diagnostics);
    settings.insert("maxClientCnxns", "0", SettingOrigin::CommandLine);
    for (key, value) in ["clientPort", "dataDir", "tickTime", "maxClientCnxns"].iter().zip(arguments) {
        settings.insert(key, value, SettingOrigin::CommandLine);
    }
    Some(settings)
}
