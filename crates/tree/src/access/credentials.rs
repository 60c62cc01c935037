//! The identities of one connection.

use std::net::IpAddr;
use std::sync::Arc;

use zebu_proto::Id;

use crate::access::ip_scheme::ip_text;

/// A set of ids in the order in which they were added. The caller bounds how many there are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Shared with the requests of this connection: every request carries them, and they hardly ever change.
    ids: Arc<[Id]>,
}

impl Credentials {
    /// No credentials: for the server's own requests.
    pub fn none() -> Credentials {
        Credentials::default()
    }

    /// The initial credentials of every connection: its address.
    pub fn of_peer(address: IpAddr) -> Credentials {
        Credentials { ids: [Id::new("ip", ip_text(address))].into() }
    }

    /// Adds an id unless it exists.
    pub fn add(&mut self, id: Id) {
        if !self.ids.contains(&id) {
            self.ids = self.ids.iter().cloned().chain([id]).collect();
        }
    }

    /// All ids, shared.
    pub fn shared(&self) -> Arc<[Id]> {
        self.ids.clone()
    }

    /// All ids.
    pub fn iter(&self) -> std::slice::Iter<'_, Id> {
        self.ids.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Bytes of all ids on the wire.
    pub fn encoded_length(&self) -> usize {
        self.ids.iter().map(Id::encoded_length).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether one of them is the super user.
    pub fn is_super(&self) -> bool {
        self.ids.iter().any(|id| id.scheme.as_deref() == Some("super"))
    }
}

impl<'a> IntoIterator for &'a Credentials {
    type Item = &'a Id;
    type IntoIter = std::slice::Iter<'a, Id>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Arc<[Id]>> for Credentials {
    fn from(ids: Arc<[Id]>) -> Credentials {
        Credentials { ids }
    }
}

impl FromIterator<Id> for Credentials {
    fn from_iter<T: IntoIterator<Item = Id>>(ids: T) -> Credentials {
        let mut credentials = Credentials::none();
        ids.into_iter().for_each(|id| credentials.add(id));
        credentials
    }
}
