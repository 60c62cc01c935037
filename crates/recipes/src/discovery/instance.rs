//! A service instance and the JSON in its node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::uri::UriSpec;
use crate::error::RecipeError;
use crate::unique_id::UniqueId;

/// The key under which Jackson writes the class of an object.
const CLASS: &str = "@class";

/// The lifetime of the node of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServiceType {
    /// The node is ephemeral.
    #[default]
    Dynamic,
    /// The node is persistent.
    Static,
    /// The node is persistent.
    Permanent,
    /// The node is ephemeral and sequential. It can be read, but not registered.
    DynamicSequential,
}

/// A service instance. `P` is the type of its payload, which serde encodes.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceInstance<P> {
    /// The name of the service.
    pub name: String,
    /// The id of the instance; a UUID by default.
    pub id: String,
    /// Host or address.
    pub address: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The port for TLS.
    pub ssl_port: Option<u16>,
    /// Further data for clients.
    pub payload: Option<P>,
    /// The time of registration.
    pub registered: SystemTime,
    /// The lifetime of its node.
    pub service_type: ServiceType,
    /// The template of its URI.
    pub uri_spec: Option<UriSpec>,
    /// Whether providers may select it.
    pub enabled: bool,
    /// The Java class of the payload, for readers in Java, if the payload is an object.
    pub payload_class: Option<String>,
}

impl<P> ServiceInstance<P> {
    /// An instance of a service with a new id.
    pub fn new(name: impl Into<String>) -> ServiceInstance<P> {
        ServiceInstance {
            name: name.into(),
            id: UniqueId::random().dashed(),
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            registered: SystemTime::now(),
            service_type: ServiceType::default(),
            uri_spec: None,
            enabled: true,
            payload_class: None,
        }
    }

    /// Sets the id.
    pub fn id(mut self, id: impl Into<String>) -> ServiceInstance<P> {
        self.id = id.into();
        self
    }

    /// Sets address and port.
    pub fn at(mut self, address: impl Into<String>, port: u16) -> ServiceInstance<P> {
        (self.address, self.port) = (Some(address.into()), Some(port));
        self
    }

    /// Sets the payload.
    pub fn payload(mut self, payload: P) -> ServiceInstance<P> {
        self.payload = Some(payload);
        self
    }

    /// The URI by its [`UriSpec`]; `None` without one, or if a variable is unknown.
    pub fn uri(&self) -> Option<String> {
        self.uri_spec.as_ref()?.build(&self.variables())
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let scheme = if self.port.is_none() && self.ssl_port.is_some() { "https" } else { "http" };
        let service_type = match self.service_type {
            ServiceType::Dynamic => "dynamic",
            ServiceType::Static => "static",
            ServiceType::Permanent => "permanent",
            ServiceType::DynamicSequential => "dynamic_sequential",
        };
        let mut variables = vec![
            ("scheme", scheme.to_owned()),
            ("name", self.name.clone()),
            ("id", self.id.clone()),
            ("registration-time-utc", millis(self.registered).to_string()),
            ("service-type", service_type.to_owned()),
        ];
        variables.extend(self.address.clone().map(|address| ("address", address)));
        variables.extend(self.port.map(|port| ("port", port.to_string())));
        variables.extend(self.ssl_port.map(|port| ("ssl-port", port.to_string())));
        variables
    }
}

/// The JSON of a node, in Curator's order. `enabled` is written only if it is false, because old readers do
/// not know it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceRecord {
    name: String,
    id: String,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    ssl_port: Option<u16>,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default, rename = "registrationTimeUTC")]
    registration_time_utc: i64,
    #[serde(default)]
    service_type: ServiceType,
    #[serde(default)]
    uri_spec: Option<UriSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

