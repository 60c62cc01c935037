//! `zebu check`: what a configuration would do, without starting anything: whether a server would start on
//! this machine now, and what would keep a member from working in one ensemble with Apache ZooKeeper servers.

mod data;
mod machine;
mod notice;
mod protection;
mod sasl;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use zebu_server::config::admin::AdminProtection;
use zebu_server::config::membership::{Role, ServerSpec};
use zebu_server::config::{
    ConfigDiagnostic, FourLetterWhitelist, LoadedConfig, LocalSystem, PurgeInterval, ServerConfig, load,
};

use super::serve::BAD_CONFIG;
use crate::config_arguments::ConfigArguments;
use crate::console::print_line;
use notice::{Notice, Notices};
use protection::ProtectionReport;

/// The status of a configuration that could be served, were it not for another process.
const BUSY: u8 = 3;

/// Say what a configuration would do, without starting
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu check conf/zoo.cfg
  zebu check --json conf/zoo.cfg
  zebu check -Dzookeeper.snapCount=50000 conf/zoo.cfg

It tries what a start would: the ports, the lock of dataDir, the directories, the newest usable snapshot and the logs \
behind it. Nothing is changed, and a server that runs is not disturbed.
Lines that begin with \"error\" say why it would not start, with \"busy\" what another process has, with \"obstacle\" \
what would keep a member from working together with Apache ZooKeeper servers.
Exit status: 0 the server would start, 1 it would start but there are obstacles, 2 it would not start, 3 it would start \
once what is busy is free.")]
pub(crate) struct Check {
    #[command(flatten)]
    config: ConfigArguments,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Checks.
    pub(crate) fn run(self) -> ExitCode {
        let loaded = load(&self.config.inputs(), &LocalSystem);
        let notices = notices(&loaded);
        if self.json {
            print_line(format!("{:#}", as_json(&loaded, &notices)));
        } else {
            as_text(&loaded, &notices).iter().for_each(print_line);
        }
        let is_refused = loaded.config.is_none() || notices.fatal_status().is_some();
        match is_refused {
            true => ExitCode::from(BAD_CONFIG),
            false if notices.has_obstacle() => ExitCode::FAILURE,
            false if notices.has_busy() => ExitCode::from(BUSY),
            false => ExitCode::SUCCESS,
        }
    }
}

/// What stands in the way of a start.
fn notices(loaded: &LoadedConfig) -> Notices {
    let mixed =
        loaded.diagnostics.apache_conflicts.iter().map(|finding| Notice::Obstacle(finding.to_string()));
    Notices(mixed.chain(loaded.config.as_ref().map(machine::look).unwrap_or_default()).collect())
}

fn as_text(loaded: &LoadedConfig, notices: &Notices) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, findings) in [
        ("error", &loaded.diagnostics.errors),
        ("warning", &loaded.diagnostics.warnings),
        ("note", &loaded.diagnostics.notes),
    ] {
        lines.extend(findings.iter().map(|finding| format!("{kind}: {finding}")));
    }
    lines.extend(notices.0.iter().map(ToString::to_string));
    match (&loaded.config, notices.fatal_status()) {
        (Some(config), None) => lines.extend(summary(config, notices)),
        (config, status) => {
            let status = config.as_ref().and(status).unwrap_or(BAD_CONFIG);
            lines.push(format!("would not start: exit status {status}"));
        }
    }
    lines
}

