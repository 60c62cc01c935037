//! Recipes: locks and what else is built from znodes, on top of [`zebu_client`].
//!
//! ```
//! # zebu_testing::with_server(async |server| {
//! # let client = zebu_client::Client::connect(&server.connect_string()).await?;
//! use zebu_recipes::{Held, Mutex};
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
//! What holds for all of them:
//!
//! - They are futures; nothing owns a thread, and no code of the caller runs where it could block the client.
//! - Every future can be dropped at any time; nothing is left behind.
//! - A lost connection is waited out. What happens to a session and after a crash stands with each recipe.
//! - A node counts as one's own only if the present session owns it.
//! - Nodes have the names and contents that Curator or Kazoo give them, so that programs in several
//!   languages can share them. Contenders of a layout that would not count ours are refused.
//! - Each failure is passed on; nothing dies silently in the background.

mod barrier;
mod cache;
mod commit;
mod connection;
mod discovery;
mod election;
mod error;
mod hold;
mod line;
mod lock;
mod membership;
mod once;
mod queue;
mod unique_id;
mod value;

pub use barrier::*;
pub use cache::*;
pub use commit::*;
pub use discovery::*;
pub use election::*;
pub use error::RecipeError;
pub use hold::{
    Fenced, FencingToken, Held, Holding, LossReason, Terms, WhenSuspended, fenced_out, run_while_held,
};
pub use lock::*;
pub use membership::*;
pub use queue::*;
pub use value::*;

/// The page for users is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
pub struct RecipesPage;
