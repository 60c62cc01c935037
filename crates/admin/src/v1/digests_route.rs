//! `GET /v1/digests`: whether the trees of all servers are equal. The other servers are asked by the
//! four-letter word `hash` at their client ports.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zebu_server::config::membership::ServerSpec;

use super::call::ApiCall;
use super::problem::Problem;
use super::values::hex;

/// How long another server may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest answer of another server.
const ANSWER_BYTES_MAX: u64 = 256 << 10;

/// The digests of a server by zxid, or why there are none.
type Asked = Result<BTreeMap<i64, i64>, String>;

pub(crate) async fn compare_digests(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    call.require_super()?;
    let config = call.views.ensemble_config();
    let config = config.ok_or_else(|| {
        Problem::new(StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED", "a standalone server has no other server")
    })?;
    // One comparison at a time asks all servers.
    let _permit = call.state.admin.long_answers.acquire().await.ok();
    let own_port = call.views.client_port();
    let mut asking = Vec::new();
    for (id, member) in &config.members {
        let is_self = call.views.server_id() == Some(*id);
        let host = member.addresses.first().map(|address| address.host.clone());
        // Without client addresses in the config, servers on hosts of their own mostly have the same port.
        // On one host they cannot, and this server would ask itself.
        let is_alone = |host: &String| {
            let same = |other: &&ServerSpec| other.addresses.iter().any(|address| address.host == *host);
            config.members.values().filter(same).count() == 1
        };
        let host = host.filter(|host| member.client.is_some() || is_alone(host));
        let place = match (&member.client, host, own_port) {
            (Some(client), Some(host), _) if is_any_address(&client.host) => Some((host, client.port)),
            (Some(client), _, _) => Some((client.host.clone(), client.port)),
            (None, Some(host), Some(port)) => Some((host, port)),
            (None, _, _) => None,
        };
        let task = match (is_self, place.clone()) {
            (true, _) | (false, None) => None,
            (false, Some((host, port))) => Some(tokio::spawn(ask(host, port))),
        };
        asking.push((id.0, is_self, place, task));
    }
    let mut rows: Vec<(i64, Option<String>, Asked)> = Vec::new();
    for (id, is_self, place, task) in asking {
        let address = place.map(|(host, port)| format!("{host}:{port}"));
        let asked = match task {
            Some(task) => task.await.unwrap_or_else(|error| Err(error.to_string())),
            None if is_self => Ok(own_digests(&call)),
            None => Err("the config does not name its client port".to_owned()),
        };
        rows.push((id, address, asked));
    }
    call.json(StatusCode::OK, &compared(&rows))
}

fn own_digests(call: &ApiCall) -> BTreeMap<i64, i64> {
    call.views.digests().into_iter().map(|(zxid, digest)| (zxid.0, digest)).collect()
}

fn is_any_address(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0")
}

/// The rows, and the newest transaction after which all servers that answered tell a digest.
fn compared(rows: &[(i64, Option<String>, Asked)]) -> Value {
    let answered: Vec<(i64, &BTreeMap<i64, i64>)> =
        rows.iter().filter_map(|(id, _, asked)| Some((*id, asked.as_ref().ok()?))).collect();
    let common = answered.first().and_then(|(_, first)| {
        let shared = |zxid: &&i64| answered.iter().all(|(_, digests)| digests.contains_key(zxid));
        first.keys().rev().find(shared).copied()
    });
    let common = common.map(|zxid| {
        let digests: Vec<(i64, i64)> =
            answered.iter().filter_map(|(id, digests)| Some((*id, *digests.get(&zxid)?))).collect();
        let is_equal = digests.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let shown: Vec<Value> =
            digests.iter().map(|(id, digest)| json!({ "id": id, "digest": hex(*digest) })).collect();
        json!({ "zxid": hex(zxid), "equal": is_equal, "servers": digests.len(), "digests": shown })
    });
    let servers: Vec<Value> = rows
        .iter()
        .map(|(id, address, asked)| {
            let newest = asked.as_ref().ok().and_then(|digests| digests.keys().next_back());
            json!({
                "id": id,
                "address": address,
                "newest": newest.map(|zxid| hex(*zxid)),
                "error": asked.as_ref().err(),
            })
        })
        .collect();
    json!({ "servers": servers, "common": common })
}

async fn ask(host: String, port: u16) -> Asked {
    match tokio::time::timeout(ASK_TIMEOUT, send_word(&host, port)).await {
        Ok(Ok(text)) => parse(&text),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it did not answer in time".to_owned()),
    }
}

async fn send_word(host: &str, port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(b"hash").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Lines of zxid in hexadecimal and digest in decimal digits.
fn parse(text: &str) -> Asked {
    if text.contains("not in the whitelist") {
        return Err("it does not answer hash: add hash to its 4lw.commands.whitelist".to_owned());
    }
    let line = |line: &str| {
        let (zxid, digest) = line.split_once(": ")?;
        let zxid = u64::from_str_radix(zxid.trim(), 16).ok()?;
        Some((zxid.cast_signed(), digest.trim().parse::<i64>().ok()?))
    };
    let digests: Option<BTreeMap<i64, i64>> =
        text.lines().filter(|text| !text.trim().is_empty()).map(line).collect();
    match digests {
        Some(digests) if digests.is_empty() => Err("it has no recorded digest yet".to_owned()),
        Some(digests) => Ok(digests),
        None => Err(text.chars().filter(|c| !c.is_control()).take(200).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_servers_are_read_strictly() {
        let expected: BTreeMap<i64, i64> = [(0x1_0000_0080, -5), (0x1_0000_0100, 7)].into();
        assert_eq!(parse("100000080: -5\n100000100: 7\n").unwrap(), expected);
        let listed = "hash is not executed because it is not in the whitelist.\n";
        assert!(parse(listed).unwrap_err().contains("4lw.commands.whitelist"));
        for bad in ["", "\n", "SSH-2.0", "1: x", "This ZooKeeper instance is not currently serving requests"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_newest_common_point_decides() {
        let row = |id, digests: &[(i64, i64)]| (id, None, Ok(digests.iter().copied().collect()));
        let mut rows = vec![row(1, &[(1, 5), (2, 6)]), row(2, &[(1, 5), (2, 7), (3, 8)])];
        rows.push((3, None, Err("down".to_owned())));
        let shown = compared(&rows);
        assert_eq!((&shown["common"]["zxid"], &shown["common"]["equal"]), (&json!("0x2"), &json!(false)));
        assert_eq!(shown["servers"][2]["error"], "down");
        rows[1] = row(2, &[(1, 5), (3, 8)]);
        let shown = compared(&rows);
        assert_eq!((&shown["common"]["zxid"], &shown["common"]["equal"]), (&json!("0x1"), &json!(true)));
        rows[1] = row(2, &[(9, 5)]);
        assert_eq!(compared(&rows)["common"], Value::Null);
    }
}
