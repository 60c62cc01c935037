//! A copy of the instances of one service, and the choice among them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::Client;

use super::instance::Instance;
use super::selection::{Chooser, DownPolicy, Selection};
use crate::cache::{Cache, CachedNode, Change, Reach};
use crate::error::RecipeError;

/// Chooses among the instances of a service; Curator's `ServiceProvider` and `ServiceCache`.
///
/// It reads nothing when it is asked: it follows the service in the background. What cannot be read as an
/// instance is left out and logged. When the connection is lost it goes on with what it knows; a service whose
/// instances are all gone by then is found out by [`report_failure`](Provider::report_failure).
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Discovery, Instance, Selection};
///
/// let services = Discovery::<()>::new(&client, "/services");
/// let one = services.register(Instance::new("shop").at("10.0.0.1", 80)).await?;
/// let two = services.register(Instance::new("shop").at("10.0.0.2", 80)).await?;
/// let shops = services.provider("shop", Selection::RoundRobin).await?;
/// let (first, second) = (shops.pick().expect("one"), shops.pick().expect("another"));
/// assert_ne!(first.address, second.address);
/// shops.report_failure(&first);
/// shops.report_failure(&first); // the second time: it is left alone for a while
/// assert_eq!(shops.pick().expect("one").address, second.address);
/// # drop((one, two));
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Provider<P> {
    instances: watch::Receiver<Instances<P>>,
    cache: Arc<Cache>,
    selection: Selection,
    policy: DownPolicy,
    chooser: Mutex<Chooser>,
    task: JoinHandle<()>,
}

/// All instances of one moment, by id of their node.
type Instances<P> = Arc<Vec<Arc<Instance<P>>>>;

impl<P: DeserializeOwned + Send + Sync + 'static> Provider<P> {
    pub(super) async fn start(
        client: &Client,
        service: &str,
        selection: Selection,
    ) -> Result<Provider<P>, RecipeError> {
        let cache = Arc::new(Cache::plain(client, service, Reach::Children));
        cache.synced().await?;
        let (nodes, mut changes) = cache.watch_from_here();
        let mut known = BTreeMap::new();
        nodes.iter().filter(|node| node.path != service).for_each(|node| learn(&mut known, node));
        let (sender, instances) = watch::channel(all(&known));
        let (service, followed) = (service.to_owned(), cache.clone());
        let task = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                match &change {
                    Change::Created(node) | Change::Updated { new: node, .. } if node.path != service => {
                        learn(&mut known, node);
                    }
                    Change::Deleted(node) => drop(known.remove(&node.path)),
                    Change::Missed(_) => {
                        known.clear();
                        let nodes = followed.children(&service);
                        nodes.iter().for_each(|node| learn(&mut known, node));
                    }
                    Change::Created(_) | Change::Updated { .. } | Change::Stale | Change::Synced => continue,
                }
                sender.send_replace(all(&known));
            }
        });
        let (policy, chooser) = (DownPolicy::default(), Mutex::default());
        Ok(Provider { instances, cache, selection, policy, chooser, task })
    }
}

impl<P> Provider<P> {
    /// Leaves an instance alone for this long after so many reported failures; after two for half a minute
    /// unless told otherwise.
    pub fn leave_alone(mut self, failures: u32, pause: Duration) -> Provider<P> {
        self.policy = DownPolicy { failures: failures.max(1), pause };
        self
    }

    /// An instance that is enabled and not left alone; `None` if there is none.
    pub fn pick(&self) -> Option<Arc<Instance<P>>> {
        let instances = self.instances.borrow().clone();
        let enabled: Vec<_> = instances.iter().filter(|instance| instance.enabled).collect();
        let ids: Vec<&str> = enabled.iter().map(|instance| &*instance.id).collect();
        let mut chooser = self.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        let at = chooser.choose(&ids, self.selection, Instant::now(), self.policy, random())?;
        Some(enabled[at].clone())
    }

    /// Says that an instance did not answer as it should.
    pub fn report_failure(&self, instance: &Instance<P>) {
        let mut chooser = self.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        chooser.note_failure(&instance.id, Instant::now(), self.policy);
    }

    /// All instances that are known, also those that are not enabled or left alone.
    pub fn instances(&self) -> Vec<Arc<Instance<P>>> {
        self.instances.borrow().to_vec()
    }

    /// The instances and every change of them; the newest is never lost.
    pub fn changes(&self) -> watch::Receiver<Arc<Vec<Arc<Instance<P>>>>> {
        self.instances.clone()
    }

    /// Whether what is known is up to date.
    pub fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// Why it is not kept up to date any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.cache.failure()
    }
}

impl<P> Drop for Provider<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn learn<P: DeserializeOwned>(known: &mut BTreeMap<String, Arc<Instance<P>>>, node: &CachedNode) {
    match Instance::from_json(&node.data) {
        Ok(instance) => {
            known.insert(node.path.clone(), Arc::new(instance));
        }
        Err(error) => {
            tracing::warn!(path = %node.path, %error, "is no instance that can be read; it is left out");
            known.remove(&node.path);
        }
    }
}

fn all<P>(known: &BTreeMap<String, Arc<Instance<P>>>) -> Instances<P> {
    Arc::new(known.values().cloned().collect())
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness it is the first one; nothing depends on it.
    let _ = getrandom::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
