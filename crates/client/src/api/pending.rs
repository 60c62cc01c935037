//! What every call's builder has in common: it is a future in waiting, and it can be sent before it is
//! awaited.

use std::future::Future;
use std::pin::Pin;

use super::error::Error;

/// A call that was sent; await it for its end. Dropping it does not take the call back.
pub type Pending<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

/// Gives a builder `send`, `retry` and `.await`. The builder has `client`, `retry` and
/// `fn begin(self) -> Pending<…>`.
macro_rules! sendable {
    ($builder:ty => $output:ty) => {
        impl $builder {
            /// Sends now and returns the future of the answer. Calls are carried out in the order in which
            /// they were sent, so a sequence can be pipelined: send all, then await all.
            pub fn send(self) -> $crate::api::Pending<$output> {
                self.begin()
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
                self.begin()
            }
        }
    };
}

pub(crate) use sendable;
