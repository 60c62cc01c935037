//! What would keep a server from working in one ensemble with Apache ZooKeeper servers although it might start.
//! Looks at settings only; ports, names and directories are the business of whoever has a machine.

use super::findings::Findings;
use super::membership::{Membership, QuorumRule};
use super::sources::Settings;

/// Settings that must be off in a mixed ensemble: the key, and what to do instead.
const SWITCHES: &[(&str, &str)] = &[
    (
        "sslQuorum",
        "the other servers speak TLS with each other, and this version cannot; turn sslQuorum off on all servers \
         first, as ZooKeeper's manual turns it on: by portUnification and three rolling restarts",
    ),
    (
        "quorum.auth.enableSasl",
        "the other servers ask this one to authenticate, and this version cannot; first restart all servers one by \
         one with quorum.auth.learnerRequireSasl=false and quorum.auth.serverRequireSasl=false, then without \
         quorum.auth.enableSasl",
    ),
];

/// Looks at a member's settings. Only what is there is spoken of.
pub(super) fn check(settings: &Settings, membership: &Membership, findings: &mut Findings) {
    if !membership.is_ensemble() {
        return;
    }
    for (key, text) in SWITCHES {
        if let Some(setting) = settings.get(key)
            && setting.value.eq_ignore_ascii_case("true")
        {
            findings.mixed(&setting.origin, format!("{key}=true: {text}"));
        }
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
        findings.mixed(&setting.origin, text);
    }
    if let QuorumRule::Oracle(path) = &membership.quorum {
        let text = format!("oraclePath {}: this version asks no oracle; use three servers", path.display());
        findings.mixed(&settings.whole, text);
    }
    if let Some(setting) = settings.get("closeSessionTxn.enabled")
        && !setting.value.eq_ignore_ascii_case("true")
    {
        let text = "closeSessionTxn.enabled=false: transactions that close sessions must name what they delete; remove \
                    it on all servers";
        findings.mixed(&setting.origin, text);
    }
    same_everywhere(settings, findings);
}

/// Settings that decide what a transaction means, how long it may be, whether it may change the members, or what a
/// session is.
fn same_everywhere(settings: &Settings, findings: &mut Findings) {
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
        findings.note(&settings.whole, text);
    }
}
