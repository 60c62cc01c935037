//! The `sasl` scheme: names that a SASL exchange has proved. The exchange ends elsewhere and adds its id to
//! the credentials.

/// Settings of the `sasl` scheme.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SaslScheme {
    /// The id of ACL entries that every SASL user matches (`letAnySaslUserDoX`).
    pub any_user_id: Option<Box<str>>,
}

/// A SASL user with this name matches every ACL entry of the scheme, as in ZooKeeper.
const SUPER_NAME: &str = "super";

impl SaslScheme {
    /// Whether a proved name matches the id of an ACL entry.
    pub(super) fn matches(&self, credential: &str, acl_id: &str) -> bool {
        credential == acl_id || credential == SUPER_NAME || self.any_user_id.as_deref() == Some(acl_id)
    }
}

/// Whether `id` has the form `service[/host][@realm]`. Parts may be empty, and a text without `@` is one
/// part, as in ZooKeeper.
pub(super) fn is_valid(id: &str) -> bool {
    id.split_once('@').is_none_or(|(name, realm)| {
        !realm.contains(['/', '@']) && name.bytes().filter(|byte| *byte == b'/').count() <= 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids() {
        for id in ["", "bob", "a/b/c", "mü€", "client@R", "svc/h1@R", "@R", "a@", "svc/@R", "/h@R"] {
            assert!(is_valid(id), "{id:?}");
        }
        for id in ["a/b/c@R", "a@b@c", "a@b/c", "@@", "a//b@R"] {
            assert!(!is_valid(id), "{id:?}");
        }
    }

    #[test]
    fn matching() {
        let scheme = SaslScheme { any_user_id: Some("anyone".into()) };
        for (credential, acl_id, expected) in [
            ("bob", "bob", true),
            ("bob", "Bob", false),
            ("bob", "bob@R", false),
            ("super", "bob", true),
            ("bob", "super", false),
            ("bob", "anyone", true),
            ("anyone", "bob", false),
        ] {
            assert_eq!(scheme.matches(credential, acl_id), expected, "{credential} {acl_id}");
        }
        assert!(!SaslScheme::default().matches("bob", "anyone"));
    }
}
