//! The audit log (`audit.*`, and `zebu.audit.*` for what ZooKeeper configures in its logging files).
//!
//! An audit class that is not known refuses the start: its lines would be missed where they are collected.

use std::path::PathBuf;

use super::super::setting_reader::{NumberUnit, SettingReader};
use crate::rotated_file::RotatedFileConfig;

/// ZooKeeper's only audit class.
const KNOWN_CLASS: &str = "org.apache.zookeeper.audit.Slf4jAuditLogger";
/// ZooKeeper's name of the file.
const FILE_NAME: &str = "zookeeper_audit.log";
const FILE_BYTES: u32 = 10 << 20;
const FILE_BYTES_MIN: i64 = 1024;
const ROTATED_FILES: u32 = 10;
const ROTATED_FILES_MAX: i64 = 1000;

/// The audit log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AuditConfig {
    /// `None` without `audit.enable=true`.
    pub log: Option<AuditLogConfig>,
}

/// An audit log that is written.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLogConfig {
    /// The target of the lines.
    pub target: AuditTarget,
    /// `zebu.audit.format`.
    pub format: AuditFormat,
    /// `zebu.audit.onFailure`.
    pub on_failure: AuditFailurePolicy,
    /// `zebu.audit.extraEvents`: failed authentication, logins as super user, snapshots and restores.
    pub extra_events: bool,
}

/// The target of the lines.
#[derive(Debug, Clone, PartialEq)]
pub enum AuditTarget {
    /// The server log, as in ZooKeeper without further configuration.
    ServerLog,
    /// A file of its own.
    File(RotatedFileConfig),
}

/// The form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFormat {
    /// ZooKeeper's lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// What happens while the audit log cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFailurePolicy {
    /// The server goes on; lost lines are counted.
    Continue,
    /// Writes of clients are refused until the log can be written again.
    RefuseWrites,
}

pub(super) fn read_audit(reader: &mut SettingReader<'_>) -> AuditConfig {
    check_class(reader);
    let path = reader.get("zebu.audit.file").map(|setting| PathBuf::from(&setting.value));
    let log_dir = reader.get("log.dir").map(|setting| PathBuf::from(&setting.value).join(FILE_NAME));
    let bytes_max =
        u64::from(reader.count("zebu.audit.fileBytes", FILE_BYTES_MIN, NumberUnit::Bytes, FILE_BYTES));
    let rotated = reader.number("zebu.audit.files", 0..=ROTATED_FILES_MAX, NumberUnit::Count);
    let rotated_max = rotated.and_then(|number| u32::try_from(number).ok()).unwrap_or(ROTATED_FILES);
    let format = match word(reader, "zebu.audit.format", &["text", "json"]) {
        Some("json") => AuditFormat::Json,
        _ => AuditFormat::Text,
    };
    let on_failure = match word(reader, "zebu.audit.onFailure", &["continue", "refuseWrites"]) {
        Some("refuseWrites") => AuditFailurePolicy::RefuseWrites,
        _ => AuditFailurePolicy::Continue,
    };
    let extra_events = reader.strict_switch("zebu.audit.extraEvents", false);
    if !reader.loose_switch("audit.enable", false) {
        return AuditConfig { log: None };
    }
    let target = match path.or(log_dir) {
        Some(path) => AuditTarget::File(RotatedFileConfig { path, bytes_max, rotated_max }),
        None => AuditTarget::ServerLog,
    };
    AuditConfig { log: Some(AuditLogConfig { target, format, on_failure, extra_events }) }
}

fn check_class(reader: &mut SettingReader<'_>) {
    let Some(setting) = reader.get("audit.impl.class") else { return };
    if setting.value != KNOWN_CLASS {
        let text = format!(
            "audit.impl.class = \"{}\" is not known; remove the line, or write {KNOWN_CLASS}",
            setting.value
        );
        reader.diagnostics.error(&setting.origin, text);
    }
}

/// One of a few words. Another value is an error.
fn word(reader: &mut SettingReader<'_>, key: &str, words: &[&'static str]) -> Option<&'static str> {
    let setting = reader.get(key)?;
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(&setting.value)).copied();
    if found.is_none() {
        reader.report_invalid(key, setting, &words.join(" or "));
    }
    found
}
