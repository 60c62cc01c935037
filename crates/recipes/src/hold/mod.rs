//! Holding something that only one may hold: how long it is safe, how its loss is told, and the token that
//! keeps late writes of a former holder out.

mod held;
mod leased;
mod state;
mod terms;

pub use held::{Fenced, Held, fenced_out, run_while_held};
pub use state::Holding;
pub use terms::{FencingToken, LossReason, Terms, WhenSuspended};

pub(crate) use leased::{is_leased, leased};
pub(crate) use state::{REVOKE, UNLOCK, Watched};
