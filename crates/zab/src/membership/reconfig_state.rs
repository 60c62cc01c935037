//! The committed config and the proposed one. Until the proposed config is committed, commits and elections
//! need a quorum of both. Its version is the zxid of its transaction, so truncating the log also removes it.

use std::collections::BTreeSet;

use zebu_proto::quorum::{Notification, ServerState};
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{OpCode, ServerId, Zxid};

use super::{Configuration, vote_config};
use crate::action::{Action, ConfigEffect};
use crate::election::{ElectorSettings, MembershipMode};
use crate::encoded_txn::EncodedTxn;
use crate::quorum::QuorumRule;
use crate::settings::DynamicConfig;
use crate::zab_state::ZabState;

/// The position of the type in an encoded transaction.
const TYPE_AT: std::ops::Range<usize> = 28..32;

/// The configs of a server with dynamic reconfiguration.
#[derive(Debug)]
pub(crate) struct ReconfigState {
    committed: Configuration,
    pending: Option<ProposedConfig>,
    /// Whether the elector needs new settings.
    is_elector_update_due: bool,
    /// Whether this server kept its address as a voter when the committed config was activated.
    kept_voter_address: bool,
    /// Whether the last leader closed the connection after this server's ACKEPOCH.
    was_refused_by_leader: bool,
    /// The version of the last proposed config that was learned from votes.
    last_learned_version: i64,
}

/// The origin of a proposed config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProposalSource {
    /// The own history contains it.
    Log,
    /// A leader announced it with NEWLEADER.
    Leader,
}

#[derive(Debug)]
struct ProposedConfig {
    source: ProposalSource,
    configuration: Configuration,
    quorum: QuorumRule,
    text: Box<str>,
}

impl ReconfigState {
    pub(crate) fn new(reconfig: DynamicConfig) -> ReconfigState {
        let DynamicConfig { committed, last_seen } = reconfig;
        let pending = last_seen.filter(|seen| seen.version > committed.version).map(ProposedConfig::from_log);
        ReconfigState {
            committed,
            pending,
            is_elector_update_due: true,
            kept_voter_address: true,
            was_refused_by_leader: false,
            last_learned_version: 0,
        }
    }
}

impl ProposedConfig {
    fn new(configuration: Configuration, source: ProposalSource) -> ProposedConfig {
        let (quorum, text) = (configuration.quorum(), configuration.to_string().into());
        ProposedConfig { source, configuration, quorum, text }
    }

    fn from_log(configuration: Configuration) -> ProposedConfig {
        ProposedConfig::new(configuration, ProposalSource::Log)
    }

    fn version(&self) -> i64 {
        self.configuration.version
    }

    fn is_committed_by(&self, committed_zxid: Zxid) -> bool {
        is_committed_by(&self.configuration, committed_zxid)
    }
}

/// Whether a config is committed if everything up to `committed_zxid` is.
fn is_committed_by(configuration: &Configuration, committed_zxid: Zxid) -> bool {
    let zxid = configuration.zxid();
    // The initial version of a config is not a transaction: it is committed with the epoch.
    zxid <= committed_zxid || zxid.counter() == 0
}

impl ZabState {
    /// The committed config, if dynamic reconfiguration is enabled.
    pub(crate) fn configuration(&self) -> Option<&Configuration> {
        self.reconfig.as_ref().map(|reconfig| &reconfig.committed)
    }

    /// The proposed config that is not committed.
    pub(crate) fn pending_configuration(&self) -> Option<&Configuration> {
        self.proposed_config().map(|pending| &pending.configuration)
    }

    fn proposed_config(&self) -> Option<&ProposedConfig> {
        self.reconfig.as_ref().and_then(|reconfig| reconfig.pending.as_ref())
    }

    /// The text of the last proposed or committed config.
    pub(crate) fn last_seen_config(&self) -> &str {
        self.proposed_config().map_or(&self.settings.config, |pending| &pending.text)
    }

    /// The quorum rule of the proposed config, needed in addition to the committed one.
    pub(crate) fn pending_quorum(&self) -> Option<&QuorumRule> {
        self.proposed_config().map(|pending| &pending.quorum)
    }

