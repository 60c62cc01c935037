//! The HTTP API `/v1/…`: reads and writes nodes, and shows sessions and the ensemble.
//!
//! Reads take the shared lock of the local replica for a moment, as a client's reads do. Writes go through a
//! connection within the process ([`request_connection`]), which is a client's connection for the server.
//! All of it runs on the admin thread, within the limits that [`call`] names.

mod acl_routes;
mod arguments;
mod call;
mod connection_pool;
mod digests_route;
mod entity_tag;
mod feed_route;
mod history_route;
mod identity;
mod listing_route;
mod multi_route;
mod name_pattern;
mod operate_routes;
mod problem;
mod quorum_facts;
mod read_routes;
mod recipe_groups;
mod reconfig_routes;
mod recursive_delete;
mod request_connection;
mod requests;
mod routes;
mod scan_route;
mod sequence;
mod server_routes;
mod session_routes;
mod session_search;
mod stats_route;
mod values;
mod watch_route;
mod write_routes;

/// The JSON, the parameters and the errors of the API, for another backend that answers the same requests.
pub mod parts {
    pub use super::arguments::{Arguments, check_path, znode_path};
    pub use super::entity_tag::{Condition, EntityTag, if_match};
    pub use super::listing_route::ListingOrder;
    pub use super::multi_route::parse_ops;
    pub use super::name_pattern::NamePattern;
    pub use super::problem::{CallerAuth, Problem};
    pub use super::quorum_facts::quorum_facts;
    pub use super::recipe_groups::RecipeGroups;
    pub use super::sequence::LowestSequences;
    pub use super::session_search::SessionOrder;
    pub use super::values::{
        acl, base64_data, decode_base64, hex, parse_acl, parse_acl_entry, parse_data, parse_ttl, stat,
    };
    pub use super::write_routes::create_mode;
}

pub(crate) use call::{ApiState, STREAMS_MAX};
pub(crate) use identity::CallerIds;
pub(crate) use routes::{ApiDoor, host_rule, serve_api, serve_request};
