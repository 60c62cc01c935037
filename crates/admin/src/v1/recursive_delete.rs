//! `DELETE /v1/tree/…?recursive`: deletes a subtree, leaves first, in multis of bounded size.
//!
//! One request deletes at most `max` nodes and is not atomic. The answer says how many nodes are gone, and
//! whether there are more.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use zebu_proto::client::{DeleteRequest, MultiOp};
use zebu_server::views::{SubtreeProgress, SubtreeScan};

use super::call::ApiCall;
use super::problem::Problem;
use super::requests::ANY_VERSION;

/// Nodes that one request deletes at most; also the default.
const DELETES_MAX: usize = 10_000;
/// Deletes of one multi.
const DELETES_PER_MULTI: usize = 500;
/// Bytes of the paths of one multi.
const PATH_BYTES_PER_MULTI: usize = 256 << 10;

pub(crate) async fn delete_subtree(call: &ApiCall, path: &str) -> Result<Response, Problem> {
    call.arguments.allow_only(&["recursive", "max"])?;
    if call.headers.contains_key(axum::http::header::IF_MATCH) {
        return Err(Problem::bad_request("a recursive delete takes no If-Match"));
    }
    if path == "/" {
        return Err(Problem::bad_request("the root cannot be deleted; name the nodes below it"));
    }
    let max = call.arguments.number("max", DELETES_MAX)?.unwrap_or(DELETES_MAX);
    let mut scan = SubtreeScan::new(path, &call.ids.credentials, max);
    let (paths, has_more) = loop {
        match call.views.scan_subtree(&mut scan).map_err(|code| call.problem(code, path))? {
            SubtreeProgress::Done { paths, has_more } => break (paths, has_more),
            SubtreeProgress::More => tokio::task::yield_now().await,
        }
    };
    let mut deleted = 0;
    let mut rest = &paths[..];
    while !rest.is_empty() {
        let (part, later) = rest.split_at(part_length(rest));
        rest = later;
        delete_part(call, part, &mut deleted)
            .await
            .map_err(|problem| problem.with("deleted", json!(deleted)))?;
    }
    call.json(StatusCode::OK, &json!({ "path": path, "deleted": deleted, "more": has_more }))
}

/// How many of the paths fit into one multi; at least one.
fn part_length(paths: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len();
        bytes <= PATH_BYTES_PER_MULTI
    };
    paths.iter().take(DELETES_PER_MULTI).take_while(fits).count().max(1)
}

/// Deletes all of them at once, or one by one if that fails: other clients may have deleted some.
async fn delete_part(call: &ApiCall, paths: &[String], deleted: &mut usize) -> Result<(), Problem> {
    let delete = |path: &String| {
        MultiOp::Delete(DeleteRequest { path: Some(path.as_str().into()), version: ANY_VERSION })
    };
    let ops: Vec<MultiOp> = paths.iter().map(delete).collect();
    let reply = call.multi(&ops).await?;
    if super::multi_route::failure_of(&reply).is_none() {
        *deleted += paths.len();
        return Ok(());
    }
    for path in paths {
        match call.delete(path, ANY_VERSION).await {
            Ok(()) => *deleted += 1,
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_bounded_length() {
        let short = vec!["/a".to_owned(); DELETES_PER_MULTI + 1];
        assert_eq!(part_length(&short), DELETES_PER_MULTI);
        let long = vec!["x".repeat(PATH_BYTES_PER_MULTI / 2); 3];
        assert_eq!((part_length(&long), part_length(&long[..1])), (2, 1));
        assert_eq!(part_length(&["x".repeat(PATH_BYTES_PER_MULTI * 2)]), 1);
    }
}
