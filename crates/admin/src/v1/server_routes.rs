//! `/v1/top`, `/v1/ensemble`, `/v1/digest`, `/v1/features`, `/v1/whoami` and `/v1/openapi.json`: the server
//! itself.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use zebu_server::config::admin::ApiAccess;
use zebu_server::config::membership::{HostPort, Role};
use zebu_server::four_letter::version;
use zebu_server::views::TOP_ENTRIES_MAX;

use super::call::{ApiCall, STREAMS_MAX};
use super::problem::Problem;
use super::quorum_facts::{quorum_facts, synced_voters};
use super::values::hex;
use crate::answers::top::{TopOrder, top};

/// What the API can do; clients ask for a name before they use it.
const FEATURES: [&str; 18] = [
    "tree",
    "children-pages",
    "acl",
    "multi",
    "recursive-delete",
    "watch",
    "sessions",
    "top",
    "ensemble",
    "digest",
    "listing",
    "scan",
    "stats",
    "roles",
    "operate",
    "digests",
    "reconfig",
    "history",
];

/// The document that describes the routes.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// The hottest paths and clients, or the largest nodes. For the super user: it names paths whatever their
/// ACLs are.
pub(crate) async fn show_top(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["by", "limit"])?;
    call.require_super()?;
    let order = TopOrder::of_name(call.arguments.value("by")).map_err(Problem::bad_request)?;
    let limit = call.arguments.number("limit", TOP_ENTRIES_MAX)?.unwrap_or(TOP_ENTRIES_MAX);
    let object = top(&call.views, order, limit).await;
    call.json(StatusCode::OK, &object)
}

/// This server, its leader, and the servers of the config.
pub(crate) async fn show_ensemble(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let views = &call.views;
    let core = views.core().await.ok_or_else(Problem::not_serving)?;
    let own = views.server_id();
    let learners: Vec<Value> = core
        .learners
        .iter()
        .map(|learner| {
            json!({ "id": learner.server.0, "synced": learner.synced, "ackedZxid": hex(learner.acked.0) })
        })
        .collect();
    let config = views.ensemble_config();
    let quorum = config.as_ref().map(|config| {
        let synced = synced_voters(&core, own, config);
        Value::Object(quorum_facts(config, synced.as_ref()))
    });
    let config = config.map(|config| {
        let servers: Vec<Value> = config
            .members
            .iter()
            .map(|(id, member)| {
                let addresses: Vec<Value> = member
                    .addresses
                    .iter()
                    .map(|address| {
                        json!({
                            "host": address.host,
                            "quorumPort": address.quorum_port,
                            "electionPort": address.election_port,
                        })
                    })
                    .collect();
                json!({
                    "id": id.0,
                    "role": if member.role == Role::Participant { "participant" } else { "observer" },
                    "addresses": addresses,
                    "client": member.client.as_ref().map(host_port),
                    "secureClient": member.secure_client.as_ref().map(host_port),
                    "isLeader": core.leader == Some(*id),
                    "isSelf": own == Some(*id),
                })
            })
            .collect();
        json!({ "version": hex(config.version), "servers": servers })
    });
    let object = json!({
        "id": own.map(|id| id.0),
        "role": views.serving_mode().map(|mode| mode.to_string()),
        "epoch": views.serving_epoch(),
        "zxid": hex(views.last_zxid().0),
        "leader": core.leader.map(|leader| leader.0),
        "learners": learners,
        "config": config,
        "quorum": quorum,
    });
    call.json(StatusCode::OK, &object)
}

fn host_port(address: &HostPort) -> String {
    match address.host.contains(':') {
        true => format!("[{}]:{}", address.host, address.port),
        false => format!("{}:{}", address.host, address.port),
    }
}

/// The digest of the tree now and at recorded transactions, oldest first.
pub(crate) async fn show_digest(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let now = call.views.digest();
    let history = call.views.digests();
    let history: Vec<Value> = history
        .into_iter()
        .map(|(zxid, digest)| json!({ "zxid": hex(zxid.0), "digest": hex(digest) }))
        .collect();
    let object = json!({
        "zxid": hex(now.zxid.0),
        "digest": hex(now.digest),
        "digestVersion": 2,
        "history": history,
    });
    call.json(StatusCode::OK, &object)
}

/// Versions, features and limits.
pub(crate) async fn show_features(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let object = json!({
        "version": version::ZEBU_VERSION,
        "zookeeper": version::COMPATIBLE_RELEASE,
        "features": FEATURES,
        "readOnly": call.access == ApiAccess::ReadOnly,
        "limits": { "bodyBytes": call.body_bytes_max(), "streams": STREAMS_MAX },
    });
    call.json(StatusCode::OK, &object)
}

/// The identities of the caller, as `whoAmI` shows them.
pub(crate) async fn show_caller(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let names = call.views.user_names(&call.ids.credentials).into_iter();
    let ids: Vec<Value> = names.map(|(scheme, user)| json!({ "scheme": scheme, "user": user })).collect();
    let object = json!({ "ids": ids, "isSuper": call.ids.credentials.is_super() });
    call.json(StatusCode::OK, &object)
}

/// The OpenAPI document.
pub(crate) async fn show_openapi(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    call.answer(StatusCode::OK, "application/json", OPENAPI.into())
}
