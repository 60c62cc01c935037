//! From a transaction to new state. Apply is total: it neither fails nor panics on any transaction and any
//! tree. Replaying a history over a fuzzy snapshot of the same history gives the same tree.

mod create;
mod delete;
mod session;
mod set;

use zebu_proto::ErrorCode;
use zebu_proto::txn::{SubTxn, Txn, TxnHeader};

use crate::apply::create::{NewNode, OnExisting};
use crate::event::TreeEvent;
use crate::outcome::TxnOutcome;
use crate::owner::{CONTAINER_OWNER, ttl_owner};
use crate::tree::Tree;

/// Receives events.
pub(crate) type EventSink<'a> = &'a mut dyn FnMut(TreeEvent<'_>);

impl Tree {
    /// Applies a transaction and reports the events that may fire watches, in order.
    pub fn apply(
        &mut self,
        header: &TxnHeader,
        txn: &Txn,
        events: &mut dyn FnMut(TreeEvent<'_>),
    ) -> TxnOutcome {
        let outcome = match txn {
            Txn::Multi(parts) => self.apply_multi(header, parts, events),
            txn => self.apply_one(header, txn, events),
        };
        // Only now: a snapshot named after this zxid must not contain half of it.
        self.last_zxid = self.last_zxid.max(header.zxid);
        outcome
    }

    fn apply_multi(&mut self, header: &TxnHeader, parts: &[SubTxn], events: EventSink<'_>) -> TxnOutcome {
        let Some(failed) = parts.iter().position(|SubTxn(txn)| matches!(txn, Txn::Error(_))) else {
            return TxnOutcome::Multi(
                parts.iter().map(|SubTxn(txn)| self.apply_one(header, txn, events)).collect(),
            );
        };
        let outcomes = parts.iter().enumerate().map(|(index, SubTxn(txn))| match txn {
            Txn::Error(code) => TxnOutcome::Error(*code),
            _ if index < failed => TxnOutcome::Error(0),
            _ => TxnOutcome::error(ErrorCode::RuntimeInconsistency),
        });
        TxnOutcome::Multi(outcomes.collect())
    }

    fn apply_one(&mut self, header: &TxnHeader, txn: &Txn, events: EventSink<'_>) -> TxnOutcome {
        match txn {
            Txn::Error(code) => TxnOutcome::Error(*code),
            Txn::CreateSession { timeout_ms } => {
                self.sessions.insert(header.session, *timeout_ms);
                TxnOutcome::SessionCreated
            }
            Txn::CloseSession(paths) => self.apply_close_session(header, paths.as_deref(), events),
            Txn::Create(create) | Txn::Create2(create) => {
                let new = NewNode {
                    path: &create.path,
                    data: &create.data,
                    acl: create.acl.as_deref(),
                    owner: if create.ephemeral { header.session.0 } else { 0 },
                    parent_cversion: create.parent_cversion,
                };
                let on_existing = match txn {
                    Txn::Create(_) => OnExisting::AdvanceParent,
                    _ => OnExisting::LeaveParent,
                };
                self.apply_create(header, &new, on_existing, events)
            }
            Txn::CreateContainer(create) => {
                let new = NewNode {
                    path: &create.path,
                    data: &create.data,
                    acl: create.acl.as_deref(),
                    owner: CONTAINER_OWNER,
                    parent_cversion: create.parent_cversion,
                };
                self.apply_create(header, &new, OnExisting::LeaveParent, events)
            }
            Txn::CreateTtl(create) => {
                let new = NewNode {
                    path: &create.path,
                    data: &create.data,
                    acl: create.acl.as_deref(),
                    owner: ttl_owner(create.ttl_ms),
                    parent_cversion: create.parent_cversion,
                };
                self.apply_create(header, &new, OnExisting::LeaveParent, events)
            }
            Txn::Delete(path) | Txn::DeleteContainer(path) => self.apply_delete(header.zxid, path, events),
            Txn::SetData(set) => match self.apply_set_data(header, set, events) {
                Ok(stat) => TxnOutcome::DataSet { stat },
                Err(code) => TxnOutcome::error(code),
            },
            Txn::Reconfig(set) => match self.apply_set_data(header, set, events) {
                Ok(stat) => TxnOutcome::Reconfigured { stat },
                Err(code) => TxnOutcome::error(code),
            },
            Txn::SetAcl(set) => self.apply_set_acl(set),
            Txn::Check(_) => TxnOutcome::Checked,
            // The decoder refuses one multi inside another; no server writes it.
            Txn::Multi(_) => TxnOutcome::error(ErrorCode::MarshallingError),
        }
    }
}
