//! The common part of all call builders: a builder is awaited, or sent first and awaited later.

use std::future::Future;
use std::pin::Pin;

use super::error::Error;

/// A submitted call; await it for its outcome. Dropping it does not cancel the call.
pub type Pending<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

/// Adds `send`, `retry` and `.await` to a builder. The builder has `client`, `retry` and `fn begin(self,
/// when_full: WhenFull) -> Pending<…>`.
macro_rules! sendable {
    ($builder:ty => $output:ty) => {
        impl $builder {
            /// Sends now and returns the future of the reply. Calls are carried out in the order of sending,
            /// so a sequence can be pipelined: send all, then await all. Dropping the future does not cancel
            /// the call.
            ///
            /// Beyond the limit of calls [in flight](crate::ClientBuilder::in_flight_limit), a call waits in
            /// the client's queue, before all later ones. If the [queue](crate::ClientBuilder::queue_limit)
            /// is full, the call fails with [`Cause::QueueFull`](crate::Cause::QueueFull). It is not
            /// repeated, because later calls may have overtaken it: await some calls before sending more. An
            /// awaited call without `send` waits for capacity instead.
            pub fn send(self) -> $crate::api::Pending<$output> {
                self.begin($crate::api::call::WhenFull::Refuse)
            }

            /// Sets the retry policy of this call.
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
