//! `dump`, `watch_summary`, `watches` and `watches_by_path`.

use zebu_node::ServingMode;
use zebu_proto::SessionId;
use zebu_server::views::{ServerViews, SessionPaths, ViewTooLong};

use super::{ANSWER_BYTES_MAX, AnswerError, Entries, entry};
use crate::json::Json;

pub(super) async fn dump(views: &ServerViews) -> Result<Entries, AnswerError> {
    let core = views.core().await.ok_or(AnswerError::NotServing)?;
    let is_learner = matches!(views.serving_mode(), Some(ServingMode::Follower | ServingMode::Observer));
    let buckets = core.expiry_buckets.into_iter().filter(|_| !is_learner);
    let expiry = buckets.map(|(at_ms, sessions)| (at_ms.to_string(), ids(sessions)));
    let ephemerals = views.ephemerals(ANSWER_BYTES_MAX / 2).map_err(|error| too_long(error, "dump"))?;
    Ok(vec![
        entry("expiry_time_to_session_ids", Json::object(expiry)),
        entry("session_id_to_ephemeral_paths", paths_by_session(ephemerals)),
    ])
}

pub(super) fn watch_summary(views: &ServerViews) -> Entries {
    let summary = views.watch_summary();
    vec![
        entry("num_connections", Json::count(summary.connections)),
        entry("num_paths", Json::count(summary.paths)),
        entry("num_total_watches", Json::count(summary.watches)),
    ]
}

pub(super) fn watches(views: &ServerViews) -> Result<Entries, AnswerError> {
    let watches = views.watches(ANSWER_BYTES_MAX / 2).map_err(|error| too_long(error, "wchc"))?;
    Ok(vec![entry("session_id_to_watched_paths", paths_by_session(watches))])
}

pub(super) fn watches_by_path(views: &ServerViews) -> Result<Entries, AnswerError> {
    let watches = views.watches_by_path(ANSWER_BYTES_MAX / 2).map_err(|error| too_long(error, "wchp"))?;
    let paths = watches.into_iter().map(|(path, sessions)| (path, ids(sessions)));
    Ok(vec![entry("path_to_session_ids", Json::object(paths))])
}

fn too_long(error: ViewTooLong, word: &str) -> AnswerError {
    AnswerError::Unavailable(format!("{error}; the four-letter word {word} sends it in pieces"))
}

fn ids(sessions: Vec<SessionId>) -> Json {
    Json::Array(sessions.into_iter().map(|session| Json::Integer(session.0)).collect())
}

fn paths_by_session(sessions: SessionPaths) -> Json {
    Json::object(sessions.into_iter().map(|(session, paths)| {
        let paths = paths.into_iter().map(Json::Text).collect();
        (session.0.to_string(), Json::Array(paths))
    }))
}
