//! One request of a typed call: encoding, submission to the driver and evaluation of the reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;
use zebu_proto::client::Freshness;
use zebu_proto::{DecodeError, ErrorCode, Jute, OpCode, Reader};

use super::client::Client;
use super::error::{Error, ErrorKind};
use super::freshness::{PrivateRequest, ReadSupport};
use super::retry::{RepeatRule, RetryLoop, RetryPolicy};
use crate::core::{
    CallFailure, CallOutcome, Cause, Delivery, FeedId, ServerReply, SessionRequest, SessionState,
    WatchRegistration, units,
};
use crate::net::{CompletionSender, DriverCommand, FeedSender, WatcherInbox};
use crate::path::check_path;

/// The size of length and header before a body.
const HEADER_SIZE: usize = 12;

/// Discoveries before one request. Each further one follows a change of the connection.
const DISCOVERIES_MAX: u32 = 3;

/// A request that can be sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct ApiCall {
    pub(crate) operation: &'static str,
    /// The path of the caller.
    pub(crate) path: Box<str>,
    pub(crate) op: OpCode,
    pub(crate) body: Bytes,
    /// How fresh the answer of a read must be. It is part of the body.
    pub(crate) freshness: Freshness,
    /// The feature of the server without which the request is not sent.
    pub(crate) private: Option<PrivateRequest>,
    pub(crate) watch: Option<(WatchRegistration, Arc<WatcherInbox>)>,
    /// The feed that the call opens.
    pub(crate) feed: Option<(FeedId, FeedSender)>,
}

/// A submitted attempt. It is submitted when the call is made, so that requests leave in program order.
pub(crate) enum CallAttempt {
    Sent(oneshot::Receiver<CallOutcome>),
    /// The queue is full, and the caller waits for capacity.
    QueueFull,
    /// The features of the server are not known yet.
    Undiscovered,
    Refused(Error),
}

/// The behaviour of a call when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The caller polls the future until there is capacity; it makes no later call meanwhile.
    Wait,
    /// The call fails: the caller may send other calls before it polls the future, and they would overtake
    /// this one.
    Refuse,
}

impl ApiCall {
    pub(crate) fn new(operation: &'static str, path: &str, op: OpCode) -> ApiCall {
        ApiCall {
            operation,
            path: path.into(),
            op,
            body: Bytes::new(),
            freshness: Freshness::default(),
            private: None,
            watch: None,
            feed: None,
        }
    }

    pub(crate) fn body(mut self, encode: impl FnOnce(&mut Vec<u8>)) -> ApiCall {
        let mut body = Vec::new();
        encode(&mut body);
        self.body = body.into();
        self
    }

    /// Sends the request only to a server that has announced it.
    pub(crate) fn private(mut self, request: PrivateRequest) -> ApiCall {
        self.private = Some(request);
        self
    }

    /// Whether any server can answer the call.
    fn is_plain(&self) -> bool {
        self.freshness.is_any() && self.private.is_none()
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.operation, &self.path)
    }

    /// Decodes the body of a reply.
    pub(crate) fn decode<R>(
        &self,
        reply: &ServerReply,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, Error> {
        read(&mut Reader::new(&reply.body)).map_err(|error| {
            self.error(ErrorKind::BadReply(error.to_string().into())).with_server(&reply.server)
        })
    }
}

/// Encodes a path that is not null.
pub(crate) fn put_path(path: &str, out: &mut Vec<u8>) {
    zebu_proto::jute::encode_bytes(path.as_bytes(), out);
}

/// Encodes a path and a watch flag.
pub(crate) fn put_path_and_watch(path: &str, watch: bool, out: &mut Vec<u8>) {
    put_path(path, out);
    watch.encode(out);
}

impl Client {
    /// The server's path for a caller's path.
    pub(crate) fn resolve(&self, operation: &'static str, path: &str) -> Result<String, Error> {
        check_path(path).map_err(|reason| Error::new(ErrorKind::InvalidPath(reason), operation, path))?;
        Ok(self.full_path(path))
    }

    /// The units of a call, at most all that exist.
    fn units(&self, call: &ApiCall) -> u32 {
        units(&call.body).min(self.shared.units_limit)
    }

    /// Submits a call to the driver's queue now, after all earlier calls. Requests leave in this order.
    pub(crate) fn start(&self, call: &ApiCall, when_full: WhenFull) -> CallAttempt {
        let limit = self.shared.request_limit;
        let size = call.body.len() + HEADER_SIZE;
        if size > limit {
            return CallAttempt::Refused(call.error(ErrorKind::TooLarge { size, limit }));
        }
        if !call.is_plain() {
            match self.read_support(call) {
                ReadSupport::Supported { .. } => {}
                ReadSupport::Unsupported => return CallAttempt::Refused(self.unsupported(call)),
                ReadSupport::Unknown => return CallAttempt::Undiscovered,
            }
        }
        match (self.shared.capacity.clone().try_acquire_many_owned(self.units(call)), when_full) {
            (Ok(permit), _) => self.enqueue(call, Some(permit)),
            (Err(_), WhenFull::Wait) => CallAttempt::QueueFull,
            (Err(_), WhenFull::Refuse) => {
                let failure =
                    CallFailure { cause: Cause::QueueFull, delivery: Delivery::NotSent, server: None };
                CallAttempt::Refused(Error::from_failure(failure, call.operation, &call.path))
            }
        }
    }

    /// Submits a call whose future is already polled.
    pub(crate) fn start_awaited(&self, call: &ApiCall) -> CallAttempt {
        self.start(call, WhenFull::Wait)
    }

