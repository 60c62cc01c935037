//! The web console in a real browser, with the zebu program.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod accessibility;
#[path = "../admin_common/mod.rs"]
mod admin_common;
mod browser;
#[path = "../common/mod.rs"]
mod common;
mod history;
mod hostile;
mod members;
mod pages;
#[path = "../common/ensemble.rs"]
mod processes;
mod remote;
mod scene;
mod screenshots;
mod wide;
mod recipes;
mod writes;
mod sessions;
