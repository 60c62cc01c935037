//! Numbers, servers, sessions and watches, as far as the four-letter words of the servers tell them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_admin::parts::{Problem, SessionOrder, hex, quorum_facts};
use zebu_proto::ServerId;
use zebu_zab::Role;
use zebu_zab::membership::{Configuration, HostPort, MultiAddress, ServerSpec, parse_server_spec};

use super::backend::{RemoteCall, json_answer};
use super::word_texts::{
    ListedConnection, colon_lines, connections, digests, hexadecimal, mntr_values, paths_by_session,
    sessions_by_path,
};
use crate::protection::{WordLimits, ask};

/// How long a server may take, and its longest answer.
const LIMITS: WordLimits = WordLimits { time: Duration::from_secs(3), answer_bytes: 32 << 20 };
/// Sessions of an answer, and paths of a session.
const SESSIONS_MAX: usize = 1000;
const PATHS_MAX: usize = 1000;

/// The server that the client of this call is connected to; the first one without a connection.
fn connected(call: &RemoteCall) -> String {
    let server = call.client().session().server.map(|server| server.to_string());
    let known =
        server.filter(|server| server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()));
    known.or_else(|| call.remote.servers.first().cloned()).unwrap_or_default()
}

/// Asks a server. A word that is not in its whitelist is an error.
async fn word(call: &RemoteCall, server: &str, word: &'static str) -> Result<String, Problem> {
    let _permit = call.remote.words.acquire().await.ok();
    let (address, tls) = (server.to_owned(), call.remote.protection.tls.clone());
    let asked = tokio::task::spawn_blocking(move || ask(&address, word, tls.as_ref(), LIMITS)).await;
    let unreachable = |why: String| {
        Problem::unavailable("NOTSERVING", format!("{server} does not answer the word {word}: {why}"))
    };
    let text = match asked {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(error) => return Err(unreachable(error.to_string())),
    };
    if text.contains("is not in the whitelist") {
        let detail = format!("{server} does not answer the word {word}: add it to 4lw.commands.whitelist");
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "WORDREFUSED", detail));
    }
    Ok(text)
}

fn number(text: Option<&String>) -> Value {
    let parsed = text.and_then(|text| text.parse::<i64>().ok());
    parsed.map_or(Value::Null, |number| json!(number))
}

/// A value of `mntr`: a number where it is one.
fn value_of(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) => json!(number),
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

/// The numbers of the connected server. Only `mntr` tells most of them.
pub(super) async fn show_stats(call: RemoteCall) -> Result<Response, Problem> {
    let server = connected(&call);
    let srvr = colon_lines(&word(&call, &server, "srvr").await?);
    let mntr = match word(&call, &server, "mntr").await {
        Ok(text) => Some(mntr_values(&text)),
        Err(_) => None,
    };
    let values: Map<String, Value> =
        mntr.iter().flatten().map(|(key, value)| (key.clone(), value_of(value))).collect();
    let mode = srvr.get("Mode");
    let zxid = srvr.get("Zxid").and_then(|text| hexadecimal(text));
    let mut latency = srvr.get("Latency min/avg/max").into_iter().flat_map(|text| text.split('/')).skip(1);
    let mut next_latency = || latency.next().and_then(|text| text.parse::<f64>().ok());
    let (average, max) = (next_latency(), next_latency());
    let epoch = zxid.filter(|_| mode.is_some_and(|mode| mode != "standalone")).map(|zxid| zxid >> 32);
    let object = json!({
        "id": null,
        "server": server,
        "serverVersion": srvr.get("Zookeeper version"),
        "role": mode,
        "epoch": epoch,
        "zxid": zxid.map(hex),
        "uptimeMs": mntr.as_ref().map_or(Value::Null, |mntr| number(mntr.get("uptime"))),
        "connections": number(srvr.get("Connections")),
        "outstanding": number(srvr.get("Outstanding")),
        "packetsReceived": number(srvr.get("Received")),
        "packetsSent": number(srvr.get("Sent")),
        "nodes": number(srvr.get("Node count")),
        "dataDirBytes": null,
        "logDirBytes": null,
        "averageLatencyMs": average,
        "maxLatencyMs": max,
        "lastSnapshot": null,
        "hasMntr": mntr.is_some(),
        "values": values,
    });
    Ok(json_answer(StatusCode::OK, &object))
}

fn host_port(address: &HostPort) -> String {
    if address.host.contains(':') {
        format!("[{}]:{}", address.host, address.port)
    } else {
        format!("{}:{}", address.host, address.port)
    }
}

/// A member of the config, and what its server says.
struct RemoteMember {
    id: i64,
    spec: ServerSpec,
    /// Where its server is asked; `None` if the config does not name its client port.
    place: Option<String>,
    srvr: Option<BTreeMap<String, String>>,
}

fn place_of(spec: &ServerSpec) -> Option<String> {
    let client = spec.client.as_ref()?;
    let is_any = matches!(client.host.as_str(), "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0");
    match is_any {
        true => Some(host_port(&HostPort { host: spec.addresses.first()?.host.clone(), port: client.port })),
        false => Some(host_port(client)),
    }
}

