//! The HTTP API `/v1/…`: reads and writes nodes, and shows sessions and the ensemble.
//!
//! Reads take the shared lock of the local replica for a moment, as a client's reads do. Writes go through a
//! connection within the process ([`request_connection`]), which is a client's connection for the server.
//! All of it runs on the admin thread, within the limits that [`call`] names.

mod acl_routes;
mod arguments;
mod call;
mod connection_pool;
mod entity_tag;
mod identity;
mod multi_route;
mod problem;
mod read_routes;
mod recursive_delete;
mod request_connection;
mod requests;
mod routes;
mod server_routes;
mod session_routes;
mod values;
mod watch_route;
mod write_routes;

pub(crate) use call::{ApiState, STREAMS_MAX};
pub(crate) use routes::serve_api;
