//! Settings that ask for protection which this version does not have. Such a server does not start: a port
//! that was meant to be encrypted or authenticated must not silently be open.

use super::findings::{Findings, Origin, Unprotected};
use super::known::{self, Effect};
use super::sources::{MissingProtection, Settings};

/// Providers that are always there; naming them asks for nothing more.
const BUILT_IN_PROVIDERS: [&str; 2] = ["DigestAuthenticationProvider", "IPAuthenticationProvider"];

/// Reports every setting that asks for missing protection.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    for (key, setting) in &settings.values {
        let is_candidate = known::find(key).is_some_and(|known| known.effect == Effect::Protection);
        if is_candidate && asks(key, &setting.value) {
            report(settings.missing_protection, &setting.origin, key, findings);
        }
    }
}

/// Reports one wish for protection, by the name of its key.
pub(super) fn report(missing: MissingProtection, origin: &Origin, key: &str, findings: &mut Findings) {
    findings.unprotected.push(Unprotected { origin: origin.clone(), key: key.to_owned(), missing });
}

/// Turns all reports into one finding per place: a configuration asks for TLS with many keys.
pub(super) fn conclude(findings: &mut Findings) {
    let mut reports = std::mem::take(&mut findings.unprotected);
    reports.sort_by(|left, right| left.origin.cmp(&right.origin));
    while !reports.is_empty() {
        let place = place(&reports[0].origin);
        let (here, rest) = reports.into_iter().partition(|report| self::place(&report.origin) == place);
        reports = rest;
        conclude_place(&here, findings);
    }
}

/// The lines of a file are one place.
fn place(origin: &Origin) -> Origin {
    match origin {
        Origin::Line { file, .. } => Origin::File(file.clone()),
        other => other.clone(),
    }
}

fn conclude_place(reports: &[Unprotected], findings: &mut Findings) {
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
    match first.missing {
        MissingProtection::Refused => {
            let (asks, them) = if several { ("ask", "them") } else { ("asks", "it") };
            let text = format!(
                "{keys} {asks} for protection that this version does not have; \
                 remove {them}, or start without protection with -Dzebu.startUnprotected=true"
            );
            findings.error(&first.origin, text);
        }
        MissingProtection::Allowed => {
            let are = if several { "are" } else { "is" };
            let text = format!("{keys} {are} ignored: the server starts WITHOUT this protection");
            findings.warn(&first.origin, text);
        }
    }
}

fn line_of(origin: &Origin) -> Option<u32> {
    match origin {
        Origin::Line { line, .. } => Some(*line),
        Origin::File(_) | Origin::CommandLine | Origin::Variable(_) => None,
    }
}

/// `false`, `none` and an empty value ask for nothing.
fn asks(key: &str, value: &str) -> bool {
    if key.starts_with("authProvider.") && !value.is_empty() {
        let class = value.rsplit('.').next().unwrap_or_default();
        return !BUILT_IN_PROVIDERS.contains(&class);
    }
    let off = ["", "false", "none"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let unset_port = key == "secureClientPort" && value == "0";
    !off && !unset_port
}
