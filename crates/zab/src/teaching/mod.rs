//! How a learner is brought up to date and kept so, one connection at a time: by a leader, or by a follower that
//! serves observers. It knows a history and how far it is decided, not who decides.

mod admission;
mod backlog;
mod choice;
mod learner_link;
mod pings;
mod stream;
mod sync;

pub(crate) use admission::{admit, is_listed};
pub(crate) use learner_link::{Identity, Kind, LearnerLink, Patience, Phase, Position, Step as LearnerStep};
pub(crate) use pings::Stamp;
pub(crate) use stream::{Course, next_zxid};
