//! One request of a typed call: how it is encoded, handed to the driver and its answer judged. Typed calls
//! are made of these.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;
use zebu_proto::{DecodeError, Jute, OpCode, Reader};

use super::client::Client;
use super::error::{Error, ErrorKind};
use super::retry::{Attempts, Repeat, RetryPolicy};
use crate::core::{
    Answer, Cause, Delivery, Failure, Outcome, Request, SessionState, WatchRegistration, units,
};
use crate::net::{Command, Inbox, Ticket};
use crate::path::check_path;

/// Header and length in front of a body.
const HEADER_SIZE: usize = 12;

/// A request that can be sent, more than once if need be.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    /// As the caller named it.
    pub(crate) path: Box<str>,
    pub(crate) op: OpCode,
    pub(crate) body: Bytes,
    pub(crate) watch: Option<(WatchRegistration, Arc<Inbox>)>,
}

/// An attempt that was made when the call was made, so that calls leave in the order of the program.
pub(crate) enum Attempt {
    Sent(oneshot::Receiver<Outcome>),
    /// The queue is full, and the caller waits for room.
    Later,
    Refused(Error),
}

/// What becomes of a call that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The caller polls the future until there is room; it makes no later call meanwhile.
    Wait,
    /// It fails: the caller may send other calls before it polls the future, and they would pass this one.
    Refuse,
}

impl Call {
    pub(crate) fn new(operation: &'static str, path: &str, op: OpCode) -> Call {
        Call { operation, path: path.into(), op, body: Bytes::new(), watch: None }
    }

    pub(crate) fn body(mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Call {
        let mut body = Vec::new();
        encode(&mut body);
        self.body = body.into();
        self
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.operation, &self.path)
    }

    /// Decodes an answer's body.
    pub(crate) fn decode<R>(
        &self,
        answer: &Answer,
        read: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, Error> {
        read(&mut Reader::new(&answer.body))
            .map_err(|error| self.error(ErrorKind::BadReply(error.to_string().into())).at(&answer.server))
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

    /// What a call takes of the room; the largest one fits into any.
    fn units(&self, call: &Call) -> u32 {
        units(&call.body).min(self.shared.units_limit)
    }

    /// Hands a call to the driver's queue now, behind all calls that were made before. Calls leave in its order.
    pub(crate) fn start(&self, call: &Call, when_full: WhenFull) -> Attempt {
        let limit = self.shared.request_limit;
        let size = call.body.len() + HEADER_SIZE;
        if size > limit {
            return Attempt::Refused(call.error(ErrorKind::TooLarge { size, limit }));
        }
        match (self.shared.room.clone().try_acquire_many_owned(self.units(call)), when_full) {
            (Ok(permit), _) => self.enqueue(call, Some(permit)),
            (Err(_), WhenFull::Wait) => Attempt::Later,
            (Err(_), WhenFull::Refuse) => {
                let failure = Failure { cause: Cause::QueueFull, delivery: Delivery::NotSent, server: None };
                Attempt::Refused(Error::from_failure(failure, call.operation, &call.path))
            }
        }
    }

    /// Makes an attempt at a call whose future is polled already.
    pub(crate) fn start_awaited(&self, call: &Call) -> Attempt {
        self.start(call, WhenFull::Wait)
    }

    fn enqueue(&self, call: &Call, permit: Option<tokio::sync::OwnedSemaphorePermit>) -> Attempt {
        let (ticket, receiver) = Ticket::new(permit);
        let (watch, inbox) = call.watch.clone().unzip();
        let losses_seen = self.shared.losses.load(Ordering::Acquire);
        let request = Request { op: call.op, body: call.body.clone(), watch, losses_seen };
        match self.shared.commands.send(Command::Submit { request, inbox, ticket }) {
            Ok(()) => Attempt::Sent(receiver),
            Err(_) => Attempt::Refused(self.over(call)),
        }
    }

    /// The driver has gone: the session's end says why.
    pub(crate) fn over(&self, call: &Call) -> Error {
        let cause = match self.state() {
            SessionState::Expired => Cause::SessionExpired,
            SessionState::AuthFailed => Cause::AuthFailed,
            SessionState::Connecting
            | SessionState::Connected
            | SessionState::ReadOnly
            | SessionState::Suspended
            | SessionState::Reconnected
            | SessionState::Closed => Cause::Closed,
        };
        let failure = Failure { cause, delivery: Delivery::NotSent, server: None };
        Error::from_failure(failure, call.operation, &call.path)
    }

    /// Waits for the end of an attempt. Server errors are in the answer's code.
    async fn outcome(&self, call: &Call, attempt: Attempt) -> Result<Answer, Error> {
        let receiver = match attempt {
            Attempt::Sent(receiver) => receiver,
            Attempt::Refused(error) => return Err(error),
            Attempt::Later => {
                let permit = self.shared.room.clone().acquire_many_owned(self.units(call)).await;
                match self.enqueue(call, permit.ok()) {
                    Attempt::Sent(receiver) => receiver,
                    Attempt::Refused(error) => return Err(error),
                    Attempt::Later => return Err(self.over(call)),
                }
            }
        };
        match receiver.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => {
                let trouble = (failure.cause == Cause::NotConnected).then(|| self.shared.trouble.last());
                Err(Error::from_failure(failure, call.operation, &call.path).because(trouble.flatten()))
            }
            // The driver went without an answer: the runtime is shutting down, or it panicked.
            Err(_) => {
                let failure = Failure { cause: Cause::Closed, delivery: Delivery::Sent, server: None };
                Err(Error::from_failure(failure, call.operation, &call.path))
            }
        }
    }

    /// The end of an attempt, with the server's refusal as an error.
    pub(crate) async fn finish(&self, call: &Call, attempt: Attempt) -> Result<Answer, Error> {
        let answer = self.outcome(call, attempt).await?;
        match answer.code {
            0 => Ok(answer),
            code => Err(Error::from_code(code, call.operation, &call.path, &answer.server)),
        }
    }

    /// One attempt, for loops that stand around more than one call.
    pub(crate) async fn once(&self, call: &Call) -> Result<Answer, Error> {
        self.finish(call, self.start_awaited(call)).await
    }

    /// The loop of one call.
    pub(crate) async fn run(
        &self,
        call: &Call,
        mut attempt: Attempt,
        policy: Arc<dyn RetryPolicy>,
        repeat: Repeat,
    ) -> Result<Answer, Error> {
        let mut attempts = self.attempts(policy);
        loop {
            match self.finish(call, attempt).await {
                Ok(answer) => return Ok(answer),
                Err(error) => attempts.after(error, repeat).await?,
            }
            attempt = self.start_awaited(call);
        }
    }

    pub(crate) fn attempts(&self, policy: Arc<dyn RetryPolicy>) -> Attempts {
        Attempts::new(policy, self.shared.random())
    }
}
