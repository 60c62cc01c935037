//! Validates a reconfig request. The tree checks permission and session.

use zebu_proto::client::{ReconfigRequest, WriteRequest};
use zebu_proto::{ErrorCode, Zxid};
use zebu_tree::Reconfig;
use zebu_zab::membership::{ConfigChange, ConfigChangeError, ConfigChangeRules};

use crate::consensus::{Consensus, ConsensusPeer};
use crate::core::NodeState;
use crate::settings::ReconfigSupport;

/// Checks a reconfig request, whose transaction would have the zxid `at`.
pub(super) fn check_reconfig(state: &NodeState, request: &WriteRequest, at: Zxid) -> Reconfig {
    let WriteRequest::Reconfig(request) = request else { return Reconfig::Disabled };
    let rules = match state.settings.reconfig {
        ReconfigSupport::Disabled => return Reconfig::Disabled,
        ReconfigSupport::Standalone => return Reconfig::Refused(ErrorCode::Unimplemented),
        ReconfigSupport::Ensemble(rules) => rules,
    };
    let Consensus::Member(member) = &state.consensus else {
        return Reconfig::Refused(ErrorCode::Unimplemented);
    };
    match next_configuration(&*member.peer, request, at, rules) {
        Ok(text) => Reconfig::Accepted(Some(text.into_bytes().into())),
        Err(code) => Reconfig::Refused(code),
    }
}

fn next_configuration(
    peer: &dyn ConsensusPeer,
    request: &ReconfigRequest,
    at: Zxid,
    rules: ConfigChangeRules,
) -> Result<String, ErrorCode> {
    let committed = peer.configuration().ok_or(ErrorCode::Unimplemented)?;
    if peer.pending_configuration().is_some() {
        return Err(ErrorCode::ReconfigInProgress);
    }
    if request.current_config_id != -1 && request.current_config_id != committed.version {
        return Err(ErrorCode::BadVersion);
    }
    let change = match &request.new_members {
        Some(members) => ConfigChange::Complete(members),
        None => ConfigChange::Incremental {
            joining: request.joining.as_deref(),
            leaving: request.leaving.as_deref(),
        },
    };
    let next = committed.with_change(change, at, rules).map_err(|error| match error {
        ConfigChangeError::BadArguments(_) => ErrorCode::BadArguments,
        ConfigChangeError::NotANumber(_) => ErrorCode::MarshallingError,
    })?;
    if !peer.has_quorum_of(&next) {
        return Err(ErrorCode::NewConfigNoQuorum);
    }
    Ok(next.to_string())
}
