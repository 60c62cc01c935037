//! Recipes: locks, elections, queues and the other coordination primitives that are built from znodes, on top
//! of [`zebu_client`].
//!
//! ```
//! # zebu_testing::with_server(async |server| {
//! # let client = zebu_client::Client::connect(&server.connect_string()).await?;
//! use zebu_recipes::{Mutex, Ownership};
//!
//! let guard = Mutex::new(&client, "/locks/report").acquire().await?;
//! tokio::select! {
//!     reason = guard.lost() => println!("stopped: {reason}"),
//!     () = async { /* the work */ } => {}
//! }
//! guard.release().await?;
//! # Ok(()) });
//! ```
//!
//! Rules for all recipes:
//!
//! - A recipe is a set of futures. It owns no thread, and it runs no code of the caller where that could
//!   block the client.
//! - Every future can be dropped at any time. Its nodes are then removed in the background.
//! - A lost connection is waited out. Each recipe documents the effect of a lost session and of a crash.
//! - A recipe uses a node only if the current session owns it.
//! - Names and contents of nodes are those of Curator or Kazoo, so that programs in several languages can
//!   share them. A recipe refuses a directory with nodes of an incompatible layout.
//! - Every failure reaches the caller; no background task fails silently.

mod barrier;
mod cache;
mod commit;
mod discovery;
mod election;
mod error;
mod idempotent_txn;
mod latest_read;
mod lock;
mod membership;
mod ownership;
mod queue;
mod retry;
mod spawn_on_drop;
mod unique_id;
mod value;
mod wait_queue;

pub use barrier::*;
pub use cache::*;
pub use commit::*;
pub use discovery::*;
pub use election::*;
pub use error::RecipeError;
pub use lock::*;
pub use membership::*;
pub use ownership::{
    Fenced, FencingToken, LeasePolicy, LossReason, Ownership, OwnershipState, WhenSuspended, is_fenced_out,
    run_while_held,
};
pub use queue::*;
pub use value::*;

/// Compiles the user page as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
pub struct RecipesPage;
