//! The party: members that are listed on request. Kazoo's layout.

use bytes::Bytes;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::persistent_node::{IfOwnedByOther, PersistentNode, PersistentNodeMode};
use crate::error::RecipeError;
use crate::retry::{none_if_missing, retry_until_answered};
use crate::unique_id::UniqueId;

/// The suffix of names in [`PartyLayout::Full`].
const MARKER: &str = "__party__";

/// The layout of a party, which defines the compatible library. One layout per directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PartyLayout {
    /// `<32 digits>__party__` with the identifier as data: Kazoo's `Party`.
    #[default]
    Full,
    /// `<32 digits>-<identifier>`: Kazoo's `ShallowParty`. One list of children has all identifiers.
    Shallow,
}

/// A group whose members are listed on request; Kazoo's `Party` and `ShallowParty`.
///
/// ```text
/// /party                                         container
///   53345f9894234e0ca7b59f819e3ec2e1__party__    ephemeral: a member; the data is its identifier
///   0d1c2a5508a84d1cb0a4c3f7be21f5a1-host-8      the same in the shallow layout
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::Party;
///
/// let party = Party::new(&client, "/party");
/// let member = party.join("host-7").await?;
/// assert_eq!(party.members().await?, ["host-7"]);
/// member.leave().await?;
/// assert!(party.members().await?.is_empty());
/// # Ok(()) });
/// ```
///
/// Identifiers need not be unique. A [`GroupMember`](super::GroupMember) keeps a local list; a party sends a
/// request.
///
/// **Connection lost.** A member stays a member. **Session lost.** It joins again with the next session,
/// unlike Kazoo's members. **Crash.** It is removed when the session expires. **Dropped.** It leaves in the
/// background.
#[derive(Clone, Debug)]
pub struct Party {
    client: Client,
    path: String,
    layout: PartyLayout,
}

impl Party {
    /// A party in this directory, which is created on demand. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Party {
        Party { client: client.clone(), path: path.to_owned(), layout: PartyLayout::default() }
    }

    /// The layout of the party.
    pub fn layout(mut self, layout: PartyLayout) -> Party {
        self.layout = layout;
        self
    }

    /// Joins the party and waits for the reply of the ensemble. Fails if the directory has the other layout.
    pub async fn join(&self, identifier: &str) -> Result<PartyMember, RecipeError> {
        self.names().await?;
        let id = UniqueId::new(&self.client).hex();
        let (name, data) = match self.layout {
            PartyLayout::Full => (format!("{id}{MARKER}"), Bytes::copy_from_slice(identifier.as_bytes())),
            PartyLayout::Shallow if identifier.contains('/') => {
                let what = format!("{identifier:?} has a slash and cannot be part of a node name");
                return Err(RecipeError::Invalid(what));
            }
            PartyLayout::Shallow => {
                (format!("{id}-{identifier}"), Bytes::copy_from_slice(identifier.as_bytes()))
            }
        };
        let path = path::join(&self.path, &name);
        let node = PersistentNode::start_with(
            &self.client,
            &path,
            data,
            PersistentNodeMode::Ephemeral,
            IfOwnedByOther::default(),
        );
        node.wait_present().await?;
        Ok(PartyMember { node, identifier: identifier.to_owned() })
    }

    /// The identifiers of all members, in no order. Unreadable ones are left out.
    pub async fn members(&self) -> Result<Vec<String>, RecipeError> {
        let client = &self.client;
        let mut members = Vec::new();
        for name in self.names().await? {
            match self.layout {
                PartyLayout::Shallow => members.extend(shallow_identifier(&name).map(str::to_owned)),
                PartyLayout::Full => {
                    let path = path::join(&self.path, &name);
                    let read = || client.get(&path).compression(Compression::None).retry(Retry::Never);
                    match none_if_missing(retry_until_answered(client, read).await) {
                        Ok(Some(node)) => members.push(String::from_utf8_lossy(&node.data).into_owned()),
                        // A member that has left meanwhile does not count.
                        Ok(None) => {}
                        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
                            tracing::warn!(%path, %error, "ignored an unreadable party member");
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(members)
    }

    /// The number of members.
    pub async fn count(&self) -> Result<usize, RecipeError> {
        Ok(self.names().await?.len())
    }

    /// The names of the members' nodes; other children are ignored.
    async fn names(&self) -> Result<Vec<String>, RecipeError> {
        let client = &self.client;
        let listed = retry_until_answered(client, || client.children(&self.path).retry(Retry::Never)).await;
        let names = none_if_missing(listed)?.map_or_else(Vec::new, |list| list.names);
        members_among(names, self.layout).map_err(|child| {
            let directory = self.path.clone();
            RecipeError::LayoutConflict { directory, child }
        })
    }
}

/// The members among these names, or a name of the other layout.
pub(super) fn members_among(names: Vec<String>, layout: PartyLayout) -> Result<Vec<String>, String> {
    let is_full = |name: &&String| name.ends_with(MARKER);
    let is_shallow = |name: &&String| shallow_identifier(name).is_some();
    let stranger = match layout {
        PartyLayout::Full => names.iter().find(is_shallow),
        PartyLayout::Shallow => names.iter().find(is_full),
    };
    if let Some(stranger) = stranger {
        return Err(stranger.clone());
    }
    let keep = |name: &String| match layout {
        PartyLayout::Full => is_full(&name),
        PartyLayout::Shallow => is_shallow(&name),
    };
    Ok(names.into_iter().filter(keep).collect())
}

/// The identifier in a shallow name.
pub(super) fn shallow_identifier(name: &str) -> Option<&str> {
    let (id, identifier) = name.split_once('-')?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(identifier)
}

/// A member of a party.
#[derive(Debug)]
#[must_use = "dropping it leaves the party"]
pub struct PartyMember {
    node: PersistentNode,
    identifier: String,
}

impl PartyMember {
    /// Its identifier.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its node.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Waits until it is a member, also after a lost session.
    pub async fn wait_present(&self) -> Result<(), RecipeError> {
        self.node.wait_present().await
    }

    /// The reason why it is no longer a member.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure()
    }

    /// Leaves the party and waits for the reply of the ensemble.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_do_not_mix_and_unknown_names_do_not_count() {
        let full = "53345f9894234e0ca7b59f819e3ec2e1__party__".to_owned();
        let shallow = "53345f9894234e0ca7b59f819e3ec2e1-host-7".to_owned();
        assert_eq!(shallow_identifier(&shallow), Some("host-7"));
        let names = vec!["hello".to_owned(), full.clone()];
        assert_eq!(members_among(names.clone(), PartyLayout::Full), Ok(vec![full.clone()]));
        assert_eq!(members_among(names, PartyLayout::Shallow), Err(full));
        assert_eq!(members_among(vec![shallow.clone()], PartyLayout::Full), Err(shallow));
    }
}
