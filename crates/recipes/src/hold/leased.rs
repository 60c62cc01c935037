//! Whether the session's lease is long enough to hold something by. Nobody renews it for those who only wait: it is
//! asked for when it is needed.

use zebu_client::{Client, Error, Retry};

use super::state::now;
use super::terms::Terms;
use crate::connection::persist;

/// Whether something can be held by these terms now.
pub(crate) fn is_leased(client: &Client, terms: Terms) -> bool {
    let margin = terms.margin_of(client.session().timeout);
    let deadline = client.lease_deadline().and_then(|deadline| deadline.checked_sub(margin));
    deadline.is_some_and(|deadline| now() < deadline)
}

/// Asks the leader for a sign of life, which extends the lease of a session that is alive. A server that is cut off
/// from it does not answer.
pub(crate) async fn renew(client: &Client) -> Result<(), Error> {
    persist(client, || client.sync("/").retry(Retry::Never)).await
}

/// Waits until something can be held.
pub(crate) async fn leased(client: &Client, terms: Terms) -> Result<(), Error> {
    while !is_leased(client, terms) {
        renew(client).await?;
    }
    Ok(())
}
