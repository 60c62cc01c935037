//! A copy of a write or sync that has no answer yet. The next leader gets the copy if this one ends.

use std::sync::Arc;

use zebu_proto::client::{ReadRequest, Request, WriteRequest};
use zebu_proto::{ErrorCode, Reader, SessionId};
use zebu_tree::Credentials;

use crate::connection::ServingTerm;
use crate::pending_request::PendingRequest;
use crate::receive::{ForwardPayload, RequestKind, SubmittedRequest};

/// A request that can be sent again.
#[derive(Debug)]
pub(crate) struct RequestCopy {
    op: i32,
    /// The bytes after the request header, shared with the packet.
    record: Arc<[u8]>,
    credentials: Credentials,
    received_ms: i64,
    /// The error with which the request was refused when it was received.
    refused: Option<ErrorCode>,
}

impl RequestCopy {
    pub(crate) fn new(
        payload: ForwardPayload,
        refused: Option<ErrorCode>,
        credentials: Credentials,
        received_ms: i64,
    ) -> RequestCopy {
        let ForwardPayload { op, record } = payload;
        RequestCopy { op, record, credentials, received_ms, refused }
    }

    /// The decoded request, or its refusal. Only a request that can be decoded was submitted.
    pub(crate) fn kind(&self) -> Option<RequestKind> {
        if let Some(error) = self.refused {
            return Some(RequestKind::Write(WriteRequest::Refused(error)));
        }
        match Request::decode(self.op, &mut Reader::new(&self.record)) {
            Ok(Request::Write(request)) => Some(RequestKind::Write(request)),
            Ok(Request::Read(ReadRequest::Sync(_))) => Some(RequestKind::Sync),
            Ok(
                Request::Read(_)
                | Request::Auth(_)
                | Request::Sasl(_)
                | Request::With(..)
                | Request::Hello(_)
                | Request::Feed(_),
            )
            | Err(_) => None,
        }
    }

    /// The request as it was submitted.
    pub(crate) fn into_submitted(
        self,
        session: SessionId,
        xid: i32,
        pending: PendingRequest,
        serving_term: ServingTerm,
    ) -> Option<SubmittedRequest> {
        let kind = self.kind()?;
        Some(SubmittedRequest {
            connection: pending.connection,
            slot: pending.slot,
            session,
            xid,
            kind,
            credentials: self.credentials,
            received_ms: self.received_ms,
            charged_bytes: pending.charged_bytes,
            serving_term,
            forward: Some(ForwardPayload { op: self.op, record: self.record }),
        })
    }
}