    /// Whether these servers are a quorum of the committed and of the proposed config.
    pub(crate) fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.settings.quorum.is_quorum(servers)
            && self.pending_quorum().is_none_or(|quorum| quorum.is_quorum(servers))
    }

    /// The settings for the elector.
    pub(crate) fn elector_settings(&self) -> ElectorSettings {
        let members = match &self.reconfig {
            None => MembershipMode::Static,
            Some(reconfig) if reconfig.was_refused_by_leader => MembershipMode::DynamicAfterRefusal,
            Some(_) => MembershipMode::Dynamic,
        };
        let elector = ElectorSettings { membership_mode: members, ..self.settings.elector_settings() };
        match self.proposed_config() {
            None => elector,
            Some(ProposedConfig { quorum, text, configuration, .. }) => {
                let config = vote_config::vote_config_text(&elector.config, text);
                let observers = &elector.observers | &configuration.observers();
                ElectorSettings { pending_quorum: Some(quorum.clone()), observers, config, ..elector }
            }
        }
    }

    /// The settings for the elector, if they changed since the last call.
    pub(crate) fn take_elector_update(&mut self) -> Option<ElectorSettings> {
        let reconfig = self.reconfig.as_mut().filter(|reconfig| reconfig.is_elector_update_due)?;
        reconfig.is_elector_update_due = false;
        Some(self.elector_settings())
    }

    /// The leader closed the connection after the ACKEPOCH of this server.
    pub(crate) fn refused_by_leader(&mut self) {
        self.set_refused_by_leader(true);
    }

    /// The leader has synchronized this server.
    pub(crate) fn accepted_by_leader(&mut self) {
        self.set_refused_by_leader(false);
    }

    fn set_refused_by_leader(&mut self, is_refused: bool) {
        if let Some(reconfig) =
            self.reconfig.as_mut().filter(|reconfig| reconfig.was_refused_by_leader != is_refused)
        {
            reconfig.was_refused_by_leader = is_refused;
            reconfig.is_elector_update_due = true;
        }
    }

    /// A transaction was appended. If it contains a config, that config is pending now.
    pub(crate) fn observe_txn(&mut self, entry: &EncodedTxn, out: &mut Vec<Action>) {
        if self.reconfig.is_some()
            && entry.bytes.get(TYPE_AT) == Some(&OpCode::Reconfig.wire().to_be_bytes())
            && let Ok(TxnEntry { txn: Txn::Reconfig(set), .. }) = TxnEntry::decode(&entry.bytes)
            && let Some(Ok(text)) = set.data.as_deref().map(std::str::from_utf8)
            && let Ok(configuration) = Configuration::parse(text)
        {
            self.observe_config(configuration, ProposalSource::Log, out);
        }
    }

    /// Makes a config pending if it is newer than the known ones.
    fn observe_config(
        &mut self,
        configuration: Configuration,
        source: ProposalSource,
        out: &mut Vec<Action>,
    ) {
        let Some(reconfig) = &mut self.reconfig else { return };
        if let Some(pending) = &mut reconfig.pending
            && pending.version() == configuration.version
            && source == ProposalSource::Log
        {
            pending.source = source;
        }
        let newest = reconfig.pending.as_ref().map_or(reconfig.committed.version, ProposedConfig::version);
        // A config without voters could never commit anything.
        if configuration.version > newest && configuration.has_voters() {
            out.push(Action::Config(ConfigEffect::PersistProposed {
                configuration: Box::new(configuration.clone()),
            }));
            reconfig.pending = Some(ProposedConfig::new(configuration, source));
            reconfig.is_elector_update_due = true;
        }
    }

    /// Records the config that came with NEWLEADER. Returns it if it is newer than the committed one.
    pub(crate) fn observe_config_from_leader(
        &mut self,
        text: Option<&[u8]>,
        out: &mut Vec<Action>,
    ) -> Option<Box<Configuration>> {
        let committed = self.configuration()?.version;
        let text = std::str::from_utf8(text?).ok()?;
        let announced =
            Configuration::parse(text).ok().filter(|it| it.version > committed && it.has_voters())?;
        self.observe_config(announced.clone(), ProposalSource::Leader, out);
        Some(Box::new(announced))
    }

    /// Activates the announced config, if the history that is committed now includes it.
    pub(crate) fn activate_announced(
        &mut self,
        announced: Configuration,
        committed_zxid: Zxid,
        out: &mut Vec<Action>,
    ) {
        let newer = self.configuration().is_some_and(|committed| announced.version > committed.version);
        if newer && is_committed_by(&announced, committed_zxid) {
            self.activate_config(announced, out);
        }
    }

    /// The first leader of a config assigns its initial version, so that later configs are newer.
    pub(crate) fn assign_initial_version(&mut self, epoch: u32, out: &mut Vec<Action>) {
        if let Some(reconfig) = &self.reconfig
            && reconfig.committed.version == 0
            && reconfig.pending.is_none()
        {
            let version = Zxid::new(epoch, 0).0;
            self.observe_config(
                Configuration { version, ..reconfig.committed.clone() },
                ProposalSource::Leader,
                out,
            );
        }
    }

    /// Everything up to `committed_zxid` is committed: activates the pending config if it is included.
    /// Returns its zxid.
    pub(crate) fn activate_committed(&mut self, committed_zxid: Zxid, out: &mut Vec<Action>) -> Option<Zxid> {
        let reconfig = self.reconfig.as_mut()?;
        let pending = reconfig.pending.take_if(|pending| pending.is_committed_by(committed_zxid))?;
        let zxid = pending.configuration.zxid();
        self.activate_config(pending.configuration, out);
        Some(zxid)
    }

    /// Activates a config that is known to be committed.
    pub(crate) fn activate_config(&mut self, configuration: Configuration, out: &mut Vec<Action>) {
        let Some(reconfig) = &mut self.reconfig else { return };
        let version = configuration.version;
        reconfig.pending.take_if(|pending| pending.configuration.version <= version);
        reconfig.is_elector_update_due = true;
        out.push(Action::Config(ConfigEffect::Activate { configuration: Box::new(configuration.clone()) }));
        reconfig.kept_voter_address =
            configuration.keeps_voter_address(self.settings.me, &reconfig.committed);
        reconfig.committed = configuration;
        reconfig.last_learned_version = 0;
        self.apply_committed_config();
    }

    /// Whether this server may go on leading in the active config.
    pub(crate) fn keeps_voter_address(&self) -> bool {
        self.reconfig.as_ref().is_none_or(|reconfig| reconfig.kept_voter_address)
    }

    /// Copies the committed config into the settings.
    pub(crate) fn apply_committed_config(&mut self) {
        let Some(ReconfigState { committed, .. }) = &self.reconfig else { return };
        let settings = &mut self.settings;
        settings.role = committed.role_of(settings.me);
        settings.quorum = committed.quorum();
        settings.observers = committed.observers();
        settings.config = committed.to_string().into();
        settings.config_version = committed.version;
    }

    /// A notification may carry a newer committed config: activates it. Returns whether its servers or
    /// groups differ.
    pub(crate) fn adopt_newer(&mut self, notification: &Notification, out: &mut Vec<Action>) -> bool {
        let Some(reconfig) = &self.reconfig else { return false };
        let Some(text) = notification.config.as_deref() else { return false };
        if Configuration::version_of(text).is_none_or(|version| version <= reconfig.committed.version) {
            return false;
        }
        // A vote with an unreadable config is still valid.
        let Ok(configuration) = Configuration::parse(text) else { return false };
        if !configuration.has_voters() {
            return false;
        }
        let same = configuration.members == reconfig.committed.members
            && configuration.groups == reconfig.committed.groups;
        self.activate_config(configuration, out);
        !same
    }

    /// The vote of a voter may carry a proposed config that is unknown here. One of its servers may be
    /// elected.
    pub(crate) fn learn_addresses(
        &mut self,
        from: ServerId,
        notification: &Notification,
        out: &mut Vec<Action>,
    ) {
        let Some(reconfig) = &mut self.reconfig else { return };
        let counts = self.settings.quorum.is_voter(from) && notification.state == ServerState::Looking;
        let (true, None, Some(text)) = (counts, &reconfig.pending, &notification.config) else { return };
        let newest = reconfig.committed.version.max(reconfig.last_learned_version);
        if let Some(configuration) = vote_config::proposed_config_in(text).filter(|it| it.version > newest) {
            reconfig.last_learned_version = configuration.version;
            out.push(Action::Config(ConfigEffect::LearnAddresses { configuration: Box::new(configuration) }));
        }
    }

    /// The log ends at `end` now: a config proposed after it is no longer pending.
    pub(crate) fn drop_pending_after(&mut self, end: Zxid) {
        if let Some(reconfig) = &mut self.reconfig
            && reconfig.pending.take_if(|pending| !pending.is_committed_by(end)).is_some()
        {
            reconfig.is_elector_update_due = true;
        }
    }

    /// A role has ended: a config that was only announced is not in the history, whatever its version.
    pub(crate) fn drop_announced(&mut self) {
        self.retain_pending(|pending| pending.source == ProposalSource::Log);
    }

    /// A snapshot replaced the history up to `end`. A config from the old history stays pending only if the
    /// leader announced it.
    pub(crate) fn drop_pending_except(&mut self, announced: Option<i64>, end: Zxid) {
        self.retain_pending(|pending| Some(pending.version()) == announced);
        let reconfig = self.reconfig.as_mut();
        if let Some(pending) = reconfig.and_then(|reconfig| reconfig.pending.as_mut())
            && pending.is_committed_by(end)
        {
            pending.source = ProposalSource::Log;
        }
    }

    /// Drops the pending config unless `keeps` holds. The initial version of a config is in no history, and
    /// stays.
    fn retain_pending(&mut self, keeps: impl Fn(&ProposedConfig) -> bool) {
        let goes =
            |pending: &mut ProposedConfig| pending.configuration.zxid().counter() != 0 && !keeps(pending);
        if let Some(reconfig) = &mut self.reconfig
            && reconfig.pending.take_if(goes).is_some()
        {
            reconfig.is_elector_update_due = true;
        }
    }
}
