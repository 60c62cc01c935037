//! What the console needs of the system that it shows.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::Value;

/// What pages may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAccess {
    /// They show.
    ReadOnly,
    /// They also write, after the user asked for it.
    ReadWrite,
}

/// The browser that sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Its address.
    pub address: IpAddr,
    /// Whether it came through TLS.
    pub is_secure: bool,
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The user and password prove no identity.
    NotProven,
    /// The system that checks them cannot be reached now.
    Unavailable,
}

/// An answer in progress.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The system behind the pages.
pub trait Backend: Send + Sync + 'static {
    /// What a login proves. No password is kept.
    type Identity: Clone + Send + Sync + 'static;

    /// The sender of a request.
    ///
    /// # Errors
    /// The request comes from a page of another origin or names another host; the text says so.
    fn visitor(&self, parts: &Parts) -> Result<Visitor, String>;

    /// Checks a user and password of the scheme digest.
    ///
    /// # Errors
    /// See [`LoginRefusal`].
    fn log_in(&self, visitor: &Visitor, user: &str, password: &str) -> Result<Self::Identity, LoginRefusal>;

    /// What pages may do.
    fn access(&self) -> ConsoleAccess;

    /// Names of the features that the pages show, and further facts about the system.
    fn describe(&self) -> Value;

    /// Answers a request below `/v1`. `None` is a visitor who did not log in.
    fn answer(&self, request: Request, identity: Option<Self::Identity>) -> Answering;
}
