//! From a request to a transaction. Every possible failure happens here, against the tree and the pending
//! changes; a failure is a transaction too.

mod check;
mod create;
mod delete;
mod delete_container;
mod delete_tree;
mod growth;
mod keeper;
mod multi;
mod reconfig;
mod scope;
mod session;
mod set_acl;
mod set_data;
mod subtree;

pub use delete_tree::delete_tree_reply;
use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest, TxnHeader};
use zebu_proto::{Buffer, ErrorCode};

use crate::access::{Credentials, Policy, PrepareRefusal};
use crate::options::DigestMode;
use crate::overlay::Overlay;
use crate::prep::scope::PrepareScope;
use crate::tree::Tree;

/// The result of the membership checks of a reconfig, which are made in another crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfig {
    /// Reconfiguration is disabled: RECONFIGDISABLED before any other check.
    Disabled,
    /// Refused with this code after the session check; UNIMPLEMENTED on a standalone server.
    Refused(ErrorCode),
    /// Possible; this is the new text of `/zookeeper/config`.
    Accepted(Buffer),
}

/// The context of a request.
#[derive(Clone, Debug)]
pub struct PrepareContext<'a> {
    /// Its zxid, time, session and xid.
    pub header: TxnHeader,
    /// The credentials of the connection.
    pub credentials: &'a Credentials,
    /// Result of the session check, reported only at its place in the order of checks.
    pub session: Result<(), ErrorCode>,
    /// The same for requests that need a global session: ephemeral nodes.
    pub ephemeral_session: Result<(), ErrorCode>,
    /// Settings.
    pub policy: &'a Policy,
    /// For a reconfig.
    pub reconfig: Reconfig,
}

/// A transaction, ready for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The transaction.
    pub txn: Txn,
    /// The tree digest after the transaction. Error transactions have none, nor has a closeSession without
    /// paths.
    pub digest: Option<TxnDigest>,
    /// The length in bytes, as far as it was counted, of a transaction that was refused as too long.
    pub refused_bytes: Option<usize>,
}

impl Tree {
    /// Prepares a request. Its changes are added to the overlay.
    pub fn prepare(
        &self,
        overlay: &mut Overlay,
        request: WriteRequest,
        context: &PrepareContext<'_>,
    ) -> Prepared {
        let mut stage = PrepareScope::new(self, overlay, context);
        let bytes_max = context.policy.transaction_bytes_max;
        let decided = dispatch(&mut stage, request).and_then(|txn| {
            let digest = self.digest_after(&txn, &stage);
            match txn.entry_length(digest.as_ref()) {
                bytes if bytes > bytes_max => Err(PrepareRefusal::TooLong { bytes }),
                _ => Ok(Prepared { txn, digest, refused_bytes: None }),
            }
        });
        match decided {
            Ok(prepared) => {
                stage.keep();
                prepared
            }
            Err(refusal) => {
                stage.roll_back();
                let (code, refused_bytes) = match refusal {
                    PrepareRefusal::Failed(code) => (code, None),
                    PrepareRefusal::Broken => (ErrorCode::MarshallingError, None),
                    PrepareRefusal::TooLong { bytes } => (ErrorCode::MarshallingError, Some(bytes)),
                };
                Prepared { txn: Txn::error(code), digest: None, refused_bytes }
            }
        }
    }

    fn digest_after(&self, txn: &Txn, stage: &PrepareScope<'_, '_>) -> Option<TxnDigest> {
        match (txn, self.options.digest) {
            // ZooKeeper would read a digest after a missing list of paths as that list.
            (Txn::Error(_) | Txn::CloseSession(None), _) | (_, DigestMode::Off) => None,
            (_, DigestMode::On) => Some(TxnDigest { version: DIGEST_VERSION, tree_digest: stage.digest() }),
        }
    }
}

fn dispatch(stage: &mut PrepareScope<'_, '_>, request: WriteRequest) -> Result<Txn, PrepareRefusal> {
    match request {
        WriteRequest::Create(request) => create::prepare(stage, request),
        WriteRequest::Delete(request) => delete::prepare(stage, request),
        WriteRequest::SetData(request) => set_data::prepare(stage, request),
        WriteRequest::SetAcl(request) => set_acl::prepare(stage, request),
        WriteRequest::Multi(ops) => multi::prepare(stage, ops),
        WriteRequest::Reconfig(_) => reconfig::prepare(stage),
        WriteRequest::DeleteTree(request) => delete_tree::prepare(stage, &request),
        WriteRequest::Keeper(request) => keeper::prepare(stage, *request),
        WriteRequest::Refused(code) => Err(PrepareRefusal::Failed(code)),
        WriteRequest::CreateSession { timeout_ms } => Ok(Txn::CreateSession { timeout_ms }),
        WriteRequest::CloseSession => Ok(session::prepare_close(stage)),
        WriteRequest::DeleteContainer { path } => delete_container::prepare(stage, &path),
    }
}
