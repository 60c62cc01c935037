//! `zebu check`: what a configuration would do, without starting anything.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use zebu_server::config::{Finding, Loaded, PurgeInterval, ServerConfig, ThisMachine, WordWhitelist, load};

use super::serve::BAD_CONFIG;
use crate::config_arguments::ConfigArguments;
use crate::console::say;

/// Say what a configuration would do, without starting
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu check conf/zoo.cfg
  zebu check --json conf/zoo.cfg
  zebu check -Dzookeeper.snapCount=50000 conf/zoo.cfg

Exit status: 0 the server would start, 2 it would not.")]
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
        let loaded = load(&self.config.inputs(), &ThisMachine);
        if self.json {
            say(format!("{:#}", as_json(&loaded)));
        } else {
            as_text(&loaded).iter().for_each(say);
        }
        match loaded.config {
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::from(BAD_CONFIG),
        }
    }
}

fn as_text(loaded: &Loaded) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, findings) in [
        ("error", &loaded.findings.errors),
        ("warning", &loaded.findings.warnings),
        ("note", &loaded.findings.notes),
    ] {
        lines.extend(findings.iter().map(|finding| format!("{kind}: {finding}")));
    }
    match &loaded.config {
        Some(config) => lines.extend(summary(config)),
        None => lines.push("would not start: exit status 2".to_owned()),
    }
    lines
}

fn summary(config: &ServerConfig) -> Vec<String> {
    let purge = match config.storage.purge_interval {
        PurgeInterval::Unset => "daily in a directory that Zebu created, never in one taken over".to_owned(),
        PurgeInterval::Off => "off".to_owned(),
        PurgeInterval::Every(interval) => {
            format!("every {} s, keeping {} snapshots", interval.as_secs(), config.storage.snap_retain_count)
        }
    };
    vec![
        "would start a standalone server".to_owned(),
        format!("  clients:   {}", config.listen.client),
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
    ]
}

fn words(whitelist: &WordWhitelist) -> Vec<&str> {
    match whitelist {
        WordWhitelist::All => vec!["*"],
        WordWhitelist::Only(words) => words.iter().map(String::as_str).collect(),
    }
}

fn as_json(loaded: &Loaded) -> Value {
    let list = |findings: &[Finding]| -> Vec<Value> {
        findings
            .iter()
            .map(|finding| json!({ "place": finding.origin.to_string(), "text": finding.text }))
            .collect()
    };
    let server = loaded.config.as_ref().map(|config| {
        json!({
            "mode": "standalone",
            "client_address": config.listen.client.to_string(),
            "snapshot_dir": config.storage.snapshot_dir(),
            "log_dir": config.storage.log_dir(),
            "tick_time_ms": config.sessions.tick_time.as_millis() as u64,
            "min_session_timeout_ms": config.sessions.min_timeout.as_millis() as u64,
            "max_session_timeout_ms": config.sessions.max_timeout.as_millis() as u64,
            "four_letter_words": words(&config.four_letter_words),
        })
    });
    json!({
        "starts": loaded.config.is_some(),
        "errors": list(&loaded.findings.errors),
        "warnings": list(&loaded.findings.warnings),
        "notes": list(&loaded.findings.notes),
        "server": server,
    })
}
