//! Service discovery: instances register, providers select among them. Curator's layout and JSON.

mod instance;
mod provider;
mod service_discovery;
mod strategy;
mod uri;

pub use instance::{ServiceInstance, ServiceType};
pub use provider::ServiceProvider;
pub use service_discovery::{ServiceDiscovery, ServiceRegistration};
pub use strategy::ProviderStrategy;
pub use uri::{UriPart, UriSpec};
