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
//!
//! # Recipes
//!
//! | Purpose | Types |
//! |---|---|
//! | locks | [`Mutex`], [`RwLock`], [`Semaphore`], [`SemaphoreMutex`], [`SimpleLock`], [`acquire_all`] |
//! | elections | [`LeaderLatch`], [`LeaderSelector`], [`SimpleElection`] |
//! | barriers | [`Barrier`], [`DoubleBarrier`] |
//! | values | [`SharedValue`], [`SharedCount`], [`AtomicValue`], [`AtomicLong`], [`UniqueIds`] |
//! | queues | [`DistributedQueue`] |
//! | caches and configuration | [`Cache`], [`JsonConfig`] |
//! | long-lived nodes | [`PersistentNode`], [`SessionFile`], [`TtlNode`] |
//! | membership | [`GroupMember`], [`Party`], [`Partitioner`] |
//! | discovery | [`ServiceDiscovery`], [`ServiceProvider`] |
//! | two-phase commit | [`CommitCoordinator`], [`CommitParticipant`] |
//!
//! Guards of locks, permits and terms of leadership implement [`Ownership`]: they report the loss, give
//! fencing tokens, and bind transactions to the ownership ([`Fenced`]).
//!
//! # Errors
//!
//! [`RecipeError`] is a refusal by a server, a closed client, lost ownership or invalid arguments. A lost
//! connection is no error. Calls that do not wait for other contenders (`try_…`) fail with
//! [`RecipeError::Unreachable`] if no server replies within the client's connection timeout.
//!
//! # Cancellation
//!
//! A dropped future leaves its queue: its nodes are deleted in the background, even if a create was in
//! flight. The deletes need the runtime and the session. `release().await` returns after the reply of the
//! ensemble.
//!
//! # Runtime, features and versions
//!
//! Recipes run on the tokio runtime of their client. The crate has no features. It follows Semantic
//! Versioning: before 1.0.0 the interface may change between minor versions, and the changelog lists each
//! change. Layouts of nodes do not change, because programs of different versions share them. The minimum
//! Rust version is 1.90; it rises only with a minor version. The interface contains types of `zebu-client`,
//! `bytes`, `serde`, `tokio` and `tokio-util`.

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

/// Compiles the page of the package as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct RecipesReadme;

/// Compiles the user page as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
pub struct RecipesPage;
