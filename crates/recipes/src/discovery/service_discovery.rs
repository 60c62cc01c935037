//! Registration of instances, and reads of instances without a copy.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::instance::{ServiceInstance, ServiceType};
use super::provider::ServiceProvider;
use super::strategy::ProviderStrategy;
use crate::error::RecipeError;
use crate::membership::{IfOwnedByOther, PersistentNode, PersistentNodeMode};
use crate::retry::{none_if_missing, retry_until_answered};

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
/// use zebu_recipes::{ServiceDiscovery, ServiceInstance, ProviderStrategy};
///
/// let services = ServiceDiscovery::<String>::new(&client, "/services");
/// let registration = services.register(ServiceInstance::new("shop").at("10.0.0.1", 8080)).await?;
///
/// let shops = services.provider("shop", ProviderStrategy::RoundRobin).await?;
/// let shop = shops.pick().expect("there is one");
/// assert_eq!((shop.address.as_deref(), shop.port), (Some("10.0.0.1"), Some(8080)));
/// registration.unregister().await?;
/// # Ok(()) });
/// ```
///
/// - **Connection lost.** Instances stay registered, and providers use their last copy.
/// - **Session lost.** Instances are registered again with the next session.
/// - **Crash.** A dynamic instance is deleted when its session expires.
/// - **Dropped.** The background deletes a dynamic instance; a static one stays until
///   [`unregister`](ServiceRegistration::unregister).
/// - **Same id again**, such as after a restart within the session timeout: the newer instance replaces the
///   older one.
#[derive(Debug)]
pub struct ServiceDiscovery<P> {
    client: Client,
    base: String,
    payload: PhantomData<fn() -> P>,
}

impl<P: Serialize + DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<P> {
    /// The services below this node, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, base: &str) -> ServiceDiscovery<P> {
        ServiceDiscovery { client: client.clone(), base: base.to_owned(), payload: PhantomData }
    }

    /// Registers an instance and waits for the reply of the ensemble.
    pub async fn register(
        &self,
        instance: ServiceInstance<P>,
    ) -> Result<ServiceRegistration<P>, RecipeError> {
        let kind = match instance.service_type {
            ServiceType::Dynamic => PersistentNodeMode::Ephemeral,
            ServiceType::Static | ServiceType::Permanent => PersistentNodeMode::Persistent,
            ServiceType::DynamicSequential => {
                let what = "a sequential instance cannot be registered; use another service type".into();
                return Err(RecipeError::Invalid(what));
            }
        };
        let path = path::join(&self.service(&instance.name), &instance.id);
        let node = PersistentNode::start_with(
            &self.client,
            &path,
            instance.to_json()?,
            kind,
            IfOwnedByOther::Replace,
        );
        node.wait_present().await?;
        Ok(ServiceRegistration { node, instance })
    }

    /// The names of all services, including those without an instance.
    pub async fn names(&self) -> Result<Vec<String>, RecipeError> {
        self.children(&self.base).await
    }

    /// All instances of a service, sorted by id. Unreadable and invalid ones are left out.
    pub async fn instances(&self, name: &str) -> Result<Vec<ServiceInstance<P>>, RecipeError> {
        let mut ids = self.children(&self.service(name)).await?;
        ids.sort();
        let mut instances = Vec::new();
        for id in ids {
            match self.instance(name, &id).await {
                Ok(instance) => instances.extend(instance),
                Err(error @ RecipeError::BadData { .. }) => {
                    tracing::warn!(%error, "ignored an invalid service instance")
                }
                Err(RecipeError::Client(error)) if error.code() == Some(ErrorCode::NoAuth) => {
                    tracing::warn!(%error, "ignored an unreadable service instance");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(instances)
    }

    /// One instance; `None` if it is missing.
    pub async fn instance(&self, name: &str, id: &str) -> Result<Option<ServiceInstance<P>>, RecipeError> {
        let path = path::join(&self.service(name), id);
        let client = &self.client;
        let read = retry_until_answered(client, || {
            client.get(&path).compression(Compression::None).retry(Retry::Never)
        });
        let Some(node) = none_if_missing(read.await)? else { return Ok(None) };
        let instance = ServiceInstance::from_json(&node.data);
        Ok(Some(instance.map_err(|_| RecipeError::BadData { path, expected: "an instance in JSON" })?))
    }

    /// A provider for a service. Returns when its copy is complete.
    pub async fn provider(
        &self,
        name: &str,
        selection: ProviderStrategy,
    ) -> Result<ServiceProvider<P>, RecipeError> {
        ServiceProvider::start(&self.client, &self.service(name), selection).await
    }

    fn service(&self, name: &str) -> String {
        path::join(&self.base, name)
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, RecipeError> {
        let listed =
            retry_until_answered(&self.client, || self.client.children(path).retry(Retry::Never)).await;
        Ok(none_if_missing(listed)?.map_or_else(Vec::new, |list| list.names))
    }
}

/// A registered instance.
#[derive(Debug)]
#[must_use = "dropping it removes the instance"]
pub struct ServiceRegistration<P> {
    node: PersistentNode,
    instance: ServiceInstance<P>,
}

impl<P: Serialize> ServiceRegistration<P> {
    /// The instance.
    pub fn instance(&self) -> &ServiceInstance<P> {
        &self.instance
    }

    /// The reason why it is no longer registered.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure()
    }

    /// Updates the instance, such as its payload or whether it is enabled. Name, id and type stay.
    pub async fn update(&mut self, change: impl FnOnce(&mut ServiceInstance<P>)) -> Result<(), RecipeError> {
        let fixed = (self.instance.name.clone(), self.instance.id.clone(), self.instance.service_type);
        change(&mut self.instance);
        (self.instance.name, self.instance.id, self.instance.service_type) = fixed;
        self.node.set(self.instance.to_json()?).await
    }

    /// Deletes the instance and waits for the reply of the ensemble.
    pub async fn unregister(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}
