//! A local copy of the instances of one service, and the selection among them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::Client;

use super::instance::ServiceInstance;
use super::strategy::{DownInstancePolicy, InstanceSelector, ProviderStrategy};
use crate::cache::{Cache, CacheChange, CacheScope, CachedNode};
use crate::error::RecipeError;

/// Selects among the instances of a service; Curator's `ServiceProvider` and `ServiceCache`.
///
/// It selects without a request, because a cache watches the service. It leaves out and logs data that is no
/// instance. Without a connection it uses its last copy; report dead instances by
/// [`report_failure`](ServiceProvider::report_failure).
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{ServiceDiscovery, ServiceInstance, ProviderStrategy};
///
/// let services = ServiceDiscovery::<()>::new(&client, "/services");
/// let one = services.register(ServiceInstance::new("shop").at("10.0.0.1", 80)).await?;
/// let two = services.register(ServiceInstance::new("shop").at("10.0.0.2", 80)).await?;
/// let shops = services.provider("shop", ProviderStrategy::RoundRobin).await?;
/// let (first, second) = (shops.pick().expect("one"), shops.pick().expect("another"));
/// assert_ne!(first.address, second.address);
/// shops.report_failure(&first);
/// shops.report_failure(&first); // the second time: it counts as down
/// assert_eq!(shops.pick().expect("one").address, second.address);
/// # drop((one, two));
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct ServiceProvider<P> {
    instances: watch::Receiver<InstanceList<P>>,
    cache: Arc<Cache>,
    selection: ProviderStrategy,
    chooser: Mutex<InstanceSelector>,
    task: JoinHandle<()>,
}

/// All instances at one moment, sorted by the id of their node.
type InstanceList<P> = Arc<Vec<Arc<ServiceInstance<P>>>>;

impl<P: DeserializeOwned + Send + Sync + 'static> ServiceProvider<P> {
    pub(super) async fn start(
        client: &Client,
        service: &str,
        selection: ProviderStrategy,
    ) -> Result<ServiceProvider<P>, RecipeError> {
        let cache = Arc::new(Cache::start_uncompressed(client, service, CacheScope::Children));
        cache.synced().await?;
        let (nodes, mut changes) = cache.snapshot_and_changes();
        let mut known = BTreeMap::new();
        nodes.iter().filter(|node| node.path != service).for_each(|node| insert_instance(&mut known, node));
        let (sender, instances) = watch::channel(instance_list(&known));
        let (service, followed) = (service.to_owned(), cache.clone());
        let task = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                match &change {
                    CacheChange::Created(node) | CacheChange::Updated { new: node, .. }
                        if node.path != service =>
                    {
                        insert_instance(&mut known, node);
                    }
                    CacheChange::Deleted(node) => drop(known.remove(&node.path)),
                    CacheChange::Missed(_) => {
                        known.clear();
                        let nodes = followed.children(&service);
                        nodes.iter().for_each(|node| insert_instance(&mut known, node));
                    }
                    CacheChange::Created(_)
                    | CacheChange::Updated { .. }
                    | CacheChange::Stale
                    | CacheChange::Synced => continue,
                }
                sender.send_replace(instance_list(&known));
            }
        });
        Ok(ServiceProvider { instances, cache, selection, chooser: Mutex::default(), task })
    }
}

impl<P> ServiceProvider<P> {
    /// Skips an instance for this time after this number of reported failures; by default half a minute after
    /// two.
    pub fn down_instance_policy(mut self, failures: u32, pause: Duration) -> ServiceProvider<P> {
        let chooser = self.chooser.get_mut().unwrap_or_else(PoisonError::into_inner);
        chooser.policy = DownInstancePolicy { failures: failures.max(1), pause };
        self
    }

    /// Selects an instance that is enabled and not down; `None` if there is none.
    pub fn pick(&self) -> Option<Arc<ServiceInstance<P>>> {
        let instances = self.instances.borrow().clone();
        let enabled: Vec<_> = instances.iter().filter(|instance| instance.enabled).collect();
        let ids: Vec<&str> = enabled.iter().map(|instance| &*instance.id).collect();
        let mut chooser = self.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        let at = chooser.choose(&ids, self.selection, Instant::now(), random())?;
        Some(enabled[at].clone())
    }

    /// Reports a failure of an instance.
    pub fn report_failure(&self, instance: &ServiceInstance<P>) {
        let mut chooser = self.chooser.lock().unwrap_or_else(PoisonError::into_inner);
        chooser.note_failure(&instance.id, Instant::now());
    }

    /// All known instances, including disabled and down ones.
    pub fn instances(&self) -> Vec<Arc<ServiceInstance<P>>> {
        self.instances.borrow().to_vec()
    }

    /// The instances and their changes; the newest is never lost.
    pub fn changes(&self) -> watch::Receiver<Arc<Vec<Arc<ServiceInstance<P>>>>> {
        self.instances.clone()
    }

    /// Whether the copy is up to date.
    pub fn is_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// The reason why the copy is no longer kept up to date.
    pub fn failure(&self) -> Option<RecipeError> {
        self.cache.failure()
    }
}

impl<P> Drop for ServiceProvider<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn insert_instance<P: DeserializeOwned>(
    known: &mut BTreeMap<String, Arc<ServiceInstance<P>>>,
    node: &CachedNode,
) {
    match ServiceInstance::from_json(&node.data) {
        Ok(instance) => {
            known.insert(node.path.clone(), Arc::new(instance));
        }
        Err(error) => {
            tracing::warn!(path = %node.path, %error, "ignored an invalid service instance");
            known.remove(&node.path);
        }
    }
}

fn instance_list<P>(known: &BTreeMap<String, Arc<ServiceInstance<P>>>) -> InstanceList<P> {
    Arc::new(known.values().cloned().collect())
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the first instance is selected, which is harmless.
    let _ = getrandom::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
