//! When a configuration takes effect. One that was proposed is pending: until it is decided, whatever is decided
//! needs a quorum of both. Its version is the place of its transaction, so the log knows what is pending, and
//! what is cut from the log is pending no more.

use std::collections::BTreeSet;

use zebu_proto::quorum::{Notification, PeerState};
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{OpCode, ServerId, Zxid};

use super::{Configuration, hearsay};
use crate::action::Action;
use crate::election::{ElectorSettings, Members};
use crate::entry::Entry;
use crate::member::Member;
use crate::quorum::QuorumRule;
use crate::settings::Dynamic;

/// Where the type of a transaction stands in its bytes.
const TYPE_AT: std::ops::Range<usize> = 28..32;

/// The configurations of a member that may change.
#[derive(Debug)]
pub(crate) struct Activation {
    committed: Configuration,
    pending: Option<Pending>,
    /// Whether the elector has to be told.
    told: Told,
    /// Whether this server voted before at the address where it votes now.
    own_vote: OwnVote,
    refused: Refused,
    /// The version of the last proposed configuration that others spoke of.
    heard_of: i64,
}

/// Whether the last leader has refused this server after it had told its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnVote {
    Kept,
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Yes,
    NotYet,
}

/// How this server knows of a configuration that was proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It is in the own history.
    History,
    /// A leader has spoken of it.
    Leader,
}

#[derive(Debug)]
struct Pending {
    source: Source,
    configuration: Configuration,
    quorum: QuorumRule,
    text: Box<str>,
}

impl Activation {
    pub(crate) fn new(dynamic: Dynamic) -> Activation {
        let Dynamic { committed, last_seen } = dynamic;
        let pending = last_seen.filter(|seen| seen.version > committed.version).map(Pending::logged);
        Activation {
            committed,
            pending,
            told: Told::NotYet,
            own_vote: OwnVote::Kept,
            refused: Refused::No,
            heard_of: 0,
        }
    }
}

impl Pending {
    fn new(configuration: Configuration, source: Source) -> Pending {
        let (quorum, text) = (configuration.quorum(), configuration.to_string().into());
        Pending { source, configuration, quorum, text }
    }

    fn logged(configuration: Configuration) -> Pending {
        Pending::new(configuration, Source::History)
    }

    fn version(&self) -> i64 {
        self.configuration.version
    }

    fn is_decided_with(&self, decided: Zxid) -> bool {
        is_decided_with(&self.configuration, decided)
    }
}

/// Whether everything up to here being decided means that a configuration is.
fn is_decided_with(configuration: &Configuration, decided: Zxid) -> bool {
    let zxid = configuration.zxid();
    // The first version of a configuration is no transaction: it is decided with the epoch.
    zxid <= decided || zxid.counter() == 0
}

impl Member {
    /// The configuration that is in effect, if it may change.
    pub(crate) fn configuration(&self) -> Option<&Configuration> {
        self.dynamic.as_ref().map(|dynamic| &dynamic.committed)
    }

    /// The configuration that was proposed and is not in effect.
    pub(crate) fn pending(&self) -> Option<&Configuration> {
        self.pending_part().map(|pending| &pending.configuration)
    }

    fn pending_part(&self) -> Option<&Pending> {
        self.dynamic.as_ref().and_then(|dynamic| dynamic.pending.as_ref())
    }

    /// The last configuration that was seen, as text.
    pub(crate) fn last_seen_text(&self) -> &str {
        self.pending_part().map_or(&self.settings.config, |pending| &pending.text)
    }

    /// Which sets decide about what is pending, beside those of the configuration in effect.
    pub(crate) fn pending_quorum(&self) -> Option<&QuorumRule> {
        self.pending_part().map(|pending| &pending.quorum)
    }

