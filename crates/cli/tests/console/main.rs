//! The web console in a real browser, with the zebu program.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod accessibility;
#[path = "../admin_common/mod.rs"]
mod admin_common;
mod browser;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/dev_ports.rs"]
mod dev_ports;
mod history;
mod hostile;
#[path = "../common/manual.rs"]
mod manual;
mod members;
mod pages;
#[path = "../common/ensemble.rs"]
mod processes;
mod recipes;
mod remote;
mod scene;
mod screenshots;
mod sessions;
mod walk_through;
mod wide;
mod writes;
