//! Service discovery: instances register themselves, clients choose among them. Curator's layout and JSON.

mod instance;
mod provider;
mod register;
mod selection;
mod uri;

pub use instance::{Instance, ServiceType};
pub use provider::Provider;
pub use register::{Discovery, Registration};
pub use selection::Selection;
pub use uri::{UriPart, UriSpec};
