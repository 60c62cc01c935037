//! Writers that know what they have written. Each owns a directory of the tree and keeps a model of it, so
//! that after a crash every acknowledged write can be asked for, and nothing else can be there than what
//! was sent.

mod model;
mod operation;
mod run;
mod writer;

pub(crate) use run::Load;
