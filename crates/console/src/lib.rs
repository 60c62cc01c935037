//! The web console: its assets, its logins and its routes.
//!
//! The pages are programs in the browser. They ask `/console/api/…`, and a [`Backend`] answers: inside a
//! server that is the HTTP API `/v1` with the identity of the login. This crate knows no tree and no server.

mod assets;
mod backend;
mod logins;
mod routes;
mod security_headers;

pub use backend::{Answering, Backend, ConsoleAccess, LoginRefusal, Visitor};
pub use routes::console_router;
