//! Checks ACLs and converts them to their stored form.

use std::collections::BTreeSet;

use zebu_proto::{Acl, AclList, ErrorCode, Id};

use crate::access::Provider;
use crate::access::credentials::Credentials;
use crate::access::policy::Policy;

/// Why an ACL is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// Empty, or an entry that no provider accepts: INVALIDACL.
    #[error("the list is empty or names a scheme or id that is not valid here; the client must correct it")]
    Invalid,
    /// A null id where the scheme needs one: MARSHALLINGERROR, which fails a whole multi.
    #[error("an entry has a scheme but a null id; the client is broken")]
    NullId,
    /// With the ids of the caller instead of `auth` it is longer than a transaction may be.
    #[error("the list has more than {bytes} bytes with the caller's ids; the client must name fewer ids")]
    TooLong {
        /// The length at which the expansion stopped.
        bytes: usize,
    },
}

/// Why a request fails: alone, or with the complete multi.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrepareRefusal {
    /// An error of its own; in a multi it fails the operation.
    Failed(ErrorCode),
    /// A request that no client sends. The complete request is MARSHALLINGERROR.
    Broken,
    /// The transaction would be longer than servers can read. The complete request is MARSHALLINGERROR.
    TooLong {
        /// Its length, as far as it was counted.
        bytes: usize,
    },
}

impl From<ErrorCode> for PrepareRefusal {
    fn from(code: ErrorCode) -> PrepareRefusal {
        PrepareRefusal::Failed(code)
    }
}

impl From<AclError> for PrepareRefusal {
    fn from(error: AclError) -> PrepareRefusal {
        match error {
            AclError::Invalid => PrepareRefusal::Failed(ErrorCode::InvalidAcl),
            AclError::NullId => PrepareRefusal::Broken,
            AclError::TooLong { bytes } => PrepareRefusal::TooLong { bytes },
        }
    }
}

/// The ACL as it is stored: without duplicates, `auth` replaced by the caller's ids. Most ACLs have this form
/// already, and are not copied.
pub fn fixup_acl(
    acl: Option<AclList>,
    credentials: &Credentials,
    policy: &Policy,
) -> Result<AclList, AclError> {
    let acl = without_duplicates(acl.unwrap_or_default())?;
    if acl.is_empty() {
        return Err(AclError::Invalid);
    }
    let mut has_auth = false;
    for entry in acl.iter() {
        match (entry.id.scheme.as_deref().ok_or(AclError::Invalid)?, entry.id.id.as_deref()) {
            ("auth", _) => {
                authenticated(credentials, policy).next().ok_or(AclError::Invalid)?;
                has_auth = true;
            }
            ("world", Some("anyone")) => {}
            ("world", None) => return Err(AclError::NullId),
            (scheme, id) => {
                let provider = Provider::of(scheme, policy).ok_or(AclError::Invalid)?;
                if !provider.is_valid(id.ok_or(AclError::NullId)?) {
                    return Err(AclError::Invalid);
                }
            }
        }
    }
    Ok(if has_auth { expand_auth(&acl, credentials, policy)?.into() } else { acl })
}

/// Every entry once, in order. ZooKeeper compares an entry with the earlier ones field by field and fails on
/// the first null that it reads. A null is therefore an error of its own only if no earlier entry shares the
/// fields before it.
fn without_duplicates(mut acl: AclList) -> Result<AclList, AclError> {
    if acl.len() < 2 {
        return Ok(acl);
    }
    let mut first = Vec::with_capacity(acl.len());
    let mut entries = BTreeSet::new();
    let mut permissions = BTreeSet::new();
    let mut schemes = BTreeSet::new();
    for entry in acl.iter() {
        let (scheme, id) = (entry.id.scheme.as_deref(), entry.id.id.as_deref());
        let breaks = match (scheme, id) {
            (None, _) => permissions.contains(&entry.perms),
            (Some(_), None) => schemes.contains(&(entry.perms, scheme)),
            (Some(_), Some(_)) => false,
        };
        if breaks {
            return Err(AclError::NullId);
        }
        first.push(entries.insert(entry));
        permissions.insert(entry.perms);
        schemes.insert((entry.perms, scheme));
    }
    let mut first = first.into_iter();
    acl.to_mut().retain(|_| first.next().unwrap_or(true));
    Ok(acl)
}

/// The ACL with the ids of the caller instead of `auth`. The expansion stops when no transaction has room for
/// it.
fn expand_auth(acl: &[Acl], credentials: &Credentials, policy: &Policy) -> Result<Vec<Acl>, AclError> {
    let mut expanded = Vec::new();
    let mut bytes = 0;
    let mut push = |entry: Acl| {
        bytes += entry.encoded_length();
        expanded.push(entry);
        if bytes > policy.transaction_bytes_max { Err(AclError::TooLong { bytes }) } else { Ok(()) }
    };
    for entry in acl {
        if entry.id.scheme.as_deref() == Some("auth") {
            for id in authenticated(credentials, policy) {
                push(Acl { perms: entry.perms, id: id.clone() })?;
            }
        } else {
            push(entry.clone())?;
        }
    }
    Ok(expanded)
}

