//! Which identity a caller proves, and what it may do. The schemes are those of the client port.

use std::net::IpAddr;

use zebu_node::{AuditOperation, AuditResult};
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

/// How a caller of the HTTP API shows who it is.
#[derive(Clone, Copy, Debug)]
pub struct CallerIdentity<'a> {
    /// Its address.
    pub address: IpAddr,
    /// The id of its certificate, if it showed one.
    pub certificate: Option<&'a str>,
    /// A scheme, and data as `addauth` takes them.
    pub auth: Option<(&'a str, Option<&'a str>)>,
}

impl ServerViews {
    /// The credentials that a client of the client port would have: its address, its certificate and what it
    /// proves by `auth`. `None` if `auth` proves nothing; the audit log records that.
    pub fn caller_credentials(&self, caller: &CallerIdentity<'_>) -> Option<Credentials> {
        let mut held = Credentials::of_peer(caller.address);
        for id in caller.certificate.into_iter().flat_map(|id| self.certificate_ids(id)) {
            held.add(id);
        }
        let Some((scheme, data)) = caller.auth else { return Some(held) };
        let proven = {
            let replica = self.shared.read_replica();
            access::authenticate(Some(scheme), data.map(str::as_bytes), &held, replica.policy())
        };
        match proven {
            Ok(ids) => {
                ids.into_iter().for_each(|id| held.add(id));
                Some(held)
            }
            Err(_) => {
                if let Some(audit) = &self.shared.audit {
                    let (operation, result) = (AuditOperation::AuthFailure, AuditResult::Failure);
                    audit.record_extra(None, &held, operation, result, self.shared.clock.now());
                }
                None
            }
        }
    }

    /// The names by which `whoAmI` shows the credentials, newest first.
    pub fn user_names(&self, credentials: &Credentials) -> Vec<(String, String)> {
        let replica = self.shared.read_replica();
        let name = |id: &Id| access::user_name(id, replica.policy()).to_owned();
        let ids = credentials.iter().rev();
        ids.map(|id| (id.scheme.as_deref().unwrap_or_default().to_owned(), name(id))).collect()
    }

    /// The ids of a certificate.
    fn certificate_ids(&self, id: &str) -> Vec<Id> {
        let is_super = self.shared.config.security.client_tls.x509_super_user.as_deref() == Some(id);
        let super_id = is_super.then(|| Id::new("super", id));
        super_id.into_iter().chain([Id::new("x509", id)]).collect()
    }

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
            self.certificate_ids(certificate?).into_iter().for_each(|id| held.add(id));
        }
        let data = data.map(str::as_bytes);
        let proven = access::authenticate(Some(scheme), data, &held, policy).ok()?;
        proven.into_iter().for_each(|id| held.add(id));
        (!held.is_empty()).then_some(held)
    }

    /// Records a command of the admin server, if events beyond those of ZooKeeper are wanted.
    pub fn audit_command(&self, operation: AuditOperation, credentials: &Credentials, result: AuditResult) {
        if let Some(audit) = &self.shared.audit {
            audit.record_extra(None, credentials, operation, result, self.shared.clock.now());
        }
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
