//! The template of an instance's URI, as Curator encodes it.

use serde::{Deserialize, Serialize};

/// A part of a [`UriSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriPart {
    /// The text, or the name of the variable.
    pub value: String,
    /// Whether it is a variable.
    pub variable: bool,
}

/// A template such as `{scheme}://{address}:{port}/api`. Variables are `scheme`, `name`, `id`, `address`,
/// `port`, `ssl-port`, `registration-time-utc` and `service-type`.
///
/// ```
/// use zebu_recipes::{ServiceInstance, UriSpec};
///
/// let mut instance = ServiceInstance::<()>::new("shop").at("10.0.0.1", 8080);
/// instance.uri_spec = Some(UriSpec::parse("{scheme}://{address}:{port}/api"));
/// assert_eq!(instance.uri().as_deref(), Some("http://10.0.0.1:8080/api"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriSpec {
    /// The parts, in order.
    pub parts: Vec<UriPart>,
}

impl UriSpec {
    /// Parses a template. An unclosed brace is literal text.
    pub fn parse(template: &str) -> UriSpec {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, behind)) = rest.split_once('{')
            && let Some((name, after)) = behind.split_once('}')
        {
            push(&mut parts, text, false);
            push(&mut parts, name, true);
            rest = after;
        }
        push(&mut parts, rest, false);
        UriSpec { parts }
    }

    pub(super) fn build(&self, variables: &[(&str, String)]) -> Option<String> {
        let mut uri = String::new();
        for part in &self.parts {
            match part.variable {
                false => uri.push_str(&part.value),
                true => uri.push_str(&variables.iter().find(|(name, _)| *name == part.value)?.1),
            }
        }
        Some(uri)
    }
}

fn push(parts: &mut Vec<UriPart>, value: &str, variable: bool) {
    if !value.is_empty() {
        parts.push(UriPart { value: value.to_owned(), variable });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_and_filled() {
        let spec = UriSpec::parse("{scheme}://{address}/x{");
        assert_eq!(spec.parts.len(), 4);
        let known = [("scheme", "http".to_owned()), ("address", "a".to_owned())];
        assert_eq!(spec.build(&known).as_deref(), Some("http://a/x{"));
        assert_eq!(UriSpec::parse("{nothing}").build(&known), None);
        let json = serde_json::to_string(&UriSpec::parse("a{id}")).expect("JSON");
        assert_eq!(json, r#"{"parts":[{"value":"a","variable":false},{"value":"id","variable":true}]}"#);
    }
}
