//! Reads the users of DIGEST-MD5 again when the JAAS file changes. A file that is not usable keeps the old
//! users and is reported once.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use zebu_security::jaas::JAAS_BYTES_MAX;
use zebu_security::sasl::digest_md5::DigestUsers;

use crate::config::security::client_sasl::{ClientLogin, DigestUsersConfig};
use crate::core::context::ServerContext;
use crate::tls::store_file::{FileStamp, read_regular_file};

/// The interval at which the file is looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Follows the file until the server stops.
pub(crate) async fn follow_login_file(shared: Arc<ServerContext>) {
    let Some(ClientLogin::Digest(login)) = &shared.config.security.client_sasl.login else { return };
    let login = Arc::new(login.clone());
    let mut users = login.users.clone();
    // A change between the start and the first look is found by the comparison of the users.
    let mut seen = None;
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let read = {
            let login = login.clone();
            tokio::task::spawn_blocking(move || read_changed(&login, seen)).await
        };
        let Ok(Some((stamp, result))) = read else { continue };
        seen = Some(stamp);
        match result {
            Ok(read) if read == users => {}
            Ok(read) => {
                info!(file = %login.source.path.display(), users = read.names().count(), "SASL users reloaded");
                users = read.clone();
                shared.sasl.replace_users(read);
            }
            Err(reason) => {
                shared.protection.login_reloads_failed.increment();
                warn!(file = %login.source.path.display(), reason, "SASL users not reloaded; the old ones stay");
            }
        }
    }
}

type ReadUsers = (Option<FileStamp>, Result<DigestUsers, String>);

/// Reads the file if it differs from the one that was seen last. A pipe or a device is not opened.
fn read_changed(login: &DigestUsersConfig, seen: Option<Option<FileStamp>>) -> Option<ReadUsers> {
    let path = &login.source.path;
    // Taken before the read, so that a change during the read is seen by the next look.
    let stamp = FileStamp::of(path);
    if seen == Some(stamp) {
        return None;
    }
    let content = read_regular_file(path, JAAS_BYTES_MAX).map_err(|error| error.to_string());
    Some((stamp, content.and_then(|content| login.read_users(&content))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;
    use std::sync::mpsc::channel;

    use tempfile::TempDir;

    use super::*;
    use crate::config::{ConfigInputs, Environment, LocalSystem, load};

    const CONTENT: &str =
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"secret\"; };";

    /// A bound far above the time of a read.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The login that a server reads at its start.
    fn login(folder: &TempDir) -> DigestUsersConfig {
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("jaas.conf"), CONTENT).unwrap();
        let lines = [
            format!("dataDir={}", path("data")),
            "clientPort=2181".to_owned(),
            "fips-mode=false".to_owned(),
            format!("java.security.auth.login.config={}", path("jaas.conf")),
        ];
        std::fs::write(path("zoo.cfg"), lines.join("\n")).unwrap();
        let inputs = ConfigInputs {
            arguments: vec![path("zoo.cfg")],
            properties: Vec::new(),
            environment: Environment(BTreeMap::new()),
        };
        let loaded = load(&inputs, &LocalSystem);
        let config = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        match config.security.client_sasl.login {
            Some(ClientLogin::Digest(login)) => login,
            login => panic!("{login:?}"),
        }
    }

    /// Reads on another thread, because a read of a pipe would wait for ever.
    fn read_in_time(login: &DigestUsersConfig, seen: Option<Option<FileStamp>>) -> Option<ReadUsers> {
        let (sender, receiver) = channel();
        let login = login.clone();
        std::thread::spawn(move || sender.send(read_changed(&login, seen)));
        receiver.recv_timeout(PATIENCE).expect("the read ends")
    }

    fn replace_by_pipe(path: &Path) {
        std::fs::remove_file(path).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn a_file_that_is_gone_at_the_first_look_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let login = login(&folder);
        std::fs::remove_file(&login.source.path).unwrap();
        let (stamp, result) = read_changed(&login, None).expect("the first look reads");
        assert!(stamp.is_none() && result.is_err());
        assert!(read_changed(&login, Some(stamp)).is_none(), "nothing has changed");
        std::fs::write(&login.source.path, CONTENT).unwrap();
        let (_, result) = read_changed(&login, Some(stamp)).expect("the file is there again");
        assert_eq!(result.unwrap(), login.users);
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_reported_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let login = login(&folder);
        let (seen, result) = read_changed(&login, None).unwrap();
        assert_eq!(result.unwrap(), login.users);
        replace_by_pipe(&login.source.path);
        for seen in [None, Some(seen)] {
            let (_, result) = read_in_time(&login, seen).expect("the pipe is another file");
            assert_eq!(result.unwrap_err(), "it is no regular file");
        }
    }
}
