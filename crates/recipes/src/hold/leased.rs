//! Whether the session's lease is long enough to hold something by. Nobody renews it for those who only wait: it is
//! asked for when it is needed.

use zebu_client::{Client, Error, Retry};

use super::state::now;
use super::terms::Terms;
use crate::connection::persist;

/// How often the leader is asked in a session timeout.
const PAUSES: u32 = 32;

/// Whether something can be held by these terms now.
pub(crate) fn is_leased(client: &Client, terms: Terms) -> bool {
    let margin = terms.margin_of(client.session().timeout);
    let deadline = client.lease_deadline().and_then(|deadline| deadline.checked_sub(margin));
    deadline.is_some_and(|deadline| now() < deadline)
}

/// Waits until something can be held: asks the leader for a sign of life, which extends the lease of a session that
/// is alive. A server that is cut off from it does not answer. After a connection has stood still even an answer
/// proves too little, until the server has had the time to tell its leader; hence the pause.
pub(crate) async fn leased(client: &Client, terms: Terms) -> Result<(), Error> {
    while !is_leased(client, terms) {
        persist(client, || client.sync("/").retry(Retry::Never)).await?;
        if !is_leased(client, terms) {
            tokio::time::sleep(client.session().timeout / PAUSES).await;
        }
    }
    Ok(())
}