    /// Whether these servers may decide, with regard to everything that was proposed.
    pub(crate) fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.settings.quorum.is_quorum(servers)
            && self.pending_quorum().is_none_or(|quorum| quorum.is_quorum(servers))
    }

    /// What the elector is to know.
    pub(crate) fn elector(&self) -> ElectorSettings {
        let members = match &self.dynamic {
            None => Members::Fixed,
            Some(dynamic) if dynamic.refused == Refused::Yes => Members::ChangingWithoutMe,
            Some(_) => Members::Changing,
        };
        let elector = ElectorSettings { members, ..self.settings.elector() };
        match self.pending_part() {
            None => elector,
            Some(Pending { quorum, text, configuration, .. }) => {
                let config = hearsay::vote_text(&elector.config, text);
                let observers = &elector.observers | &configuration.observers();
                ElectorSettings { pending: Some(quorum.clone()), observers, config, ..elector }
            }
        }
    }

    /// What the elector is to know, if that has changed since it was asked for.
    pub(crate) fn news_for_elector(&mut self) -> Option<ElectorSettings> {
        let dynamic = self.dynamic.as_mut().filter(|dynamic| dynamic.told == Told::NotYet)?;
        dynamic.told = Told::Yes;
        Some(self.elector())
    }

    /// A leader has refused this server, or has not.
    pub(crate) fn note_refusal(&mut self, refused: Refused) {
        if let Some(dynamic) = self.dynamic.as_mut().filter(|dynamic| dynamic.refused != refused) {
            dynamic.refused = refused;
            dynamic.told = Told::NotYet;
        }
    }

    /// A transaction enters the log. If it is a configuration, that is pending from now on.
    pub(crate) fn notice(&mut self, entry: &Entry, out: &mut Vec<Action>) {
        if self.dynamic.is_some()
            && entry.bytes.get(TYPE_AT) == Some(&OpCode::Reconfig.wire().to_be_bytes())
            && let Ok(TxnEntry { txn: Txn::Reconfig(set), .. }) = TxnEntry::decode(&entry.bytes)
            && let Some(Ok(text)) = set.data.as_deref().map(std::str::from_utf8)
            && let Ok(configuration) = Configuration::parse(text)
        {
            self.see(configuration, Source::History, out);
        }
    }

    /// A configuration was proposed. An older one than the one in effect says nothing.
    fn see(&mut self, configuration: Configuration, source: Source, out: &mut Vec<Action>) {
        let Some(dynamic) = &mut self.dynamic else { return };
        if let Some(pending) = &mut dynamic.pending
            && pending.version() == configuration.version
            && source == Source::History
        {
            pending.source = source;
        }
        let newest = dynamic.pending.as_ref().map_or(dynamic.committed.version, Pending::version);
        // Nobody could ever decide in a list without voters.
        if configuration.version > newest && configuration.has_voters() {
            out.push(Action::Remember { configuration: Box::new(configuration.clone()) });
            dynamic.pending = Some(Pending::new(configuration, source));
            dynamic.told = Told::NotYet;
        }
    }

    /// A leader says with his history what he has seen last. Returned is what takes effect with that history.
    pub(crate) fn see_of_leader(
        &mut self,
        text: Option<&[u8]>,
        out: &mut Vec<Action>,
    ) -> Option<Box<Configuration>> {
        let committed = self.configuration()?.version;
        let text = std::str::from_utf8(text?).ok()?;
        let announced =
            Configuration::parse(text).ok().filter(|it| it.version > committed && it.has_voters())?;
        self.see(announced.clone(), Source::Leader, out);
        Some(Box::new(announced))
    }

    /// The history of a leader is decided up to here: what he has announced takes effect, unless it is behind that.
    pub(crate) fn activate_announced(
        &mut self,
        announced: Configuration,
        decided: Zxid,
        out: &mut Vec<Action>,
    ) {
        let newer = self.configuration().is_some_and(|committed| announced.version > committed.version);
        if newer && is_decided_with(&announced, decided) {
            self.install(announced, out);
        }
    }

    /// The first leader of a configuration gives it a version, so that those that follow are newer.
    pub(crate) fn name_first_version(&mut self, epoch: u32, out: &mut Vec<Action>) {
        if let Some(dynamic) = &self.dynamic
            && dynamic.committed.version == 0
            && dynamic.pending.is_none()
        {
            let version = Zxid::new(epoch, 0).0;
            self.see(Configuration { version, ..dynamic.committed.clone() }, Source::Leader, out);
        }
    }

    /// Everything up to here is decided: a configuration among it takes effect. Returns its place.
    pub(crate) fn activate_through(&mut self, decided: Zxid, out: &mut Vec<Action>) -> Option<Zxid> {
        let dynamic = self.dynamic.as_mut()?;
        let pending = dynamic.pending.take_if(|pending| pending.is_decided_with(decided))?;
        let zxid = pending.configuration.zxid();
        self.install(pending.configuration, out);
        Some(zxid)
    }

    /// Puts a configuration into effect that is known to be decided.
    pub(crate) fn install(&mut self, configuration: Configuration, out: &mut Vec<Action>) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let version = configuration.version;
        dynamic.pending.take_if(|pending| pending.configuration.version <= version);
        dynamic.told = Told::NotYet;
        out.push(Action::Activate { configuration: Box::new(configuration.clone()) });
        dynamic.own_vote = match configuration.keeps_voter(self.settings.me, &dynamic.committed) {
            true => OwnVote::Kept,
            false => OwnVote::Changed,
        };
        dynamic.committed = configuration;
        dynamic.heard_of = 0;
        self.adopt_committed();
    }

    /// Whether this server may go on to lead in the configuration that took effect last.
    pub(crate) fn keeps_vote(&self) -> bool {
        self.dynamic.as_ref().is_none_or(|dynamic| dynamic.own_vote == OwnVote::Kept)
    }

    /// The settings are those of the configuration in effect.
    pub(crate) fn adopt_committed(&mut self) {
        let Some(Activation { committed, .. }) = &self.dynamic else { return };
        let settings = &mut self.settings;
        settings.role = committed.role_of(settings.me);
        settings.quorum = committed.quorum();
        settings.observers = committed.observers();
        settings.config = committed.to_string().into();
        settings.config_version = committed.version;
    }

    /// Somebody knows a newer configuration that is in effect. Returns whether its members are others.
    pub(crate) fn adopts(&mut self, notification: &Notification, out: &mut Vec<Action>) -> bool {
        let Some(dynamic) = &self.dynamic else { return false };
        let Some(text) = notification.config.as_deref() else { return false };
        if Configuration::version_of(text).is_none_or(|version| version <= dynamic.committed.version) {
            return false;
        }
        // A vote is good even if the text beside it is not.
        let Ok(configuration) = Configuration::parse(text) else { return false };
        if !configuration.has_voters() {
            return false;
        }
        let same = configuration.members == dynamic.committed.members
            && configuration.groups == dynamic.committed.groups;
        self.install(configuration, out);
        !same
    }

    /// A voter may speak of a configuration that was proposed and is not known here: its members may be elected.
    pub(crate) fn locate(&mut self, from: ServerId, notification: &Notification, out: &mut Vec<Action>) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let counts = self.settings.quorum.is_voter(from) && notification.state == PeerState::Looking;
        let (true, None, Some(text)) = (counts, &dynamic.pending, &notification.config) else { return };
        let newest = dynamic.committed.version.max(dynamic.heard_of);
        if let Some(configuration) = hearsay::proposed_in(text).filter(|it| it.version > newest) {
            dynamic.heard_of = configuration.version;
            out.push(Action::Locate { configuration: Box::new(configuration) });
        }
    }

    /// The log ends here now: what was proposed behind it never was.
    pub(crate) fn forget_pending_behind(&mut self, end: Zxid) {
        if let Some(dynamic) = &mut self.dynamic
            && dynamic.pending.take_if(|pending| !pending.is_decided_with(end)).is_some()
        {
            dynamic.told = Told::NotYet;
        }
    }

    /// A role has ended: what a leader has only spoken of is not in the history, however late that ends.
    pub(crate) fn forget_announced(&mut self) {
        self.keep_pending(|pending| pending.source == Source::History);
    }

    /// The state of a leader has taken the place of the history, up to here. What was proposed in that one is in this
    /// one only if the leader has announced it.
    pub(crate) fn forget_pending_but(&mut self, announced: Option<i64>, end: Zxid) {
        self.keep_pending(|pending| Some(pending.version()) == announced);
        let dynamic = self.dynamic.as_mut();
        if let Some(pending) = dynamic.and_then(|dynamic| dynamic.pending.as_mut())
            && pending.is_decided_with(end)
        {
            pending.source = Source::History;
        }
    }

    /// The first version of a configuration is in no history, and stays.
    fn keep_pending(&mut self, keeps: impl Fn(&Pending) -> bool) {
        let goes = |pending: &mut Pending| pending.configuration.zxid().counter() != 0 && !keeps(pending);
        if let Some(dynamic) = &mut self.dynamic
            && dynamic.pending.take_if(goes).is_some()
        {
            dynamic.told = Told::NotYet;
        }
    }
}