/// The servers of the config, each with what it says of itself.
pub(super) async fn show_ensemble(call: RemoteCall) -> Result<Response, Problem> {
    let own = connected(&call);
    let srvr = colon_lines(&word(&call, &own, "srvr").await?);
    let config = call.client().config().await.ok();
    let mut members = Vec::new();
    for member in config.iter().flat_map(|config| &config.members) {
        let Ok(spec) = parse_server_spec(&member.specification, MultiAddress::Enabled) else { continue };
        members.push(RemoteMember { id: member.id, place: place_of(&spec), spec, srvr: None });
    }
    for member in &mut members {
        let Some(place) = member.place.clone() else { continue };
        let answer = if place == own {
            Ok(srvr.clone())
        } else {
            word(&call, &place, "srvr").await.map(|text| colon_lines(&text))
        };
        member.srvr = answer.ok().filter(|srvr| srvr.contains_key("Mode"));
    }
    let mode = |member: &RemoteMember| member.srvr.as_ref().and_then(|srvr| srvr.get("Mode")).cloned();
    let leader =
        members.iter().find(|member| mode(member).as_deref() == Some("leader")).map(|member| member.id);
    let is_self = |member: &RemoteMember| member.place.as_deref() == Some(own.as_str());
    let learners: Vec<Value> = members
        .iter()
        .filter(|member| !is_self(member) && matches!(mode(member).as_deref(), Some("follower" | "observer")))
        .map(|member| {
            let zxid =
                member.srvr.as_ref().and_then(|srvr| srvr.get("Zxid")).and_then(|text| hexadecimal(text));
            json!({ "id": member.id, "synced": true, "ackedZxid": hex(zxid.unwrap_or(0)) })
        })
        .collect();
    let servers: Vec<Value> =
        members.iter().map(|member| server_json(member, leader, is_self(member))).collect();
    // Without the place of each server, a missing answer says nothing.
    let knows_all = members.iter().all(|member| member.place.is_some()) && members.iter().any(is_self);
    let role = srvr.get("Mode").filter(|role| knows_all || *role != "leader");
    let zxid = srvr.get("Zxid").and_then(|text| hexadecimal(text)).unwrap_or(0);
    let quorum = config.as_ref().filter(|_| !members.is_empty()).and_then(|config| {
        let parsed = Configuration::parse(&config.text).ok()?;
        let serves = |member: &&RemoteMember| matches!(mode(member).as_deref(), Some("leader" | "follower"));
        let synced = members.iter().filter(serves).map(|member| ServerId(member.id)).collect();
        Some(Value::Object(quorum_facts(&parsed, knows_all.then_some(&synced))))
    });
    let config = config
        .filter(|_| !servers.is_empty())
        .map(|config| json!({ "version": hex(config.version), "servers": servers }));
    let object = json!({
        "id": members.iter().find(|member| is_self(member)).map(|member| member.id),
        "role": role,
        "epoch": srvr.get("Mode").filter(|mode| *mode != "standalone").map(|_| zxid >> 32),
        "zxid": hex(zxid),
        "leader": leader,
        "learners": learners,
        "config": config,
        "quorum": quorum,
    });
    Ok(json_answer(StatusCode::OK, &object))
}

fn server_json(member: &RemoteMember, leader: Option<i64>, is_self: bool) -> Value {
    let addresses: Vec<Value> = member
        .spec
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
        "id": member.id,
        "role": if member.spec.role == Role::Participant { "participant" } else { "observer" },
        "addresses": addresses,
        "client": member.spec.client.as_ref().map(host_port),
        "secureClient": member.spec.secure_client.as_ref().map(host_port),
        "isLeader": leader == Some(member.id),
        "isSelf": is_self,
    })
}

fn connection_json(connection: &ListedConnection) -> Value {
    let value = |name: &str| number(connection.values.get(name));
    json!({
        "remote": connection.remote,
        "isSecure": false,
        "outstanding": value("queued"),
        "received": value("recved"),
        "sent": value("sent"),
        "establishedMs": value("est"),
        "lastOperation": connection.values.get("lop"),
        "lastZxid": connection.values.get("lzxid"),
        "averageLatencyMs": value("avglat"),
        "maxLatencyMs": value("maxlat"),
    })
}

fn session_json(connection: &ListedConnection, ephemerals: Option<usize>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("id".to_owned(), hex(connection.session));
    object.insert("timeoutMs".to_owned(), number(connection.values.get("to")));
    object.insert("ephemerals".to_owned(), json!(ephemerals.unwrap_or(0)));
    object.insert("isLocal".to_owned(), json!(false));
    object.insert("connection".to_owned(), connection_json(connection));
    object
}

/// The ephemeral nodes by session; empty where the server does not answer `dump`.
async fn ephemerals(call: &RemoteCall, server: &str) -> BTreeMap<i64, Vec<String>> {
    match word(call, server, "dump").await {
        Ok(text) => paths_by_session(&text, "Sessions with Ephemerals"),
        Err(_) => BTreeMap::new(),
    }
}

