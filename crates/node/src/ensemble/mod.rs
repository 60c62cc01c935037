//! An ensemble member: its effects, and its processing of the actions of the Zab peer. The roles serve
//! clients: [`crate::primary`], [`crate::learner`] and [`crate::read_only`].

mod effect;
mod effect_queue;
mod reaction;
mod serving;

pub use effect::{Effect, ServeEffect};
pub(crate) use effect_queue::EffectQueue;
