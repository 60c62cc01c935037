//! Every call has a span with its name and path, and its attempts are events in it.

mod common;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use common::soon;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use zebu_client::{Client, QuotaLimits, Retry, Version, WatchMode};
use zebu_testing::TestServer;

/// Spans as `name field=value`, and under each what was said in it.
#[derive(Clone, Default)]
struct AnsweredMessage(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a String takes it");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for AnsweredMessage {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        context.span(id).expect("it is new").extensions_mut().insert(text.0.clone());
        self.0.lock().expect("nobody panics with it").entry(text.0).or_default();
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let Some(span) = context.event_span(event) else { return };
        let extensions = span.extensions();
        let name = extensions.get::<String>().expect("every span has its text").clone();
        self.0.lock().expect("nobody panics with it").entry(name).or_default().push(text.0);
    }
}

impl AnsweredMessage {
    #[track_caller]
    fn expect(&self, span: &str) -> Vec<String> {
        let all = self.0.lock().expect("nobody panics with it");
        all.get(span).unwrap_or_else(|| panic!("no span {span:?} in {:?}", all.keys())).clone()
    }
}

#[tokio::test]
async fn every_call_has_a_span() {
    let heard = AnsweredMessage::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(heard.clone()));
    let server = TestServer::start().await.expect("a server");
    let client = Client::connect(&server.connect_string()).await.expect("a session");

    client.create("/n").await.expect("created");
    client.set("/n", "x").await.expect("set");
    client.exists("/n").await.expect("an answer");
    client.children("/n").await.expect("listed");
    client.sync("/n").await.expect("synced");
    client.get_acl("/n").await.expect("read");
    client.set_acl("/n", zebu_client::Acl::open()).await.expect("set");
    client.ensure_path("/a/b").await.expect("made");
    client.ephemerals("/").await.expect("listed");
    client.count_descendants("/").await.expect("counted");
    client.who_am_i().await.expect("listed");
    client.config().await.expect("read");
    client.set_quota("/n", QuotaLimits { count: Some(9), ..QuotaLimits::default() }).await.expect("set");
    drop(client.watch("/n", WatchMode::Node).await.expect("watched"));
    let mut transaction = client.transaction();
    transaction.check("/n", Version::Any);
    transaction.await.expect("carried out");
    let mut reads = client.multi_read();
    reads.get("/n");
    reads.await.expect("read");
    client.delete("/a/b").await.expect("deleted");

    // A retry is logged with its reason and the server.
    server.drop_next_reply(client.session().id);
    soon(client.get("/n").retry(Retry::default())).await.expect("read again");
    let told = heard.expect("get path=/n");
    assert!(
        told.iter().any(|line| line.contains("retrying") && line.contains("the connection was lost")),
        "{told:?}"
    );
    assert!(told.iter().any(|line| line.contains(&server.connect_string())), "{told:?}");
    client.close().await.expect("closed");

    for span in [
        "create path=/n",
        "set path=/n",
        "exists path=/n",
        "children path=/n",
        "sync path=/n",
        "get_acl path=/n",
        "set_acl path=/n",
        "ensure_path path=/a/b",
        "ephemerals prefix=/",
        "count_descendants path=/",
        "who_am_i",
        "config",
        "set_quota path=/n",
        "delete path=/a/b",
        "close",
    ] {
        heard.expect(span);
    }
    let all = heard.0.lock().expect("nobody panics with it");
    for name in ["watch", "transaction", "multi_read"] {
        assert!(all.keys().any(|span| span.starts_with(name)), "no span {name} in {:?}", all.keys());
    }
}
