//! From a request to a transaction. All that can fail fails here, against the tree and the pending changes;
//! a failure is a transaction too.

mod check;
mod create;
mod delete;
mod delete_container;
mod multi;
mod reconfig;
mod session;
mod set_acl;
mod set_data;
mod stage;

use zebu_proto::client::WriteRequest;
use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest, TxnHeader};
use zebu_proto::{Buffer, ErrorCode};

use crate::access::{Credentials, Policy, Refusal};
use crate::options::DigestMode;
use crate::overlay::Overlay;
use crate::prep::stage::Stage;
use crate::tree::Tree;

/// What became of the membership checks of a reconfig, which are made elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfig {
    /// Reconfiguration is switched off: RECONFIGDISABLED before anything else is looked at.
    Disabled,
    /// Refused with this code after the session check; UNIMPLEMENTED on a standalone server.
    Refused(ErrorCode),
    /// Possible; this is the new text of `/zookeeper/config`.
    Accepted(Buffer),
}

/// Everything about a request that is not in the request.
#[derive(Clone, Debug)]
pub struct PrepareContext<'a> {
    /// The zxid and time that it gets, and who asked.
    pub header: TxnHeader,
    /// Identities of the connection.
    pub credentials: &'a Credentials,
    /// Outcome of the session check, told only when the order of checks comes to it.
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
    /// What will happen.
    pub txn: Txn,
    /// What the tree will hash to. Error transactions have none, nor has the end of a session that names no paths.
    pub digest: Option<TxnDigest>,
    /// The length of the transaction that was refused because it is longer than servers read, as far as it was counted.
    pub refused_bytes: Option<usize>,
}

impl Tree {
    /// Decides a request. The overlay learns what will change.
    pub fn prepare(
        &self,
        overlay: &mut Overlay,
        request: WriteRequest,
        context: &PrepareContext<'_>,
    ) -> Prepared {
        let mut stage = Stage::new(self, overlay, context);
        let bytes_max = context.policy.transaction_bytes_max;
        let decided = dispatch(&mut stage, request).and_then(|txn| {
            let digest = self.digest_after(&txn, &stage);
            match txn.entry_length(digest.as_ref()) {
                bytes if bytes > bytes_max => Err(Refusal::TooLong { bytes }),
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
                    Refusal::Failed(code) => (code, None),
                    Refusal::Broken => (ErrorCode::MarshallingError, None),
                    Refusal::TooLong { bytes } => (ErrorCode::MarshallingError, Some(bytes)),
                };
                Prepared { txn: Txn::error(code), digest: None, refused_bytes }
            }
        }
    }

    fn digest_after(&self, txn: &Txn, stage: &Stage<'_, '_>) -> Option<TxnDigest> {
        match (txn, self.options.digest) {
            // ZooKeeper would read a digest behind a missing list of paths as that list.
            (Txn::Error(_) | Txn::CloseSession(None), _) | (_, DigestMode::Off) => None,
            (_, DigestMode::On) => Some(TxnDigest { version: DIGEST_VERSION, tree_digest: stage.digest() }),
        }
    }
}

fn dispatch(stage: &mut Stage<'_, '_>, request: WriteRequest) -> Result<Txn, Refusal> {
    match request {
        WriteRequest::Create(request) => create::prepare(stage, request),
        WriteRequest::Delete(request) => delete::prepare(stage, request),
        WriteRequest::SetData(request) => set_data::prepare(stage, request),
        WriteRequest::SetAcl(request) => set_acl::prepare(stage, request),
        WriteRequest::Multi(ops) => multi::prepare(stage, ops),
        WriteRequest::Reconfig(_) => reconfig::prepare(stage),
        WriteRequest::Refused(code) => Err(Refusal::Failed(code)),
        WriteRequest::CreateSession { timeout_ms } => Ok(Txn::CreateSession { timeout_ms }),
        WriteRequest::CloseSession => Ok(session::prepare_close(stage)),
        WriteRequest::DeleteContainer { path } => delete_container::prepare(stage, &path),
    }
}
