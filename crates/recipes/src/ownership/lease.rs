//! Checks of the session's lease before ownership starts. Waiters do not renew the lease; it is requested
//! when it is needed.

use zebu_client::{Client, Error, Retry};

use super::policy::LeasePolicy;
use super::state::now;
use crate::retry::retry_until_answered;

/// The number of requests to the leader per session timeout.
const PAUSES: u32 = 32;

/// Whether the lease is long enough for ownership.
pub(crate) fn has_lease(client: &Client, lease_policy: LeasePolicy) -> bool {
    let margin = lease_policy.margin_of(client.session().timeout);
    let deadline = client.lease_deadline().and_then(|deadline| deadline.checked_sub(margin));
    deadline.is_some_and(|deadline| now() < deadline)
}

/// Waits until the lease is long enough for ownership. It sends syncs, which extend the lease of a live
/// session; a server without a leader does not answer them. After a stalled connection a reply proves too
/// little until the server has reported to its leader; hence the pause.
pub(crate) async fn wait_for_lease(client: &Client, lease_policy: LeasePolicy) -> Result<(), Error> {
    while !has_lease(client, lease_policy) {
        retry_until_answered(client, || client.sync("/").retry(Retry::Never)).await?;
        if !has_lease(client, lease_policy) {
            tokio::time::sleep(client.session().timeout / PAUSES).await;
        }
    }
    Ok(())
}
