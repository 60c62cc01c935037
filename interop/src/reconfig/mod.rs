//! Ensembles whose members change: Zebu joins Apache servers, takes their places one by one, and gives them
//! back. A client that knows the members only by its watch writes all the time.

mod places;
mod run;
mod vote;
mod writer;

pub(crate) use run::{Arguments, run};
pub(crate) use writer::{Servers, Writer};
