//! Settings that ask for protection which this version does not have. Such a server does not start: a port
//! that was meant to be encrypted or authenticated must not silently be open.

use super::findings::{Findings, Origin};
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
    match missing {
        MissingProtection::Refused => {
            let text = format!(
                "{key} asks for protection that this version does not have; \
                 remove it, or start without protection with -Dzebu.startUnprotected=true"
            );
            findings.error(origin, text);
        }
        MissingProtection::Allowed => {
            findings.warn(origin, format!("{key} is ignored: the server starts WITHOUT this protection"));
        }
    }
}

/// `false`, `none` and an empty value ask for nothing.
fn asks(key: &str, value: &str) -> bool {
    if key.starts_with("authProvider.") {
        let class = value.rsplit('.').next().unwrap_or_default();
        return !BUILT_IN_PROVIDERS.contains(&class);
    }
    let off = ["", "false", "none"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let unset_port = key == "secureClientPort" && value == "0";
    !off && !unset_port
}
