//! Ensembles of real processes under faults: Zebu servers, Apache servers, or both. Clients ask for all kinds
//! of things all the time, through a network that can be broken; everything that they say and hear is
//! recorded and judged by the checkers of the simulator against the history in the members' logs.

mod disk;
mod faults;
mod history;
mod load;
mod members;
mod plan;
mod run;
mod syncs;
#[cfg(test)]
mod tests;

pub(crate) use run::{Arguments, run};
