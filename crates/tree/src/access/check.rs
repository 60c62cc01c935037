//! The permissions that an ACL grants to a connection, and the part of an ACL that the connection may see.

use zebu_proto::{Acl, Id};

use crate::access::Provider;
use crate::access::credentials::Credentials;
use crate::access::policy::{AclChecks, Policy};

/// Whether one of the permissions in `permission` is granted. An empty ACL grants everything.
pub fn allowed(acl: &[Acl], permission: i32, credentials: &Credentials, policy: &Policy) -> bool {
    if policy.acl_checks == AclChecks::Skipped || acl.is_empty() || credentials.is_super() {
        return true;
    }
    acl.iter()
        .filter(|entry| entry.perms & permission != 0)
        .any(|entry| matches(&entry.id, credentials, policy))
}

fn matches(id: &Id, credentials: &Credentials, policy: &Policy) -> bool {
    let (Some(scheme), Some(wanted)) = (id.scheme.as_deref(), id.id.as_deref()) else {
        return false;
    };
    if scheme == "world" && wanted == "anyone" {
        return true;
    }
    let Some(provider) = Provider::of(scheme, policy) else {
        return false;
    };
    credentials
        .iter()
        .filter(|held| held.scheme.as_deref() == Some(scheme))
        .any(|held| held.id.as_deref().is_some_and(|held| provider.matches(held, wanted)))
}

/// The ACL without the hashes of `digest` ids: for clients that may read a node but not administer it.
pub fn masked(acl: &[Acl]) -> Vec<Acl> {
    acl.iter().map(masked_entry).collect()
}

fn masked_entry(entry: &Acl) -> Acl {
    match (entry.id.scheme.as_deref(), entry.id.id.as_deref()) {
        (Some("digest"), Some(id)) => {
            let user = id.split(':').next().unwrap_or_default();
            Acl::new(entry.perms, "digest", format!("{user}:x"))
        }
        _ => entry.clone(),
    }
}