/// The sessions with a connection to the connected server: those that fit a text, in an order.
pub(super) async fn list_sessions(call: RemoteCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["limit", "match", "order"])?;
    let limit = call.arguments.number("limit", SESSIONS_MAX)?.unwrap_or(SESSIONS_MAX);
    let order = SessionOrder::of_name(call.arguments.value("order"))?;
    let text = call.arguments.value("match").unwrap_or_default().to_lowercase();
    let server = connected(&call);
    let mut found = connections(&word(&call, &server, "cons").await?);
    let total = found.len();
    let ephemerals = ephemerals(&call, &server).await;
    let count = |connection: &ListedConnection| ephemerals.get(&connection.session).map(Vec::len);
    found.retain(|connection| {
        let id = format!("{:#x}", connection.session);
        id.contains(&text) || connection.remote.to_lowercase().contains(&text)
    });
    let told = |connection: &ListedConnection, name: &str| {
        connection.values.get(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(-1)
    };
    found.sort_by_key(|connection| {
        let weight = match order {
            SessionOrder::Id => 0,
            SessionOrder::Received => told(connection, "recved"),
            SessionOrder::Latency => told(connection, "maxlat"),
            SessionOrder::Ephemerals => i64::try_from(count(connection).unwrap_or(0)).unwrap_or(i64::MAX),
        };
        (Reverse(weight), connection.session)
    });
    let sessions: Vec<Value> = found
        .iter()
        .take(limit)
        .map(|connection| Value::Object(session_json(connection, count(connection))))
        .collect();
    let object = json!({ "sessions": sessions, "next": null, "matched": found.len(), "total": total });
    Ok(json_answer(StatusCode::OK, &object))
}

/// One session: its connection, if it is to one of the servers of this command.
pub(super) async fn show_session(call: RemoteCall) -> Result<Response, Problem> {
    let id = hexadecimal(call.rest.trim_start_matches('/'))
        .ok_or_else(|| Problem::bad_request("a session id is written as 0x and hexadecimal digits"))?;
    let own = connected(&call);
    let mut places = vec![own.clone()];
    places.extend(call.remote.servers.iter().filter(|server| **server != own).cloned());
    let mut refused = None;
    let mut found = None;
    for place in &places {
        match word(&call, place, "cons").await {
            Ok(text) => {
                found = connections(&text).into_iter().find(|connection| connection.session == id);
                if found.is_some() {
                    break;
                }
            }
            Err(problem) => refused = Some(problem),
        }
    }
    let paths = ephemerals(&call, &own).await.remove(&id).unwrap_or_default();
    let watched = match word(&call, &own, "wchc").await {
        Ok(text) => paths_by_session(&text, "").remove(&id).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let mut object = match (&found, refused) {
        (Some(connection), _) => session_json(connection, Some(paths.len())),
        (None, Some(problem)) => return Err(problem),
        (None, None) if paths.is_empty() => {
            let detail = "these servers do not know the session";
            return Err(Problem::new(StatusCode::NOT_FOUND, "UNKNOWNSESSION", detail));
        }
        (None, None) => {
            let elsewhere = ListedConnection { session: id, ..ListedConnection::default() };
            let mut object = session_json(&elsewhere, Some(paths.len()));
            object.insert("connection".to_owned(), Value::Null);
            object
        }
    };
    let is_cut = paths.len() > PATHS_MAX || watched.len() > PATHS_MAX;
    object.insert("ephemeralPaths".to_owned(), json!(paths[..paths.len().min(PATHS_MAX)]));
    object.insert("watchedPaths".to_owned(), json!(watched[..watched.len().min(PATHS_MAX)]));
    object.insert("isCut".to_owned(), json!(is_cut));
    Ok(json_answer(StatusCode::OK, &object.into()))
}

/// Watches on data of the connected server.
pub(super) async fn list_watches(call: RemoteCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["by"])?;
    let found = sessions_by_path(&word(&call, &connected(&call), "wchp").await?);
    let mut sessions: Vec<i64> = found.values().flatten().copied().collect();
    let watches = sessions.len();
    sessions.sort_unstable();
    sessions.dedup();
    let rows: Vec<Value> = found
        .iter()
        .map(|(path, ids)| json!({ "path": path, "sessions": ids.iter().map(|id| hex(*id)).collect::<Vec<_>>() }))
        .collect();
    let object =
        json!({ "connections": sessions.len(), "paths": found.len(), "watches": watches, "byPath": rows });
    Ok(json_answer(StatusCode::OK, &object))
}

/// The recorded digests of the connected server.
pub(super) async fn show_digest(call: RemoteCall) -> Result<Response, Problem> {
    let mut found = digests(&word(&call, &connected(&call), "hash").await?);
    let Some((zxid, digest)) = found.pop() else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "UNIMPLEMENTED", "no digest is recorded yet"));
    };
    let history: Vec<Value> =
        found.iter().map(|(zxid, digest)| json!({ "zxid": hex(*zxid), "digest": hex(*digest) })).collect();
    let object = json!({ "zxid": hex(zxid), "digest": hex(digest), "digestVersion": 2, "history": history });
    Ok(json_answer(StatusCode::OK, &object))
}
