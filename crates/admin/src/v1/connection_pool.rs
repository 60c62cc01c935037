//! One connection per identity, opened on demand and bounded in number.
//!
//! The connection of an identity stays open between requests, so that a write costs no session of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use zebu_proto::{Id, OpCode};
use zebu_server::views::{LocalCaller, LocalConnectionRefusal, ServerViews};

use super::problem::Problem;
use super::request_connection::{CallError, OpenError, Reply, RequestConnection, SessionChoice};

/// Identities with a connection.
const CONNECTIONS_MAX: usize = 64;

/// The identities of a connection, and whether its callers use TLS.
type PoolKey = (Vec<Id>, bool);

/// The connection of one identity.
#[derive(Debug)]
struct PoolSlot {
    connection: AsyncMutex<Option<RequestConnection>>,
    last_use: Mutex<Instant>,
}

/// The connections of all identities.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPool {
    slots: Mutex<BTreeMap<PoolKey, Arc<PoolSlot>>>,
}

impl ConnectionPool {
    /// Sends a request with the caller's identity and waits for its reply.
    pub(crate) async fn call(
        &self,
        views: &ServerViews,
        caller: &LocalCaller,
        op: OpCode,
        body: Vec<u8>,
    ) -> Result<Reply, Problem> {
        let slot = self.slot(caller)?;
        // A connection may end between two requests; the request was not sent then.
        for _ in 0..2 {
            let connection = connection_of(&slot, views, caller).await?;
            match connection.call(op, body.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::NotSent) => {}
                Err(error @ CallError::Lost) => {
                    return Err(Problem::unknown_outcome("CONNECTIONLOSS", error.to_string()));
                }
                Err(error @ CallError::Timeout) => {
                    return Err(Problem::unknown_outcome("OPERATIONTIMEOUT", error.to_string()));
                }
            }
        }
        Err(Problem::not_serving())
    }

    /// The place of an identity. The least recently used idle one makes room for another.
    fn slot(&self, caller: &LocalCaller) -> Result<Arc<PoolSlot>, Problem> {
        let key: PoolKey = (caller.credentials.iter().cloned().collect(), caller.is_secure);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&key) && slots.len() >= CONNECTIONS_MAX {
            // No request uses a slot that only the map holds.
            let idle = slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = idle.min_by_key(|(_, slot)| slot.last_use()).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else {
                let detail = "too many identities send requests at once; try again later";
                return Err(Problem::unavailable("THROTTLEDOP", detail));
            };
            slots.remove(&oldest);
        }
        let slot = slots.entry(key).or_insert_with(|| {
            Arc::new(PoolSlot { connection: AsyncMutex::new(None), last_use: Mutex::new(Instant::now()) })
        });
        *slot.last_use.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(slot.clone())
    }
}

impl PoolSlot {
    fn last_use(&self) -> Instant {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open connection of a slot, or a new one.
async fn connection_of(
    slot: &PoolSlot,
    views: &ServerViews,
    caller: &LocalCaller,
) -> Result<RequestConnection, Problem> {
    let mut held = slot.connection.lock().await;
    if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
        return Ok(connection.clone());
    }
    let opened = RequestConnection::open(views, caller.clone(), SessionChoice::New, None).await;
    let connection = opened.map_err(|error| open_problem(&error))?;
    *held = Some(connection.clone());
    Ok(connection)
}

/// The answer when no connection could be opened. Nothing was executed.
pub(crate) fn open_problem(error: &OpenError) -> Problem {
    match error {
        OpenError::Refused(LocalConnectionRefusal::TooMany) => {
            Problem::unavailable("THROTTLEDOP", error.to_string())
        }
        OpenError::Refused(LocalConnectionRefusal::Stopping)
        | OpenError::NotServing
        | OpenError::NoSession => Problem::not_serving(),
    }
}
