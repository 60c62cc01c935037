//! Sessions in files: restarts, crashes, expired sessions, and files that must not be used.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zebu_client::{Client, SessionId};
use zebu_recipes::{SavedSession, SessionFile, SessionFileError, SessionFileState, SessionOrigin};
use zebu_testing::TestServer;

async fn connect(path: &Path, servers: &str) -> Result<SavedSession, SessionFileError> {
    SessionFile::new(path).connect(Client::builder(servers).unwrap()).await
}

fn saved_id(path: &Path) -> SessionId {
    let text = fs::read_to_string(path).unwrap();
    let id = text.lines().next().unwrap().strip_prefix("session=0x").unwrap();
    SessionId(u64::from_str_radix(id, 16).unwrap().cast_signed())
}

#[test]
fn a_session_survives_a_crash_and_a_planned_restart() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (servers_runtime, process) = (runtime(), runtime());
    let server = servers_runtime.block_on(TestServer::start()).unwrap();
    let servers = server.connect_string();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("worker.session");
    let (first, id) = process.block_on(async {
        let first = connect(&path, &servers).await.unwrap();
        assert_eq!(first.origin(), SessionOrigin::New);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        first.client().create("/mine").ephemeral().await.unwrap();
        // A second client of the file would take the connection away.
        let refused = connect(&path, &servers).await;
        assert!(matches!(refused, Err(SessionFileError::InUse { .. })), "{refused:?}");
        let id = first.client().session().id;
        (first, id)
    });
    // A process that crashes runs no task any more and closes no session.
    process.shutdown_background();
    drop(first);
    servers_runtime.block_on(async {
        let second = connect(&path, &servers).await.unwrap();
        assert_eq!((second.origin(), second.client().session().id), (SessionOrigin::Resumed, id));
        second.leave().await.unwrap();
        let third = connect(&path, &servers).await.unwrap();
        assert_eq!((third.origin(), third.client().session().id), (SessionOrigin::Resumed, id));
        assert!(third.client().exists("/mine").await.unwrap().is_some());
        third.close().await.unwrap();
        assert!(!path.exists());
        let other = Client::connect(&servers).await.unwrap();
        assert!(other.exists("/mine").await.unwrap().is_none());
    });
}

#[tokio::test]
async fn a_new_session_replaces_an_expired_one() {
    let server = TestServer::start().await.unwrap();
    let servers = server.connect_string();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("worker.session");
    let worker = connect(&path, &servers).await.unwrap();
    let first = worker.client().session().id;
    let mut states = worker.states();
    server.expire(first).await.unwrap();
    // The client opens another session by itself, and the file follows.
    states.wait_for(|state| *state != SessionFileState::Saved(first)).await.unwrap();
    let second = worker.client().ready().await.unwrap().id;
    states.wait_for(|state| *state == SessionFileState::Saved(second)).await.unwrap();
    assert_eq!(saved_id(&path), second);
    worker.leave().await.unwrap();
    server.expire(second).await.unwrap();
    let worker = connect(&path, &servers).await.unwrap();
    let third = worker.client().session().id;
    assert_eq!((worker.origin(), saved_id(&path)), (SessionOrigin::New, third));
    assert!(third != second && third != first);
    // A file that cannot be replaced is reported.
    fs::create_dir(directory.path().join("worker.session.new")).unwrap();
    let mut states = worker.states();
    server.expire(third).await.unwrap();
    let failed = states.wait_for(|state| matches!(state, SessionFileState::Failed(_))).await.unwrap();
    assert!(format!("{failed:?}").contains("worker.session"), "{failed:?}");
}

#[tokio::test]
async fn files_of_others_are_not_used() {
    let server = TestServer::start().await.unwrap();
    let servers = server.connect_string();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("worker.session");
    connect(&path, &servers).await.unwrap().leave().await.unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = connect(&path, &servers).await;
    assert!(matches!(refused, Err(SessionFileError::Exposed { .. })), "{refused:?}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for damaged in [&b"session=0x7\n"[..], b"\xff\xfe", b""] {
        fs::write(&path, damaged).unwrap();
        let refused = connect(&path, &servers).await;
        assert!(matches!(refused, Err(SessionFileError::Damaged { .. })), "{refused:?}");
    }
    let nowhere = connect(&directory.path().join("none/worker.session"), &servers).await;
    assert!(matches!(nowhere, Err(SessionFileError::Io { .. })), "{nowhere:?}");
}
