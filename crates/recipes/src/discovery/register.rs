//! Registering instances, and asking for them without a copy.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::instance::{Instance, ServiceType};
use super::provider::Provider;
use super::selection::Selection;
use crate::connection::{persist, present};
use crate::error::RecipeError;
use crate::membership::{IfTaken, KeptAs, KeptNode};

/// The services below one node; Curator's `ServiceDiscovery`.
///
/// ```text
/// /services                                      container
///   shop                                         container: a service
///     53345f98-9423-4e0c-a7b5-9f819e3ec2e1       ephemeral: an instance, in JSON
///     b7a80a0e-3a52-4d2c-8a3f-0a4f6f1c9d77       ephemeral: another one
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Discovery, Instance, Selection};
///
/// let services = Discovery::<String>::new(&client, "/services");
/// let registration = services.register(Instance::new("shop").at("10.0.0.1", 8080)).await?;
///
/// let shops = services.provider("shop", Selection::RoundRobin).await?;
/// let shop = shops.pick().expect("there is one");
/// assert_eq!((shop.address.as_deref(), shop.port), (Some("10.0.0.1"), Some(8080)));
/// registration.unregister().await?;
/// # Ok(()) });
/// ```
///
/// **Connection lost.** Instances stay registered, providers go on with what they know. **Session lost.** What
/// was registered is registered again with the next one. **Crash.** A dynamic instance goes when its session has
/// timed out. **Dropped.** A registration of a dynamic instance is removed in the background; a static one stays
/// until [`unregister`](Registration::unregister). **The same id again**, such as after a restart within the
/// session timeout: the newer one takes the place of the older one.
#[derive(Debug)]
pub struct Discovery<P> {
    client: Client,
    base: String,
    payload: PhantomData<fn() -> P>,
}

impl<P: Serialize + DeserializeOwned + Send + Sync + 'static> Discovery<P> {
    /// The services below this node, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, base: &str) -> Discovery<P> {
        Discovery { client: client.clone(), base: base.to_owned(), payload: PhantomData }
    }

    /// Registers an instance; returns when the ensemble knows.
    pub async fn register(&self, instance: Instance<P>) -> Result<Registration<P>, RecipeError> {
        let kind = match instance.service_type {
            ServiceType::Dynamic => KeptAs::Ephemeral,
            ServiceType::Static | ServiceType::Permanent => KeptAs::Persistent,
            ServiceType::DynamicSequential => {
                let what = "an instance with a number in its name cannot be registered; give it an id".into();
                return Err(RecipeError::Invalid(what));
            }
        };
        let path = path::join(&self.service(&instance.name), &instance.id);
        let node = KeptNode::start_with(&self.client, &path, instance.to_json()?, kind, IfTaken::Replace);
        node.there().await?;
        Ok(Registration { node, instance })
    }

    /// The names of all services, also of those without an instance.
    pub async fn names(&self) -> Result<Vec<String>, RecipeError> {
        self.children(&self.base).await
    }

    /// All instances of a service, by id. What cannot be read as one, or may not be read, is left out.
    pub async fn instances(&self, name: &str) -> Result<Vec<Instance<P>>, RecipeError> {
        let mut ids = self.children(&self.service(name)).await?;
        ids.sort();
        let mut instances = Vec::new();
        for id in ids {
            match self.instance(name, &id).await {
                Ok(instance) => instances.extend(instance),
                Err(error @ RecipeError::BadData { .. }) => tracing::warn!(%error, "is left out"),
                Err(RecipeError::Client(error)) if error.code() == Some(ErrorCode::NoAuth) => {
                    tracing::warn!(%error, "is left out");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(instances)
    }

    /// One instance; `None` if it is not there.
    pub async fn instance(&self, name: &str, id: &str) -> Result<Option<Instance<P>>, RecipeError> {
        let path = path::join(&self.service(name), id);
        let client = &self.client;
        let read = persist(client, || client.get(&path).compression(Compression::None).retry(Retry::Never));
        let Some(node) = present(read.await)? else { return Ok(None) };
        let instance = Instance::from_json(&node.data);
        Ok(Some(instance.map_err(|_| RecipeError::BadData { path, expected: "an instance in JSON" })?))
    }

    /// A copy of the instances of a service that chooses among them. Returns when it is complete.
    pub async fn provider(&self, name: &str, selection: Selection) -> Result<Provider<P>, RecipeError> {
        Provider::start(&self.client, &self.service(name), selection).await
    }

    fn service(&self, name: &str) -> String {
        path::join(&self.base, name)
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, RecipeError> {
        let listed = persist(&self.client, || self.client.children(path).retry(Retry::Never)).await;
        Ok(present(listed)?.map_or_else(Vec::new, |list| list.names))
    }
}

/// An instance that is registered.
#[derive(Debug)]
#[must_use = "dropping it takes the instance away"]
pub struct Registration<P> {
    node: KeptNode,
    instance: Instance<P>,
}

impl<P: Serialize> Registration<P> {
    /// What is registered.
    pub fn instance(&self) -> &Instance<P> {
        &self.instance
    }

    /// Why it is not registered any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure()
    }

    /// Describes the instance anew: its payload, or that it does not want to be chosen. Name, id and type stay.
    pub async fn update(&mut self, change: impl FnOnce(&mut Instance<P>)) -> Result<(), RecipeError> {
        let fixed = (self.instance.name.clone(), self.instance.id.clone(), self.instance.service_type);
        change(&mut self.instance);
        (self.instance.name, self.instance.id, self.instance.service_type) = fixed;
        self.node.set(self.instance.to_json()?).await
    }

    /// Takes the instance away, and waits until the ensemble knows.
    pub async fn unregister(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}
