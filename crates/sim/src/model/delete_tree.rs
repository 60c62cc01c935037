//! A deltree in the model. The request leaves open which nodes go first, so that the model takes them from
//! the transaction. It checks that each may go at its place, and that none is left that has to go.

use zebu_proto::client::DeleteTreeRequest;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Permissions};

use super::write::ModelOverlay;
use super::{Model, ModelEffect, ModelLifetime, TxnContext, parent_of};
use crate::operation::NodePath;

impl Model {
    /// The effect of a deltree that has become this transaction. The error says why it cannot have.
    pub(crate) fn delete_tree(
        &mut self,
        place: TxnContext,
        request: &DeleteTreeRequest,
        found: &Txn,
    ) -> Result<Vec<ModelEffect>, String> {
        if !self.may_write(place) {
            return Ok(vec![ModelEffect::Error(ErrorCode::SessionExpired)]);
        }
        let mut stage = ModelOverlay::new(self, place);
        match stage.delete_tree(request, found)? {
            Ok(effect) => {
                let (changed, events) = stage.into_changes();
                self.commit(place.zxid, changed, events);
                Ok(vec![effect])
            }
            Err(code) => Ok(vec![ModelEffect::Error(code)]),
        }
    }
}

impl ModelOverlay<'_> {
    fn delete_tree(
        &mut self,
        request: &DeleteTreeRequest,
        found: &Txn,
    ) -> Result<Result<ModelEffect, ErrorCode>, String> {
        if &*request.root == "/" {
            return Ok(Err(ErrorCode::BadArguments));
        }
        if self.get(&request.root).is_none() {
            return Ok(Err(ErrorCode::NoNode));
        }
        let parts = match found {
            Txn::Multi(parts) => parts,
            _ if self.has_forbidden_node(request) => return Ok(Err(ErrorCode::NoAuth)),
            _ => return Err("every node of the subtree may be deleted".to_owned()),
        };
        let mut deleted = 0;
        let mut marks = 0;
        for part in parts {
            match &part.0 {
                Txn::Delete(path) => {
                    self.delete_one(request, path)?;
                    deleted += 1;
                }
                Txn::Check(_) => marks += 1,
                part => return Err(format!("{part:?} is no part of it")),
            }
        }
        let more = marks > i32::from(deleted == 0);
        if deleted > i64::from(request.max) {
            return Err(format!("{deleted} nodes were deleted"));
        }
        let left = self.deletable(request);
        if deleted < i64::from(request.max) && !more && !left.is_empty() {
            return Err(format!("{left:?} are left, and it does not say so"));
        }
        if more && self.subtree(&request.root).len() <= usize::from(request.keep_root) {
            return Err("nothing is left, but it says so".to_owned());
        }
        Ok(Ok(ModelEffect::TreeDeleted { deleted, more }))
    }

    fn delete_one(&mut self, request: &DeleteTreeRequest, path: &str) -> Result<(), String> {
        let path = NodePath::from(path);
        if !self.deletable(request).contains(&path) {
            return Err(format!("{path} may not be deleted, or not yet"));
        }
        self.delete(&path, -1).map(|_| ()).map_err(|code| format!("the delete of {path} fails: {code}"))
    }

    /// Nodes without children that the request deletes.
    fn deletable(&self, request: &DeleteTreeRequest) -> Vec<NodePath> {
        let may_go = |path: &NodePath| {
            let is_kept = request.keep_root && **path == *request.root;
            !is_kept
                && self.get(path).is_some_and(|node| {
                    let is_ephemeral = matches!(node.stays, ModelLifetime::WithSession(_));
                    node.children.is_empty() && !(is_ephemeral && request.leave_ephemerals)
                })
        };
        self.subtree(&request.root).into_iter().filter(may_go).collect()
    }

    /// Whether the client may not delete some node of the subtree.
    fn has_forbidden_node(&self, request: &DeleteTreeRequest) -> bool {
        self.subtree(&request.root).iter().any(|path| {
            parent_of(path).is_some_and(|above| self.permitted(above, Permissions::DELETE).is_err())
        })
    }
}
