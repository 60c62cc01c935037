//! Ensembles of real processes under faults: Zebu servers, Apache servers, or both. Clients write all the time;
//! what was acknowledged must be there in the end, the same on every member.

mod faults;
mod load;
mod members;
mod run;

pub(crate) use run::{Arguments, run};