fn summary(config: &ServerConfig, notices: &Notices) -> Vec<String> {
    let purge = match config.storage.purge_interval {
        PurgeInterval::Unset => "daily in a directory that Zebu created, never in one taken over".to_owned(),
        PurgeInterval::Off => "off".to_owned(),
        PurgeInterval::Every(interval) => {
            format!("every {} s, keeping {} snapshots", interval.as_secs(), config.storage.snap_retain_count)
        }
    };
    let when = if notices.has_busy() { ", once what is busy is free" } else { "" };
    let mut lines = vec![format!("{}{when}", what(config))];
    if config.membership.is_ensemble() {
        lines.push(format!("  members:   {}", members(config)));
    }
    let protection = ProtectionReport::of(config);
    lines.extend(protection.port_lines());
    lines.extend([
        format!("  snapshots: {}", config.storage.snapshot_dir().display()),
        format!("  log:       {}", config.storage.log_dir().display()),
        format!(
            "  sessions:  {} to {} ms, tick {} ms",
            config.sessions.min_timeout.as_millis(),
            config.sessions.max_timeout.as_millis(),
            config.sessions.tick_time.as_millis()
        ),
        format!("  purge:     {purge}"),
        format!("  words:     {}", words(&config.four_letter_words).join(", ")),
    ]);
    lines.push(format!("  admin:     {}", admin(config)));
    for exporter in &config.exporter.listeners {
        let address = exporter.address;
        lines.push(format!("  exporter:  {address}/metrics, {}", protocol(&exporter.protection)));
    }
    lines.extend(protection.identity_lines());
    lines
}

/// The admin server.
fn admin(config: &ServerConfig) -> String {
    let Some(admin) = &config.admin else { return "off".to_owned() };
    format!("{}{}, {}", admin.address, admin.command_url, protocol(&admin.protection))
}

fn protocol(protection: &AdminProtection) -> &'static str {
    match protection {
        AdminProtection::Plain => "http",
        AdminProtection::PlainOrTls(_) => "http and https",
        AdminProtection::Tls(_) => "https",
    }
}

/// What would start.
fn what(config: &ServerConfig) -> String {
    let membership = &config.membership;
    match membership.my_id.filter(|_| membership.is_ensemble()) {
        None => "would start a standalone server".to_owned(),
        Some(id) => {
            let own = membership.members.get(&id);
            let word = if own.is_some_and(is_observer) { "observer" } else { "participant" };
            format!("would start server {} of an ensemble, as {word}", id.0)
        }
    }
}

fn is_observer(member: &ServerSpec) -> bool {
    member.role == Role::Observer
}

fn members(config: &ServerConfig) -> String {
    let observers = config.membership.members.values().filter(|member| is_observer(member)).count();
    let participants = config.membership.members.len() - observers;
    format!("{participants} participants, {observers} observers")
}

fn words(whitelist: &FourLetterWhitelist) -> Vec<&str> {
    match whitelist {
        FourLetterWhitelist::All(words) => {
            std::iter::once("*").chain(words.iter().map(String::as_str)).collect()
        }
        FourLetterWhitelist::Only(words) => words.iter().map(String::as_str).collect(),
    }
}

fn as_json(loaded: &LoadedConfig, notices: &Notices) -> Value {
    let list = |findings: &[ConfigDiagnostic]| -> Vec<Value> {
        findings
            .iter()
            .map(|finding| json!({ "place": finding.origin.to_string(), "text": finding.text }))
            .collect()
    };
    let server = loaded.config.as_ref().map(|config| {
        json!({
            "mode": if config.membership.is_ensemble() { "ensemble" } else { "standalone" },
            "server_id": config.server_id().map(|id| id.0),
            "client_address": config.listen.client.map(|client| client.to_string()),
            "secure_client_address": config.security.client_tls.secure_address.map(|secure| secure.to_string()),
            "snapshot_dir": config.storage.snapshot_dir(),
            "log_dir": config.storage.log_dir(),
            "tick_time_ms": config.sessions.tick_time.as_millis() as u64,
            "min_session_timeout_ms": config.sessions.min_timeout.as_millis() as u64,
            "max_session_timeout_ms": config.sessions.max_timeout.as_millis() as u64,
            "four_letter_words": words(&config.four_letter_words),
            "protection": ProtectionReport::of(config).json(),
        })
    });
    let starts = loaded.config.is_some() && notices.fatal_status().is_none();
    let mut object = json!({
        "starts": starts,
        "starts_now": starts && !notices.has_busy(),
        "errors": list(&loaded.diagnostics.errors),
        "warnings": list(&loaded.diagnostics.warnings),
        "notes": list(&loaded.diagnostics.notes),
        "server": server,
    });
    notices.put_into(&mut object);
    object
}
