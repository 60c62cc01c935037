//! The identities of one connection.

use std::net::IpAddr;

use zebu_proto::Id;

use crate::access::ip_scheme::ip_text;

/// A set of ids in the order in which they were added. The caller bounds how many there are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Credentials {
    ids: Vec<Id>,
}

impl Credentials {
    /// Nobody: for the server's own requests.
    pub fn none() -> Credentials {
        Credentials::default()
    }

    /// What every connection starts with: its address.
    pub fn of_peer(address: IpAddr) -> Credentials {
        Credentials { ids: vec![Id::new("ip", ip_text(address))] }
    }

    /// Adds an id unless it is there.
    pub fn add(&mut self, id: Id) {
        if !self.ids.contains(&id) {
            self.ids.push(id);
        }
    }

    /// All ids.
    pub fn iter(&self) -> std::slice::Iter<'_, Id> {
        self.ids.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
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

impl FromIterator<Id> for Credentials {
    fn from_iter<T: IntoIterator<Item = Id>>(ids: T) -> Credentials {
        let mut credentials = Credentials::none();
        ids.into_iter().for_each(|id| credentials.add(id));
        credentials
    }
}
