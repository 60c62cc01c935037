//! Whether the members may be changed as a client wishes. Permission and session are checked with the tree.

use zebu_proto::client::{ReconfigRequest, WriteRequest};
use zebu_proto::{ErrorCode, Zxid};
use zebu_tree::Reconfig;
use zebu_zab::membership::{Change, ChangeError, ChangeRules};

use crate::agreement::{Agreement, Membership};
use crate::core::Desk;
use crate::settings::ReconfigSupport;

/// Says what becomes of a request if it is one to change the members, and is granted the next place.
pub(super) fn judge(desk: &Desk, request: &WriteRequest, at: Zxid) -> Reconfig {
    let WriteRequest::Reconfig(request) = request else { return Reconfig::Disabled };
    let rules = match desk.settings.reconfig {
        ReconfigSupport::Disabled => return Reconfig::Disabled,
        ReconfigSupport::Standalone => return Reconfig::Refused(ErrorCode::Unimplemented),
        ReconfigSupport::Ensemble(rules) => rules,
    };
    let Agreement::Member(member) = &desk.agreement else {
        return Reconfig::Refused(ErrorCode::Unimplemented);
    };
    match next_configuration(&*member.peer, request, at, rules) {
        Ok(text) => Reconfig::Accepted(Some(text.into_bytes().into())),
        Err(code) => Reconfig::Refused(code),
    }
}

fn next_configuration(
    peer: &dyn Membership,
    request: &ReconfigRequest,
    at: Zxid,
    rules: ChangeRules,
) -> Result<String, ErrorCode> {
    let committed = peer.configuration().ok_or(ErrorCode::Unimplemented)?;
    if peer.pending_configuration().is_some() {
        return Err(ErrorCode::ReconfigInProgress);
    }
    if request.current_config_id != -1 && request.current_config_id != committed.version {
        return Err(ErrorCode::BadVersion);
    }
    let change = match &request.new_members {
        Some(members) => Change::Complete(members),
        None => {
            Change::Incremental { joining: request.joining.as_deref(), leaving: request.leaving.as_deref() }
        }
    };
    let next = committed.changed(change, at, rules).map_err(|error| match error {
        ChangeError::BadArguments(_) => ErrorCode::BadArguments,
        ChangeError::NotANumber(_) => ErrorCode::MarshallingError,
    })?;
    if !peer.has_quorum_of(&next) {
        return Err(ErrorCode::NewConfigNoQuorum);
    }
    Ok(next.to_string())
}