    fn enqueue(&self, call: &ApiCall, permit: Option<tokio::sync::OwnedSemaphorePermit>) -> CallAttempt {
        let (completion, receiver) = CompletionSender::new(permit);
        let (watch, inbox) = call.watch.clone().unzip();
        if let Some(inbox) = &inbox {
            inbox.set_submitted();
        }
        // A lost call that was made before this one has raised the number.
        let disconnects_seen = self.shared.disconnects.load(Ordering::Acquire);
        let connection = match call.is_plain() {
            true => None,
            // The request fails if it would leave on another connection, whose server may not know it.
            false => match self.read_support(call) {
                ReadSupport::Supported { connection } => Some(connection),
                ReadSupport::Unsupported => return CallAttempt::Refused(self.unsupported(call)),
                ReadSupport::Unknown => return CallAttempt::Undiscovered,
            },
        };
        let (op, body) = (call.op, call.body.clone());
        let request = SessionRequest { op, body, watch, disconnects_seen, connection };
        let command = match call.feed.clone() {
            Some((feed, sender)) => DriverCommand::OpenFeed { request, feed, sender, completion },
            None => DriverCommand::Submit { request, inbox, completion },
        };
        match self.shared.commands.send(command) {
            Ok(()) => CallAttempt::Sent(receiver),
            Err(_) => CallAttempt::Refused(self.closed_error(call)),
        }
    }

    /// The error of a call after the driver has ended.
    pub(crate) fn closed_error(&self, call: &ApiCall) -> Error {
        let cause = match self.state() {
            SessionState::Expired => Cause::SessionExpired,
            SessionState::AuthFailed => self
                .shared
                .sasl_refusal
                .get()
                .map_or(Cause::AuthFailed, |refusal| Cause::SaslRefused(*refusal)),
            SessionState::Connecting
            | SessionState::Connected
            | SessionState::ReadOnly
            | SessionState::Suspended
            | SessionState::Reconnected
            | SessionState::Closed => Cause::Closed,
        };
        let failure = CallFailure { cause, delivery: Delivery::NotSent, server: None };
        Error::from_failure(failure, call.operation, &call.path)
    }

    /// The receiver of a call that is sent as soon as there is capacity and the features are known.
    async fn submitted(
        &self,
        call: &ApiCall,
        mut attempt: CallAttempt,
    ) -> Result<oneshot::Receiver<CallOutcome>, Error> {
        let mut discoveries = 0;
        loop {
            match attempt {
                CallAttempt::Sent(receiver) => return Ok(receiver),
                CallAttempt::Refused(error) => return Err(error),
                CallAttempt::QueueFull => {}
                CallAttempt::Undiscovered if discoveries < DISCOVERIES_MAX => {
                    discoveries += 1;
                    self.discover_features().await?;
                }
                // The connection has changed after each discovery.
                CallAttempt::Undiscovered => {
                    let cause = Cause::ConnectionLost;
                    let failure = CallFailure { cause, delivery: Delivery::NotSent, server: None };
                    return Err(Error::from_failure(failure, call.operation, &call.path));
                }
            }
            let permit = self.shared.capacity.clone().acquire_many_owned(self.units(call)).await;
            attempt = self.enqueue(call, permit.ok());
        }
    }

    /// Waits for the outcome of an attempt. Server errors are in the reply's code.
    pub(crate) async fn wait_for_outcome(
        &self,
        call: &ApiCall,
        attempt: CallAttempt,
    ) -> Result<ServerReply, Error> {
        let receiver = self.submitted(call, attempt).await?;
        match receiver.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => {
                let last_errors =
                    (failure.cause == Cause::NotConnected).then(|| self.shared.last_errors.last());
                Err(Error::from_failure(failure, call.operation, &call.path)
                    .with_last_error(last_errors.flatten()))
            }
            // The driver ended without a reply: the runtime is shutting down, or it panicked.
            Err(_) => {
                let failure = CallFailure { cause: Cause::Closed, delivery: Delivery::Sent, server: None };
                Err(Error::from_failure(failure, call.operation, &call.path))
            }
        }
    }

    /// The reply to an attempt; a server error becomes an [`Error`].
    pub(crate) async fn reply_of(&self, call: &ApiCall, attempt: CallAttempt) -> Result<ServerReply, Error> {
        let reply = self.wait_for_outcome(call, attempt).await?;
        match reply.code {
            0 => Ok(reply),
            code if code == ErrorCode::Unimplemented.wire() && !call.is_plain() => {
                // The leader has changed since the discovery.
                self.shared.features.forget();
                Err(self.unsupported(call).with_server(&reply.server))
            }
            code => Err(Error::from_code(code, call.operation, &call.path, &reply.server)),
        }
    }

    /// Runs one attempt, for loops over more than one call.
    pub(crate) async fn call_once(&self, call: &ApiCall) -> Result<ServerReply, Error> {
        self.reply_of(call, self.start_awaited(call)).await
    }

    /// Runs the retry loop of one call.
    pub(crate) async fn run(
        &self,
        call: &ApiCall,
        mut attempt: CallAttempt,
        policy: Arc<dyn RetryPolicy>,
        repeat: RepeatRule,
    ) -> Result<ServerReply, Error> {
        let mut retry = self.retry_loop(policy);
        loop {
            match self.reply_of(call, attempt).await {
                Ok(reply) => return Ok(reply),
                Err(error) => retry.after(error, repeat).await?,
            }
            attempt = self.start_awaited(call);
        }
    }

    pub(crate) fn retry_loop(&self, policy: Arc<dyn RetryPolicy>) -> RetryLoop {
        RetryLoop::new(policy, self.shared.random())
    }
}
