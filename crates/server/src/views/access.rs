//! Which identity a caller proves, and what it may do. The schemes are those of the client port.

use std::net::IpAddr;

use zebu_proto::{Id, Permissions};
use zebu_tree::{Credentials, access};

use super::ServerViews;

/// What an identity may do with the whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAccess {
    /// The super user.
    Super,
    /// The ACL of `/` names the identity with all five permissions.
    Named,
    /// Neither. An entry `world:anyone` gives no right to the whole state.
    Refused,
}

impl ServerViews {
    /// The credentials of a caller that names a scheme, with data as `addauth` takes them. `None` if the
    /// caller proves no identity. `certificate` is the id of its certificate.
    pub fn authenticate(
        &self,
        scheme: &str,
        data: Option<&str>,
        address: IpAddr,
        certificate: Option<&str>,
    ) -> Option<Credentials> {
        let replica = self.shared.read_replica();
        let policy = replica.policy();
        let mut held = match scheme {
            "ip" => Credentials::of_peer(address.to_canonical()),
            _ => Credentials::none(),
        };
        if scheme == "x509" {
            let id = certificate?;
            if self.shared.config.security.client_tls.x509_super_user.as_deref() == Some(id) {
                held.add(Id::new("super", id));
            }
            held.add(Id::new("x509", id));
        }
        let data = data.map(str::as_bytes);
        let proven = access::authenticate(Some(scheme), data, &held, policy).ok()?;
        proven.into_iter().for_each(|id| held.add(id));
        (!held.is_empty()).then_some(held)
    }

    /// What the caller may do with the whole state.
    pub fn root_access(&self, credentials: &Credentials) -> RootAccess {
        if credentials.is_super() {
            return RootAccess::Super;
        }
        let replica = self.shared.read_replica();
        let Some(root) = replica.tree().node("/") else { return RootAccess::Refused };
        let named: Vec<_> =
            root.acl().iter().filter(|entry| entry.id.scheme.as_deref() != Some("world")).cloned().collect();
        let permissions = [
            Permissions::CREATE,
            Permissions::DELETE,
            Permissions::READ,
            Permissions::WRITE,
            Permissions::ADMIN,
        ];
        // An empty list would grant everything, and skipACL=yes would, too.
        let is_granted = |permission| {
            let mut policy = replica.policy().clone();
            policy.acl_checks = access::AclChecks::Enforced;
            access::allowed(&named, permission, credentials, &policy)
        };
        match !named.is_empty() && permissions.into_iter().all(is_granted) {
            true => RootAccess::Named,
            false => RootAccess::Refused,
        }
    }
}
