//! What every call's builder has in common: it is a future in waiting, and it can be sent before it is
//! awaited.

use std::future::Future;
use std::pin::Pin;

use super::error::Error;

/// A call that was sent; await it for its end. Dropping it does not take the call back.
pub type Pending<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

/// Gives a builder `send`, `retry` and `.await`. The builder has `client`, `retry` and
/// `fn begin(self, when_full: WhenFull) -> Pending<…>`.
macro_rules! sendable {
    ($builder:ty => $output:ty) => {
        impl $builder {
            /// Sends now and returns the future of the answer. Calls are carried out in the order in which
            /// they were sent, so a sequence can be pipelined: send all, then await all. A call is carried out
            /// although its future is dropped.
            ///
            /// A call that finds too many [in flight](crate::ClientBuilder::in_flight_limit) waits in the client's
            /// queue, and all later ones wait behind it. If the [queue](crate::ClientBuilder::queue_limit) is full,
            /// the call fails with [`Cause::QueueFull`](crate::Cause::QueueFull) and is not repeated, because later
            /// calls may have passed it: await some calls before more are sent. A call that is awaited without
            /// `send` waits for room instead.
            pub fn send(self) -> $crate::api::Pending<$output> {
                self.begin($crate::api::call::WhenFull::Refuse)
            }

            /// Another retry policy for this call.
            pub fn retry(mut self, policy: impl $crate::api::RetryPolicy) -> Self {
                self.retry = std::sync::Arc::new(policy);
                self
            }
        }

        impl std::future::IntoFuture for $builder {
            type Output = Result<$output, $crate::api::Error>;
            type IntoFuture = $crate::api::Pending<$output>;

            fn into_future(self) -> Self::IntoFuture {
                self.begin($crate::api::call::WhenFull::Wait)
            }
        }
    };
}

pub(crate) use sendable;