/// The authenticated ids of the caller.
fn authenticated<'a>(credentials: &'a Credentials, policy: &'a Policy) -> impl Iterator<Item = &'a Id> {
    credentials.iter().filter(|id| {
        let provider = id.scheme.as_deref().and_then(|scheme| Provider::of(scheme, policy));
        provider.is_some_and(Provider::is_authenticated)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{EnsembleScheme, SaslScheme};

    fn fix(acl: &[Acl], ids: &[Id]) -> Result<Vec<Acl>, AclError> {
        let ids = ids.iter().cloned().collect();
        fixup_acl(Some(acl.to_vec().into()), &ids, &Policy::default()).map(AclList::into_owned)
    }

    #[test]
    fn duplicates_go_and_order_stays() {
        let (open, ip) = (Acl::new(31, "world", "anyone"), Acl::new(1, "ip", "10.0.0.0/8"));
        let list = [ip.clone(), open.clone(), ip.clone(), open.clone()];
        assert_eq!(fix(&list, &[]), Ok(vec![ip, open]));
    }

    #[test]
    fn a_null_behind_a_like_entry_breaks_the_request() {
        let null_scheme = Acl { perms: 31, id: Id { scheme: None, id: Some("x".into()) } };
        let null_id = Acl { perms: 31, id: Id { scheme: Some("nosuch".into()), id: None } };
        let open = Acl::new(31, "world", "anyone");
        let reader = Acl::new(1, "world", "anyone");
        assert_eq!(fix(&[open.clone(), null_scheme.clone()], &[]), Err(AclError::NullId));
        assert_eq!(fix(&[reader.clone(), null_scheme], &[]), Err(AclError::Invalid));
        assert_eq!(fix(&[null_id.clone(), null_id.clone()], &[]), Err(AclError::NullId));
        assert_eq!(fix(&[open, null_id], &[]), Err(AclError::Invalid));
    }

    #[test]
    fn auth_becomes_the_authenticated_ids() {
        let ids = [
            Id::new("ip", "1.2.3.4"),
            Id::new("digest", "a:x"),
            Id::new("super", ""),
            Id::new("digest", "b:y"),
        ];
        let expected = vec![Acl::new(3, "digest", "a:x"), Acl::new(3, "digest", "b:y")];
        assert_eq!(fix(&[Acl::new(3, "auth", "ignored")], &ids), Ok(expected.clone()));
        let null = Acl { perms: 3, id: Id { scheme: Some("auth".into()), id: None } };
        assert_eq!(fix(&[null], &ids), Ok(expected));
        assert_eq!(fix(&[Acl::new(3, "auth", "")], &ids[..1]), Err(AclError::Invalid));
        assert_eq!(fix(&[Acl::new(3, "auth", "")], &[]), Err(AclError::Invalid));
    }

    #[test]
    fn an_expansion_stops_at_the_longest_transaction() {
        let ids: Credentials = (0..3).map(|id| Id::new("digest", format!("{id}:x"))).collect();
        let policy = Policy { transaction_bytes_max: 80, ..Policy::default() };
        let fix = |count| {
            let acl: Vec<Acl> = (0..count).map(|perms| Acl::new(perms, "auth", "")).collect();
            fixup_acl(Some(acl.into()), &ids, &policy).map(|acl| acl.len())
        };
        assert_eq!(fix(1), Ok(3));
        assert_eq!(fix(1_000), Err(AclError::TooLong { bytes: 84 }), "with the fourth entry");
    }

    #[test]
    fn what_is_invalid() {
        assert_eq!(fixup_acl(None, &Credentials::none(), &Policy::default()), Err(AclError::Invalid));
        assert_eq!(fix(&[], &[]), Err(AclError::Invalid));
        for (scheme, id) in
            [("world", "x"), ("super", ""), ("sasl", "bob"), ("digest", "nocolon"), ("ip", "host"), ("", "")]
        {
            assert_eq!(fix(&[Acl::new(31, scheme, id)], &[]), Err(AclError::Invalid), "{scheme}:{id}");
        }
        let no_scheme = Acl { perms: 1, id: Id { scheme: None, id: Some("anyone".into()) } };
        assert_eq!(fix(&[no_scheme], &[]), Err(AclError::Invalid));
    }

    #[test]
    fn ids_of_registered_schemes() {
        let mut policy = Policy::default();
        policy.auth.sasl = Some(SaslScheme::default());
        policy.auth.ensemble = Some(EnsembleScheme::default());
        let bob: Credentials = [Id::new("sasl", "bob")].into_iter().collect();
        let fix = |scheme, id: &str| {
            fixup_acl(Some(vec![Acl::new(31, scheme, id)].into()), &bob, &policy).map(AclList::into_owned)
        };
        assert_eq!(fix("sasl", "svc/h@R"), Ok(vec![Acl::new(31, "sasl", "svc/h@R")]));
        assert_eq!(fix("sasl", "a/b/c@R"), Err(AclError::Invalid));
        assert_eq!(fix("auth", ""), Ok(vec![Acl::new(31, "sasl", "bob")]));
        assert_eq!(fix("ensemble", "east"), Err(AclError::Invalid));
    }

    #[test]
    fn null_ids() {
        let null = |scheme: &str| Acl { perms: 1, id: Id { scheme: Some(scheme.into()), id: None } };
        for scheme in ["world", "digest", "ip"] {
            assert_eq!(fix(&[null(scheme)], &[]), Err(AclError::NullId), "{scheme}");
        }
        assert_eq!(fix(&[null("sasl")], &[]), Err(AclError::Invalid));
        assert_eq!(
            fix(&[Acl::new(2, "ip", "bad"), null("ip")], &[]),
            Err(AclError::Invalid),
            "the first decides"
        );
    }

    #[test]
    fn permission_bits_are_not_looked_at() {
        for perms in [0, -1, 32, i32::MIN] {
            let list = [Acl::new(perms, "world", "anyone")];
            assert_eq!(fix(&list, &[]), Ok(list.to_vec()));
        }
    }
}
