//! The kill test: a server under load is killed again and again, and must come back by itself with
//! everything that it had acknowledged.

mod run;

pub(crate) use run::{Plan, run};
