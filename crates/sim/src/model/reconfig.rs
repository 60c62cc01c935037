//! A reconfig in the model: its result at its zxid. Two facts are known only to the leader and are taken from
//! its transaction. These are: whether an earlier reconfig is pending, and whether its followers are a quorum
//! of the new config.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Permissions, Zxid};

use super::write::ModelChange;
use super::{Model, ModelEffect, Privilege, TxnContext};
use crate::members::{CONFIG, ConfigHistory, EnsembleConfig, ReconfigChange};
use crate::operation::NodePath;

/// A reconfig request and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelReconfig<'a> {
    pub(crate) change: &'a ReconfigChange,
    pub(crate) version: i64,
    /// The latest zxid that any client had a reply for when the request was made.
    pub(crate) acked_before: i64,
    /// `None` if reconfig is disabled.
    pub(crate) voters_min: Option<usize>,
}

impl Model {
    /// The required result of the reconfig, given the leader's transaction.
    pub(crate) fn reconfigure(
        &mut self,
        place: TxnContext,
        request: ModelReconfig<'_>,
        configs: &ConfigHistory,
        found: &Txn,
    ) -> Vec<ModelEffect> {
        let Some(voters_min) = request.voters_min else {
            return vec![ModelEffect::Error(ErrorCode::ReconfigDisabled)];
        };
        let is_open = self.may_write(place);
        if !is_open {
            return vec![ModelEffect::Error(ErrorCode::SessionExpired)];
        }
        let effect = match self.check_reconfig(place, request, voters_min, configs, found) {
            Err(code) => ModelEffect::Error(code),
            Ok(list) => self.show_list(place, &list, found),
        };
        vec![effect]
    }

    fn check_reconfig(
        &self,
        place: TxnContext,
        request: ModelReconfig<'_>,
        voters_min: usize,
        configs: &ConfigHistory,
        found: &Txn,
    ) -> Result<EnsembleConfig, ErrorCode> {
        let said = |code: ErrorCode| *found == Txn::error(code);
        let before = configs.before(place.zxid);
        // A reconfig is not pending any more when it, or a later transaction, was answered.
        let may_be_pending = before.is_some_and(|list| list.version > request.acked_before);
        if may_be_pending && said(ErrorCode::ReconfigInProgress) {
            return Err(ErrorCode::ReconfigInProgress);
        }
        let matches = match before {
            _ if request.version == -1 => true,
            Some(list) => request.version == list.version,
            // The first config gets the version of its first leader, which no transaction has.
            None => Zxid(request.version).counter() == 0 && !said(ErrorCode::BadVersion),
        };
        if !matches {
            return Err(ErrorCode::BadVersion);
        }
        let before = before.unwrap_or(configs.first());
        let next = request.change.applied(before, place.zxid, voters_min)?;
        if said(ErrorCode::NewConfigNoQuorum) {
            return Err(ErrorCode::NewConfigNoQuorum);
        }
        let open = self.now(CONFIG).is_some_and(|node| node.permissions & Permissions::WRITE != 0);
        if !open && place.privilege == Privilege::Common {
            return Err(ErrorCode::NoAuth);
        }
        Ok(next)
    }

    fn show_list(&mut self, place: TxnContext, list: &EnsembleConfig, found: &Txn) -> ModelEffect {
        let Some(node) = self.now(CONFIG) else { return ModelEffect::Error(ErrorCode::NoNode) };
        let mut node = (**node).clone();
        // Lines may come in any order.
        let data: Arc<[u8]> = match found {
            Txn::Reconfig(set) => set.data.clone(),
            _ => None,
        }
        .filter(|data| std::str::from_utf8(data).ok().and_then(EnsembleConfig::read).as_ref() == Some(list))
        .unwrap_or_else(|| list.text().into_bytes().into());
        node.data = Some(data.clone());
        node.version = -1;
        node.modified = (place.zxid, place.time_ms);
        let stat = node.stat();
        let path = NodePath::from(CONFIG);
        let changed = BTreeMap::from([(path.clone(), Some(Rc::new(node)))]);
        self.commit(place.zxid, changed, vec![(path, ModelChange::Data)]);
        ModelEffect::Reconfigured { data, stat }
    }
}
