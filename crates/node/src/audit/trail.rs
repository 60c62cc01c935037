//! The writes of clients that wait for their transaction, and the events since the last round.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::SessionId;
use zebu_proto::client::create::CreateMode;
use zebu_proto::txn::{SubTxn, Txn};
use zebu_tree::{Credentials, Tree, TxnOutcome};

use super::event::{AuditEvent, AuditOperation, AuditResult, AuditUser};
use super::request::AuditedRequest;
use crate::connection::ConnectionId;
use crate::core::AppliedTxn;
use crate::pending_request::PendingRequest;
use crate::receive::{RequestKind, SubmittedRequest};

const CONFIG_PATH: &str = "/zookeeper/config";

/// Whether writes are accepted while the audit log cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteAdmission {
    #[default]
    Accepted,
    /// The audit log is required and cannot be written.
    Refused,
}

/// A write whose transaction is not applied. It outlives its connection: a client must not escape the audit
/// log by closing its connection early.
#[derive(Debug)]
struct PendingAudit {
    session: SessionId,
    credentials: Credentials,
    request: AuditedRequest,
}

/// The audit trail of a server. The permits of requests bound the pending ones.
#[derive(Debug, Default)]
pub(crate) struct AuditTrail {
    pending: BTreeMap<(ConnectionId, u64), PendingAudit>,
    events: Vec<AuditEvent>,
    pub(crate) admission: WriteAdmission,
}

fn key(pending: &PendingRequest) -> (ConnectionId, u64) {
    (pending.connection, pending.slot)
}

impl AuditTrail {
    /// Remembers a request. Returns whether the request is a write that must be refused.
    pub(crate) fn begin(&mut self, submitted: &SubmittedRequest) -> WriteAdmission {
        let RequestKind::Write(request) = &submitted.kind else { return WriteAdmission::Accepted };
        let Some(request) = AuditedRequest::of(request) else { return WriteAdmission::Accepted };
        if self.admission == WriteAdmission::Accepted {
            let (session, credentials) = (submitted.session, submitted.credentials.clone());
            let pending = PendingAudit { session, credentials, request };
            self.pending.insert(key(&submitted.pending()), pending);
        }
        self.admission
    }

    /// Forgets a request that gets no line.
    pub(crate) fn discard(&mut self, pending: &PendingRequest) {
        self.pending.remove(&key(pending));
    }

    /// Records a request that was refused without a transaction.
    pub(crate) fn fail(&mut self, pending: &PendingRequest, wall_ms: i64) {
        if let Some(audited) = self.pending.remove(&key(pending)) {
            self.push_failure(&audited, wall_ms);
        }
    }

    /// Records a request whose transaction is applied.
    pub(crate) fn finish(&mut self, pending: &PendingRequest, applied: AppliedTxn<'_>, wall_ms: i64) {
        let Some(audited) = self.pending.remove(&key(pending)) else { return };
        if has_failed(applied.outcome) {
            return self.push_failure(&audited, wall_ms);
        }
        if is_without_effect(applied.txn) {
            return;
        }
        let event = |operation| AuditEvent {
            result: AuditResult::Success,
            user: AuditUser::Client(audited.credentials.clone()),
            session: Some(audited.session),
            ..AuditEvent::of_server(wall_ms, operation, AuditResult::Success)
        };
        let created = applied.txn.created_path();
        match audited.request {
            AuditedRequest::Multi { .. } | AuditedRequest::DeleteTree { .. } => {
                let modes = audited.request.into_modes();
                let Txn::Multi(parts) = applied.txn else { return };
                for SubTxn(part) in parts {
                    let Some((operation, path)) = part_of_multi(part) else { continue };
                    let node_type = (operation == AuditOperation::Create).then(|| mode_of(&modes, path));
                    let path = Some(path.into());
                    self.events.push(AuditEvent { path, node_type: node_type.flatten(), ..event(operation) });
                }
            }
            AuditedRequest::Create { path, mode } => self.events.push(AuditEvent {
                path: created.map(Box::from).or(path),
                node_type: mode,
                ..event(AuditOperation::Create)
            }),
            AuditedRequest::Delete { path } => {
                self.events.push(AuditEvent { path, ..event(AuditOperation::Delete) });
            }
            AuditedRequest::SetData { path } => {
                self.events.push(AuditEvent { path, ..event(AuditOperation::SetData) });
            }
            AuditedRequest::SetAcl { path, acl } => {
                self.events.push(AuditEvent { path, acl: Some(acl), ..event(AuditOperation::SetAcl) });
            }
            AuditedRequest::Reconfig => self
                .events
                .push(AuditEvent { path: Some(CONFIG_PATH.into()), ..event(AuditOperation::Reconfig) }),
        }
    }

