//! Recognises whose variables are set, and names set variables that have no meaning in that image.

use zebu_server::config::{Environment, nearest_name};

use super::{FIRST_ID_VARIABLE, STYLE_VARIABLE, bitnami, confluent, official};

/// The image whose variables are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerStyle {
    /// `zookeeper`, the official image.
    Official,
    /// `bitnami/zookeeper`.
    Bitnami,
    /// `confluentinc/cp-zookeeper`.
    Confluent,
}

impl ContainerStyle {
    /// The name in messages and in `ZEBU_CONTAINER_STYLE`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ContainerStyle::Official => "official",
            ContainerStyle::Bitnami => "bitnami",
            ContainerStyle::Confluent => "confluent",
        }
    }

    fn understands(self, name: &str) -> bool {
        let plain = name.strip_suffix("_FILE").unwrap_or(name);
        match self {
            ContainerStyle::Official => official::NAMES.contains(&name),
            ContainerStyle::Bitnami => {
                bitnami::NAMES.contains(&name)
                    || bitnami::NAMES.contains(&plain)
                    || (name.starts_with(bitnami::KEY_PREFIX) && name != "ZOO_CFG_EXTRA")
            }
            ContainerStyle::Confluent => confluent::names().any(|known| known == name),
        }
    }

    fn names(self) -> Vec<&'static str> {
        match self {
            ContainerStyle::Official => official::NAMES.to_vec(),
            ContainerStyle::Bitnami => bitnami::NAMES.to_vec(),
            ContainerStyle::Confluent => confluent::names().collect(),
        }
    }
}

const ALL: [ContainerStyle; 3] =
    [ContainerStyle::Official, ContainerStyle::Bitnami, ContainerStyle::Confluent];

/// Names that say nothing about the image, because several have them, or because other programs set them.
fn is_shared(name: &str) -> bool {
    ALL.iter().filter(|style| style.understands(name)).count() > 1
}

/// The image that is meant: the named one, else the one that has a set variable for itself. Names of the
/// official image count first.
pub(super) fn choose(environment: &Environment) -> Result<ContainerStyle, String> {
    if let Some(name) = environment.get(STYLE_VARIABLE).filter(|name| !name.is_empty()) {
        return ALL.into_iter().find(|style| style.name() == name).ok_or_else(|| {
            format!("{STYLE_VARIABLE}=\"{name}\" is not known; it is one of official, bitnami, confluent")
        });
    }
    let has_own = |style: ContainerStyle| {
        environment
            .0
            .iter()
            .any(|(name, value)| !value.is_empty() && style.understands(name) && !is_shared(name))
    };
    let servers = environment.get("ZOO_SERVERS").unwrap_or_default();
    if has_own(ContainerStyle::Official) || servers.contains("server.") {
        return Ok(ContainerStyle::Official);
    }
    if has_own(ContainerStyle::Bitnami) || !servers.trim().is_empty() {
        return Ok(ContainerStyle::Bitnami);
    }
    // Kubernetes sets names such as ZOOKEEPER_PORT for a service called zookeeper.
    let port = ["ZOOKEEPER_CLIENT_PORT", "ZOOKEEPER_SECURE_CLIENT_PORT"];
    if port.iter().any(|name| environment.get(name).is_some_and(|value| !value.is_empty())) {
        return Ok(ContainerStyle::Confluent);
    }
    Ok(ContainerStyle::Official)
}

/// Warnings about variables that look like settings and are none in this image.
pub(super) fn misunderstood(environment: &Environment, style: ContainerStyle) -> Vec<String> {
    let prefix = match style {
        ContainerStyle::Official | ContainerStyle::Bitnami => "ZOO_",
        ContainerStyle::Confluent => "ZOOKEEPER_",
    };
    let mut warnings = Vec::new();
    for (name, value) in &environment.0 {
        let is_ours = [STYLE_VARIABLE, FIRST_ID_VARIABLE].contains(&name.as_str());
        let is_settings = name.starts_with(prefix) || ALL.iter().any(|other| other.understands(name));
        if value.is_empty() || is_ours || !is_settings || style.understands(name) {
            continue;
        }
        let other = ALL.into_iter().find(|other| *other != style && other.understands(name));
        warnings.push(match (other, nearest_name(name, style.names().into_iter())) {
            (Some(other), _) => format!(
                "{name} has no effect: it is a variable of the {} image, and the variables of the {} image are used \
                 ({STYLE_VARIABLE} chooses)",
                other.name(),
                style.name()
            ),
            (None, Some(near)) => format!("{name} is not known; did you mean {near}?"),
            (None, None) => format!("{name} is not known and has no effect"),
        });
    }
    warnings
}
