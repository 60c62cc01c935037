//! Settings that prevent a server from working in one ensemble with Apache ZooKeeper servers,
//! although it may start. It checks settings only, no ports, names or directories.

use super::diagnostics::ConfigDiagnostics;
use super::membership::{MembershipConfig, QuorumRuleConfig};
use super::sources::RawSettings;

/// Checks the settings of a member. It reports only settings that are present.
pub(super) fn check_apache_compatibility(
    settings: &RawSettings,
    membership: &MembershipConfig,
    diagnostics: &mut ConfigDiagnostics,
) {
    if !membership.is_ensemble() {
        return;
    }
    if let Some(setting) = settings.get("dynamicConfigFile")
        && membership.version != 0
        && !settings.get("reconfigEnabled").is_some_and(|setting| setting.value.eq_ignore_ascii_case("true"))
    {
        let text = format!(
            "dynamicConfigFile {} has the version {:#x}: without reconfigEnabled=true this version announces 0, and the \
             others would refuse it; put the server.N lines into zoo.cfg of every server instead",
            setting.value, membership.version
        );
        diagnostics.apache_conflict(&setting.origin, text);
    }
    if let QuorumRuleConfig::Oracle(path) = &membership.quorum_rule {
        let text = format!("oraclePath {}: this version asks no oracle; use three servers", path.display());
        diagnostics.apache_conflict(&settings.default_origin, text);
    }
    if let Some(setting) = settings.get("closeSessionTxn.enabled")
        && !setting.value.eq_ignore_ascii_case("true")
    {
        let text = "closeSessionTxn.enabled=false: transactions that close sessions must name what they delete; remove \
                    it on all servers";
        diagnostics.apache_conflict(&setting.origin, text);
    }
    note_ensemble_wide_settings(settings, diagnostics);
}

/// Notes settings that affect the meaning or the length of a transaction, reconfiguration, or
/// sessions. They must be equal on all servers.
fn note_ensemble_wide_settings(settings: &RawSettings, diagnostics: &mut ConfigDiagnostics) {
    let keys = [
        "jute.maxbuffer",
        "jute.maxbuffer.extrasize",
        "extendedTypesEnabled",
        "emulate353TTLNodes",
        "skipACL",
        "reconfigEnabled",
        "localSessionsEnabled",
        "localSessionsUpgradingEnabled",
    ];
    let set: Vec<&str> = keys.into_iter().filter(|key| settings.get(key).is_some()).collect();
    if !set.is_empty() {
        let text = format!("in a mixed ensemble these must be the same on all servers: {}", set.join(", "));
        diagnostics.note(&settings.default_origin, text);
    }
}
