//! The core at the edge: the node's rounds, which thread runs them, their input, and the state that all
//! parts of the server share.

pub(crate) mod context;
pub(crate) mod executor;
pub(crate) mod inbox;
pub(crate) mod node_builder;
pub(crate) mod restore;
pub(crate) mod server_core;
mod serving_effects;
