//! Settings that require protection which this version lacks. Such a server does not start: a port
//! that should be encrypted or authenticated must not silently be open.

use super::diagnostics::{ConfigDiagnostics, SettingOrigin, UnmetProtection};
use super::known_keys::{self, KeyEffect};
use super::sources::{ProtectionPolicy, RawSettings};

/// Reports every setting that requires missing protection.
pub(super) fn check_protection(settings: &RawSettings, diagnostics: &mut ConfigDiagnostics) {
    for (key, setting) in &settings.values {
        let is_candidate =
            known_keys::find_key(key).is_some_and(|known| known.effect == KeyEffect::Protection);
        if is_candidate && asks_for_protection(&setting.value) {
            report_unmet(settings.protection_policy, &setting.origin, key, diagnostics);
        }
    }
}

/// Reports one setting that requires protection, by its key.
pub(super) fn report_unmet(
    missing: ProtectionPolicy,
    origin: &SettingOrigin,
    key: &str,
    diagnostics: &mut ConfigDiagnostics,
) {
    diagnostics.unmet_protection.push(UnmetProtection {
        origin: origin.clone(),
        key: key.to_owned(),
        policy: missing,
    });
}

/// Merges the reports into one diagnostic per source, because a configuration requires TLS with
/// many keys.
pub(super) fn summarize(diagnostics: &mut ConfigDiagnostics) {
    let mut reports = std::mem::take(&mut diagnostics.unmet_protection);
    reports.sort_by(|left, right| left.origin.cmp(&right.origin));
    while !reports.is_empty() {
        let place = source_of(&reports[0].origin);
        let (here, rest) = reports.into_iter().partition(|report| self::source_of(&report.origin) == place);
        reports = rest;
        summarize_source(&here, diagnostics);
    }
}

/// The lines of a file count as one source.
fn source_of(origin: &SettingOrigin) -> SettingOrigin {
    match origin {
        SettingOrigin::Line { file, .. } => SettingOrigin::File(file.clone()),
        other => other.clone(),
    }
}

fn summarize_source(reports: &[UnmetProtection], diagnostics: &mut ConfigDiagnostics) {
    let Some(first) = reports.first() else { return };
    let first_line = line_of(&first.origin);
    let mut keys = Vec::new();
    for report in reports {
        keys.push(match line_of(&report.origin) {
            Some(line) if Some(line) != first_line => format!("{} (line {line})", report.key),
            _ => report.key.clone(),
        });
    }
    let several = keys.len() > 1;
    let keys = keys.join(", ");
    match first.policy {
        ProtectionPolicy::Require => {
            let (asks, them) = if several { ("ask", "them") } else { ("asks", "it") };
            let text = format!(
                "{keys} {asks} for protection that this version does not have; \
                 remove {them}, or start without protection with -Dzebu.startUnprotected=true"
            );
            diagnostics.error(&first.origin, text);
        }
        ProtectionPolicy::StartUnprotected => {
            let are = if several { "are" } else { "is" };
            let text = format!("{keys} {are} ignored: the server starts WITHOUT this protection");
            diagnostics.warn(&first.origin, text);
        }
    }
}

fn line_of(origin: &SettingOrigin) -> Option<u32> {
    match origin {
        SettingOrigin::Line { line, .. } => Some(*line),
        SettingOrigin::File(_) | SettingOrigin::CommandLine | SettingOrigin::EnvironmentVariable(_) => None,
    }
}

/// `false`, `none` and an empty value require nothing.
fn asks_for_protection(value: &str) -> bool {
    !["", "false", "none"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