    fn push_failure(&mut self, audited: &PendingAudit, wall_ms: i64) {
        let (operation, path, node_type, acl) = match &audited.request {
            AuditedRequest::Create { path, mode } => (AuditOperation::Create, path.clone(), *mode, None),
            AuditedRequest::Delete { path } => (AuditOperation::Delete, path.clone(), None, None),
            AuditedRequest::SetData { path } => (AuditOperation::SetData, path.clone(), None, None),
            AuditedRequest::SetAcl { path, acl } => {
                (AuditOperation::SetAcl, path.clone(), None, Some(acl.clone()))
            }
            AuditedRequest::Multi { .. } => (AuditOperation::Multi, None, None, None),
            AuditedRequest::DeleteTree { root } => (AuditOperation::Delete, Some(root.clone()), None, None),
            AuditedRequest::Reconfig => (AuditOperation::Reconfig, None, None, None),
        };
        self.events.push(AuditEvent {
            session: Some(audited.session),
            user: AuditUser::Client(audited.credentials.clone()),
            path,
            node_type,
            acl,
            ..AuditEvent::of_server(wall_ms, operation, AuditResult::Failure)
        });
    }

    /// Records the ephemeral nodes that the end of a session deletes. To be called before the transaction is
    /// applied.
    pub(crate) fn end_session(
        &mut self,
        session: SessionId,
        listed: Option<&[Box<str>]>,
        tree: &Tree,
        wall_ms: i64,
    ) {
        let listed = listed.unwrap_or_default();
        let known: BTreeSet<&str> = listed.iter().map(|path| &**path).collect();
        let others = tree.ephemerals_of(session).into_iter().filter(|path| !known.contains(&**path));
        let existing = listed.iter().filter(|path| tree.node(path).is_some()).cloned();
        for path in existing.chain(others) {
            let operation = AuditOperation::EphemeralDeletion;
            let event = AuditEvent::of_server(wall_ms, operation, AuditResult::Success);
            self.events.push(AuditEvent { session: Some(session), path: Some(path), ..event });
        }
    }

    /// Moves the events since the last call into `events`.
    pub(crate) fn take(&mut self, events: &mut Vec<AuditEvent>) {
        events.append(&mut self.events);
    }

    /// Requests that wait for their line.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

fn has_failed(outcome: &TxnOutcome) -> bool {
    match outcome {
        TxnOutcome::Error(_) => true,
        TxnOutcome::Multi(parts) => parts.iter().any(has_failed),
        TxnOutcome::Created { .. }
        | TxnOutcome::Deleted
        | TxnOutcome::DataSet { .. }
        | TxnOutcome::AclSet { .. }
        | TxnOutcome::Checked
        | TxnOutcome::SessionCreated
        | TxnOutcome::SessionClosed { .. }
        | TxnOutcome::Reconfigured { .. } => false,
    }
}

/// Whether a transaction has checks only. Requests of ClickHouse Keeper that find nothing to do become one.
fn is_without_effect(txn: &Txn) -> bool {
    matches!(txn, Txn::Multi(parts) if parts.iter().all(|SubTxn(part)| matches!(part, Txn::Check(_))))
}

/// Operation and path of a part of a multi; `None` for a check.
fn part_of_multi(part: &Txn) -> Option<(AuditOperation, &str)> {
    if let Some(path) = part.created_path() {
        return Some((AuditOperation::Create, path));
    }
    match part {
        Txn::Delete(path) => Some((AuditOperation::Delete, path)),
        Txn::SetData(set) => Some((AuditOperation::SetData, &set.path)),
        // Wildcard: a multi has no other parts but checks.
        _ => None,
    }
}

/// ZooKeeper looks the type up by the requested path, so that sequential nodes have none.
fn mode_of(modes: &[(Box<str>, CreateMode)], path: &str) -> Option<CreateMode> {
    modes.iter().rev().find(|(requested, _)| **requested == *path).map(|(_, mode)| *mode)
}