impl<P: Serialize> ServiceInstance<P> {
    /// Encodes the node's data.
    pub(super) fn to_json(&self) -> Result<Bytes, RecipeError> {
        let refused = |error: serde_json::Error| {
            RecipeError::Invalid(format!("{} cannot be encoded as JSON: {error}", self.name))
        };
        let mut payload = self.payload.as_ref().map(serde_json::to_value).transpose().map_err(refused)?;
        if let (Some(Value::Object(object)), Some(class)) = (&mut payload, &self.payload_class) {
            object.insert(CLASS.to_owned(), Value::String(class.clone()));
        }
        let record = InstanceRecord {
            name: self.name.clone(),
            id: self.id.clone(),
            address: self.address.clone(),
            port: self.port,
            ssl_port: self.ssl_port,
            payload,
            registration_time_utc: millis(self.registered),
            service_type: self.service_type,
            uri_spec: self.uri_spec.clone(),
            enabled: (!self.enabled).then_some(false),
        };
        Ok(serde_json::to_vec(&record).map_err(refused)?.into())
    }
}

impl<P: DeserializeOwned> ServiceInstance<P> {
    /// Decodes a node's data.
    pub(super) fn from_json(data: &[u8]) -> Result<ServiceInstance<P>, serde_json::Error> {
        let mut record: InstanceRecord = serde_json::from_slice(data)?;
        let mut payload_class = None;
        if let Some(Value::Object(object)) = &mut record.payload
            && let Some(Value::String(class)) = object.remove(CLASS)
        {
            payload_class = Some(class);
        }
        let registered = u64::try_from(record.registration_time_utc).unwrap_or(0);
        Ok(ServiceInstance {
            name: record.name,
            id: record.id,
            address: record.address,
            port: record.port,
            ssl_port: record.ssl_port,
            payload: record.payload.map(serde_json::from_value).transpose()?,
            registered: UNIX_EPOCH + Duration::from_millis(registered),
            service_type: record.service_type,
            uri_spec: record.uri_spec,
            enabled: record.enabled.unwrap_or(true),
            payload_class,
        })
    }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    i64::try_from(since).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Zone {
        zone: String,
    }

    #[test]
    fn the_json_is_curators() {
        let mut instance = ServiceInstance::new("shop").id("7").at("10.0.0.1", 80).payload("p".to_owned());
        instance.registered = UNIX_EPOCH + Duration::from_millis(1_500_000_000_123);
        let json = instance.to_json().expect("JSON");
        assert_eq!(
            std::str::from_utf8(&json).expect("text"),
            r#"{"name":"shop","id":"7","address":"10.0.0.1","port":80,"sslPort":null,"payload":"p","registrationTimeUTC":1500000000123,"serviceType":"DYNAMIC","uriSpec":null}"#
        );
        assert_eq!(ServiceInstance::from_json(&json).expect("an instance"), instance);
        instance.enabled = false;
        assert!(instance.to_json().expect("JSON").ends_with(br#","enabled":false}"#));
    }

    #[test]
    fn classes_of_payloads_are_kept_aside() {
        let mut instance = ServiceInstance::new("shop").payload(Zone { zone: "a".into() });
        instance.payload_class = Some("com.example.Zone".into());
        let json = instance.to_json().expect("JSON");
        assert!(std::str::from_utf8(&json).expect("text").contains(r#""@class":"com.example.Zone""#));
        let read = ServiceInstance::<Zone>::from_json(&json).expect("an instance");
        assert_eq!((read.payload, read.payload_class), (instance.payload, instance.payload_class));
    }

    #[test]
    fn what_others_leave_out_or_add_does_no_harm() {
        let read =
            ServiceInstance::<String>::from_json(br#"{"name":"a","id":"b","new":{"x":1}}"#).expect("read");
        assert!(read.enabled && read.payload.is_none() && read.service_type == ServiceType::Dynamic);
        for bad in [&b"{"[..], b"", b"[]", br#"{"name":"a"}"#, br#"{"name":"a","id":"b","port":-1}"#] {
            assert!(ServiceInstance::<String>::from_json(bad).is_err());
        }
        for name in ["STATIC", "PERMANENT", "DYNAMIC_SEQUENTIAL"] {
            let json = format!(r#"{{"name":"a","id":"b","serviceType":"{name}"}}"#);
            ServiceInstance::<String>::from_json(json.as_bytes()).expect(name);
        }
    }
}
