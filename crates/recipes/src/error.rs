//! The error type of this crate. A lost connection is no error: recipes continue when a server is reachable
//! again. After an expired session they start over where that is safe.

use std::time::Duration;

use crate::ownership::LossReason;

/// The reason why a recipe failed.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Mutex, RecipeError};
///
/// match Mutex::new(&client, "/locks/report").try_acquire().await {
///     Ok(Some(guard)) => guard.release().await?,
///     Ok(None) => println!("another client holds the lock"),
///     Err(RecipeError::Unreachable { waited, .. }) => println!("no server within {waited:?}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A server refused a call, or the client is closed.
    #[error(transparent)]
    Client(#[from] zebu_client::Error),
    /// The directory has nodes of a layout that does not count the nodes of this recipe.
    #[error(
        "{directory} has another layout: its child {child} is of a contender that does not wait for this recipe, \
         or the reverse; use one layout per directory"
    )]
    LayoutConflict {
        /// The directory.
        directory: String,
        /// A child of the other layout.
        child: String,
    },
    /// Ownership was lost.
    #[error("lost ownership of {path}: {reason}")]
    Lost {
        /// The owner's node.
        path: String,
        /// The reason.
        reason: LossReason,
    },
    /// Arguments that contradict each other or the state of the recipe's nodes.
    #[error("{0}")]
    Invalid(String),
    /// The data of a node has a wrong format.
    #[error("the data of {path} is not {expected}")]
    BadData {
        /// The node.
        path: String,
        /// The expected format.
        expected: &'static str,
    },
    /// Every attempt met a conflict.
    #[error("{path}: {attempts} attempts in a row met a conflict; use a lock or try again later")]
    Contended {
        /// The node.
        path: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// A call that does not wait for other contenders reached no server within the client's connection
    /// timeout.
    #[error(
        "no server answered for {path} within {waited:?}; nothing was changed or acquired; try again later"
    )]
    Unreachable {
        /// The node.
        path: String,
        /// The connection timeout of the client.
        waited: Duration,
    },
    /// A write was sent without a reply, and its outcome cannot be determined.
    #[error("{what} at {path} was sent without a reply, and its outcome cannot be determined")]
    Unknown {
        /// The operation.
        what: &'static str,
        /// The node.
        path: String,
    },
}
