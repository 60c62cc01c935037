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
