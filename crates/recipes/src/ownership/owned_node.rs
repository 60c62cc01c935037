//! A node whose existence grants ownership, together with its monitor.

use std::sync::Arc;

use super::policy::{FencingToken, LeasePolicy, LossReason};
use super::state::{OwnershipMonitor, OwnershipState};
use crate::error::RecipeError;
use crate::wait_queue::QueueNode;

/// Ownership by one node; all guards of the ownership share it.
#[derive(Debug)]
pub(crate) struct OwnedNode {
    // Dropped in this order: the end is reported, the node is deleted, and then the monitor ends, whose watch
    // has fired by then.
    end: EndOnDrop,
    node: QueueNode,
    monitor: OwnershipMonitor,
}

/// Reports the end of ownership.
#[derive(Debug)]
struct EndOnDrop(OwnershipState);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(LossReason::Released);
    }
}

impl OwnedNode {
    /// Starts ownership with the first node of a queue.
    pub(crate) fn new(node: QueueNode, lease_policy: LeasePolicy) -> OwnedNode {
        let token = FencingToken(node.stat().czxid);
        OwnedNode::with_token(node, token, lease_policy)
    }

    /// Starts ownership that continues an earlier one.
    pub(crate) fn with_token(node: QueueNode, token: FencingToken, lease_policy: LeasePolicy) -> OwnedNode {
        let monitor = OwnershipMonitor::start(node.client(), node.path(), node.stat(), token, lease_policy);
        OwnedNode { end: EndOnDrop(monitor.ownership_state().clone()), node, monitor }
    }

    pub(crate) fn ownership_state(&self) -> &OwnershipState {
        self.monitor.ownership_state()
    }

    /// Ends ownership, then deletes the node and waits for the reply.
    pub(crate) async fn release(self) -> Result<(), RecipeError> {
        let OwnedNode { end, node, monitor } = self;
        drop(end);
        node.delete().await?;
        drop(monitor);
        Ok(())
    }

    /// Ends ownership without deleting the node, because a transaction has deleted it.
    pub(crate) fn disarm(self) {
        self.node.disarm();
    }

    /// Releases it if this is the last guard.
    pub(crate) async fn release_if_last(owned: Arc<OwnedNode>) -> Result<(), RecipeError> {
        match Arc::into_inner(owned) {
            Some(owned) => owned.release().await,
            None => Ok(()),
        }
    }
}