/// The name that whoAmI returns for a credential: the user without secrets, empty for a scheme without a
/// provider.
pub fn user_name<'a>(id: &'a Id, policy: &Policy) -> &'a str {
    let text = id.id.as_deref().unwrap_or_default();
    match id.scheme.as_deref().and_then(|scheme| Provider::of(scheme, policy)) {
        Some(Provider::Digest) => text.split(':').next().unwrap_or_default(),
        Some(Provider::Ip | Provider::X509 | Provider::Sasl(_) | Provider::Ensemble) => text,
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::SaslScheme;
    use crate::access::policy::DigestScheme;
    use zebu_proto::Permissions;

    fn bob() -> Credentials {
        let mut credentials = Credentials::of_peer("10.1.2.3".parse().unwrap());
        credentials.add(Id::new("digest", "bob:hash"));
        credentials
    }

    #[test]
    fn granting() {
        let policy = Policy::default();
        let granted = |acl: &[Acl], permission| allowed(acl, permission, &bob(), &policy);
        assert!(granted(&[], Permissions::ADMIN));
        assert!(granted(&Acl::read_only(), Permissions::READ));
        assert!(!granted(&Acl::read_only(), Permissions::WRITE));
        assert!(granted(&Acl::read_only(), Permissions::READ | Permissions::ADMIN), "one bit is enough");
        assert!(granted(&[Acl::new(31, "digest", "bob:hash")], Permissions::WRITE));
        assert!(!granted(&[Acl::new(31, "digest", "bob:other")], Permissions::WRITE));
        assert!(granted(
            &[Acl::new(1, "world", "anyone"), Acl::new(2, "ip", "10.0.0.0/8")],
            Permissions::WRITE
        ));
        assert!(!granted(&[Acl::new(31, "ip", "11.0.0.0/8")], Permissions::READ));
        assert!(!granted(&[Acl::new(31, "world", "bob:hash")], Permissions::READ));
        assert!(!granted(&[Acl::new(31, "sasl", "bob")], Permissions::READ), "no such provider");
        assert!(!granted(&[Acl::new(0, "world", "anyone")], Permissions::READ));
        let null = Acl { perms: 31, id: Id { scheme: Some("digest".into()), id: None } };
        assert!(!granted(&[null], Permissions::READ));
    }

    #[test]
    fn x509_names_match_as_they_are_written() {
        let mut policy = Policy::default();
        let client: Credentials = [Id::new("x509", "CN=a,O=b")].into_iter().collect();
        let acl = [Acl::new(31, "x509", "CN=a,O=b")];
        let store = |id: &str, policy: &Policy| {
            crate::access::fixup_acl(Some(vec![Acl::new(31, "x509", id)].into()), &client, policy).is_ok()
        };
        assert!(!allowed(&acl, Permissions::READ, &client, &policy), "not registered");
        assert!(!store("CN=a,O=b", &policy));
        policy.auth.x509 = crate::access::X509Scheme::Enabled;
        assert!(allowed(&acl, Permissions::READ, &client, &policy));
        for other in ["CN=a, O=b", "cn=a,O=b", "O=b,CN=a", ""] {
            assert!(!allowed(&[Acl::new(31, "x509", other)], Permissions::READ, &client, &policy));
            assert!(store(other, &policy), "{other}");
        }
        for invalid in ["a", "FOO=x", "CN=a,"] {
            assert!(!store(invalid, &policy), "{invalid}");
        }
        let auth = crate::access::fixup_acl(Some(vec![Acl::new(31, "auth", "")].into()), &client, &policy);
        assert_eq!(&auth.unwrap()[..], &acl, "a certificate is proven");
        assert_eq!(user_name(&Id::new("x509", "CN=a,O=b"), &policy), "CN=a,O=b");
    }

    #[test]
    fn who_is_above_acls() {
        let closed = [Acl::new(0, "world", "anyone")];
        let mut policy = Policy::default();
        let root: Credentials = [Id::new("super", "")].into_iter().collect();
        assert!(allowed(&closed, Permissions::ADMIN, &root, &policy));
        assert!(!allowed(&closed, Permissions::ADMIN, &bob(), &policy));
        policy.acl_checks = AclChecks::Skipped;
        assert!(allowed(&closed, Permissions::ADMIN, &bob(), &policy));
        let policy = Policy {
            auth: crate::access::AuthSettings { digest: DigestScheme::Disabled, ..Default::default() },
            ..Policy::default()
        };
        assert!(!allowed(&[Acl::new(31, "digest", "bob:hash")], Permissions::READ, &bob(), &policy));
    }

    #[test]
    fn sasl_entries_need_the_registered_scheme() {
        let mut bob = Credentials::of_peer("10.1.2.3".parse().unwrap());
        bob.add(Id::new("sasl", "bob"));
        let acl = [Acl::new(31, "sasl", "bob")];
        let mut policy = Policy::default();
        assert!(!allowed(&acl, Permissions::WRITE, &bob, &policy));
        assert_eq!(user_name(&Id::new("sasl", "bob"), &policy), "");
        policy.auth.sasl = Some(SaslScheme { any_user_id: Some("users".into()) });
        assert!(allowed(&acl, Permissions::WRITE, &bob, &policy));
        assert!(allowed(&[Acl::new(31, "sasl", "users")], Permissions::READ, &bob, &policy));
        assert!(!allowed(&[Acl::new(31, "sasl", "eve")], Permissions::READ, &bob, &policy));
        assert!(!allowed(&[Acl::new(31, "digest", "bob")], Permissions::READ, &bob, &policy));
        assert_eq!(user_name(&Id::new("sasl", "svc/h@R"), &policy), "svc/h@R");
    }

    #[test]
    fn masking_and_names() {
        let acl =
            [Acl::new(1, "digest", "bob:hash:x"), Acl::new(2, "ip", "::1"), Acl::new(3, "digest", "plain")];
        let expected =
            [Acl::new(1, "digest", "bob:x"), Acl::new(2, "ip", "::1"), Acl::new(3, "digest", "plain:x")];
        assert_eq!(masked(&acl), expected);
        let policy = Policy::default();
        assert_eq!(user_name(&Id::new("digest", "bob:hash"), &policy), "bob");
        assert_eq!(user_name(&Id::new("ip", "10.0.0.1"), &policy), "10.0.0.1");
        assert_eq!(user_name(&Id::new("super", ""), &policy), "");
        assert_eq!(user_name(&Id::new("x509", "CN=a"), &policy), "");
    }
}
