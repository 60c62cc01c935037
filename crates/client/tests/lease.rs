//! The lease never outlives what callers are told about the session.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use zebu_client::Client;
use zebu_testing::TestServer;

/// A state that was told, and the lease at that moment.
type Seen = (String, Option<Instant>);

/// Looks at the lease from inside of the driver, at the moment at which it tells a state.
#[derive(Clone, Default)]
struct Witness {
    client: Arc<OnceLock<Client>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "state" {
            write!(self.0, "{value:?}").expect("a String takes it");
        }
    }
}

impl<S: Subscriber> Layer<S> for Witness {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut state = Text(String::new());
        event.record(&mut state);
        if let (Some(client), false) = (self.client.get(), state.0.is_empty()) {
            self.seen.lock().expect("nobody panics with it").push((state.0, client.lease_deadline()));
        }
    }
}

#[tokio::test]
async fn after_an_expiry_event_there_is_no_lease() {
    let witness = Witness::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(witness.clone()));
    let server = TestServer::start().await.expect("a server");
    let client = Client::connect(&server.connect_string()).await.expect("a session");
    witness.client.set(client.clone()).expect("it is the first");
    assert!(client.lease_deadline() > Some(Instant::now()));
    let epoch = client.session().epoch;
    server.expire(client.session().id).await.expect("expired");
    let mut states = client.states();
    let renewed = states.wait_for(|status| status.session.epoch > epoch && status.state.is_connected());
    tokio::time::timeout(Duration::from_secs(30), renewed).await.expect("in time").expect("a new session");
    let seen = witness.seen.lock().expect("nobody panics with it");
    let expired: Vec<_> = seen.iter().filter(|(state, _)| state == "Expired").collect();
    assert_eq!(expired.len(), 1, "{seen:?}");
    assert_eq!(expired[0].1, None, "a session that is over has no lease");
}
