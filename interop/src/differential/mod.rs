//! The differential test: the same random requests to two servers, every reply compared.

mod coverage;
mod deviation;
mod dialect;
mod generator;
mod observed;
mod peer;
mod random;
mod request;
mod requests;
mod run;
mod step;
mod vocabulary;

pub(crate) use dialect::Dialect;
pub(crate) use generator::Pairing;
pub(crate) use random::Random;
pub(crate) use run::{Deviations, Plan, Sync, run};
pub(crate) use vocabulary::{SUPER_DIGEST, SUPER_USER, digest_id};
