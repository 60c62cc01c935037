//! `zebu check`: what a configuration would do, without starting anything, and what would keep a member from working
//! in one ensemble with Apache ZooKeeper servers.

mod machine;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use zebu_server::config::membership::{Member, Role};
use zebu_server::config::{Finding, Loaded, PurgeInterval, ServerConfig, ThisMachine, WordWhitelist, load};

use super::serve::BAD_CONFIG;
use crate::config_arguments::ConfigArguments;
use crate::console::say;
use machine::Notice;

/// Say what a configuration would do, without starting
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu check conf/zoo.cfg
  zebu check --json conf/zoo.cfg
  zebu check -Dzookeeper.snapCount=50000 conf/zoo.cfg

For a member of an ensemble, lines that begin with \"obstacle\" say what would keep it from working together with \
Apache ZooKeeper servers, on this machine and now.
Exit status: 0 the server would start, 1 it would start but there are obstacles, 2 it would not start.")]
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
        let notices = notices(&loaded);
        if self.json {
            say(format!("{:#}", as_json(&loaded, &notices)));
        } else {
            as_text(&loaded, &notices).iter().for_each(say);
        }
        match loaded.config {
            Some(_) if notices.iter().any(|notice| matches!(notice, Notice::Obstacle(_))) => {
                ExitCode::FAILURE
            }
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::from(BAD_CONFIG),
        }
    }
}

/// What stands in a member's way; nothing is looked at for a server without an ensemble.
fn notices(loaded: &Loaded) -> Vec<Notice> {
    let mixed = loaded.findings.mixed.iter().map(|finding| Notice::Obstacle(finding.to_string()));
    let member = loaded.config.as_ref().filter(|config| config.membership.is_ensemble());
    mixed.chain(member.map(machine::look).unwrap_or_default()).collect()
}

fn as_text(loaded: &Loaded, notices: &[Notice]) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, findings) in [
        ("error", &loaded.findings.errors),
        ("warning", &loaded.findings.warnings),
        ("note", &loaded.findings.notes),
    ] {
        lines.extend(findings.iter().map(|finding| format!("{kind}: {finding}")));
    }
    lines.extend(notices.iter().map(ToString::to_string));
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
    let mut lines = vec![what(config)];
    if config.membership.is_ensemble() {
        lines.push(format!("  members:   {}", members(config)));
    }
    lines.extend([
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
    ]);
    lines
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

fn is_observer(member: &Member) -> bool {
    member.role == Role::Observer
}

fn members(config: &ServerConfig) -> String {
    let observers = config.membership.members.values().filter(|member| is_observer(member)).count();
    let participants = config.membership.members.len() - observers;
    format!("{participants} participants, {observers} observers")
}

fn words(whitelist: &WordWhitelist) -> Vec<&str> {
    match whitelist {
        WordWhitelist::All(words) => std::iter::once("*").chain(words.iter().map(String::as_str)).collect(),
        WordWhitelist::Only(words) => words.iter().map(String::as_str).collect(),
    }
}

fn as_json(loaded: &Loaded, notices: &[Notice]) -> Value {
    let list = |findings: &[Finding]| -> Vec<Value> {
        findings
            .iter()
            .map(|finding| json!({ "place": finding.origin.to_string(), "text": finding.text }))
            .collect()
    };
    let server = loaded.config.as_ref().map(|config| {
        json!({
            "mode": if config.membership.is_ensemble() { "ensemble" } else { "standalone" },
            "server_id": config.server_id().map(|id| id.0),
            "client_address": config.listen.client.to_string(),
            "snapshot_dir": config.storage.snapshot_dir(),
            "log_dir": config.storage.log_dir(),
            "tick_time_ms": config.sessions.tick_time.as_millis() as u64,
            "min_session_timeout_ms": config.sessions.min_timeout.as_millis() as u64,
            "max_session_timeout_ms": config.sessions.max_timeout.as_millis() as u64,
            "four_letter_words": words(&config.four_letter_words),
        })
    });
    let texts = |wanted: fn(&Notice) -> bool| -> Vec<&str> {
        notices.iter().filter(|notice| wanted(notice)).map(Notice::text).collect()
    };
    json!({
        "starts": loaded.config.is_some(),
        "obstacles": texts(|notice| matches!(notice, Notice::Obstacle(_))),
        "remarks": texts(|notice| matches!(notice, Notice::Remark(_))),
        "errors": list(&loaded.findings.errors),
        "warnings": list(&loaded.findings.warnings),
        "notes": list(&loaded.findings.notes),
        "server": server,
    })
}
