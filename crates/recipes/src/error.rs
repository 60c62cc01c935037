//! The one error of this crate. Trouble with the connection is not an error here: recipes go on when a server
//! can be reached again, and an expired session makes them start over where that is safe.

use std::time::Duration;

use crate::hold::LossReason;

/// Why a recipe could not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A server refused a call, or the client is over.
    #[error(transparent)]
    Client(#[from] zebu_client::Error),
    /// Others use the same directory with names that this recipe, or they, would not take into account.
    #[error(
        "{directory} is used in another layout: it contains {child}, whose owner does not count our nodes or \
         is not counted by us; use one layout per directory"
    )]
    LayoutConflict {
        /// The directory.
        directory: String,
        /// The name that gave it away.
        child: String,
    },
    /// What was held is not held any more.
    #[error("{path} is not held any more: {reason}")]
    Lost {
        /// The node that stood for it.
        path: String,
        /// Why.
        reason: LossReason,
    },
    /// Arguments that contradict each other or the state of the recipe's nodes.
    #[error("{0}")]
    Invalid(String),
    /// The data of a node is not what the recipe writes.
    #[error("the data of {path} is not {expected}")]
    BadData {
        /// The node.
        path: String,
        /// What should be there.
        expected: &'static str,
    },
    /// Others were faster every time.
    #[error("{path}: others were faster {attempts} times in a row; use a lock or try again later")]
    Contended {
        /// The node.
        path: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// A call that does not wait for other contenders found no server within the client's connection timeout.
    #[error(
        "no server answered for {path} within {waited:?}; nothing was changed or is held; try again later"
    )]
    Unreachable {
        /// The node.
        path: String,
        /// The connection timeout of the client.
        waited: Duration,
    },
    /// A write was sent, no answer came, and whether it was carried out cannot be found out.
    #[error("{what} at {path} was sent and may have been carried out; it cannot be found out whether it was")]
    Unknown {
        /// What was attempted.
        what: &'static str,
        /// The node.
        path: String,
    },
}
