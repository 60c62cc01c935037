//! The party: members that come and go, counted by whoever asks. Kazoo's layout.

use bytes::Bytes;
use zebu_client::{Client, Compression, ErrorCode, Retry, path};

use super::kept::{IfTaken, KeptAs, KeptNode};
use crate::connection::{persist, present};
use crate::error::RecipeError;
use crate::unique_id::UniqueId;

/// What stands behind the id in the names of [`PartyLayout::Full`].
const MARKER: &str = "__party__";

/// How members are named, and with whom the party is shared. One layout per directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PartyLayout {
    /// `<32 digits>__party__` with the identifier as data: Kazoo's `Party`.
    #[default]
    Full,
    /// `<32 digits>-<identifier>`: Kazoo's `ShallowParty`. Who is there is known from one list of names.
    Shallow,
}

/// Members that are counted by whoever asks; Kazoo's `Party` and `ShallowParty`.
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
/// Identifiers need not be different. A [`GroupMember`](super::GroupMember) keeps a copy of the group; a party
/// is asked.
///
/// **Connection lost.** A member stays one. **Session lost.** It joins again with the next one, which Kazoo's do
/// not. **Crash.** It goes when the session has timed out. **Dropped.** It leaves in the background.
#[derive(Clone, Debug)]
pub struct Party {
    client: Client,
    path: String,
    layout: PartyLayout,
}

impl Party {
    /// A party in this directory, which is made when needed. Nothing is sent yet.
    pub fn new(client: &Client, path: &str) -> Party {
        Party { client: client.clone(), path: path.to_owned(), layout: PartyLayout::default() }
    }

    /// With whom the party is shared.
    pub fn layout(mut self, layout: PartyLayout) -> Party {
        self.layout = layout;
        self
    }

    /// Becomes a member; returns when the ensemble knows. Refused if the directory is used in the other layout.
    pub async fn join(&self, identifier: &str) -> Result<PartyMember, RecipeError> {
        self.names().await?;
        let id = UniqueId::new().hex();
        let (name, data) = match self.layout {
            PartyLayout::Full => (format!("{id}{MARKER}"), Bytes::copy_from_slice(identifier.as_bytes())),
            PartyLayout::Shallow if identifier.contains('/') => {
                let what = format!("{identifier:?} becomes a part of a name, and has a slash in it");
                return Err(RecipeError::Invalid(what));
            }
            PartyLayout::Shallow => {
                (format!("{id}-{identifier}"), Bytes::copy_from_slice(identifier.as_bytes()))
            }
        };
        let path = path::join(&self.path, &name);
        let node = KeptNode::start_with(&self.client, &path, data, KeptAs::Ephemeral, IfTaken::default());
        node.there().await?;
        Ok(PartyMember { node, identifier: identifier.to_owned() })
    }

    /// The identifiers of all members, in no particular order. Those that may not be read are left out.
    pub async fn members(&self) -> Result<Vec<String>, RecipeError> {
        let client = &self.client;
        let mut members = Vec::new();
        for name in self.names().await? {
            match self.layout {
                PartyLayout::Shallow => members.extend(shallow_identifier(&name).map(str::to_owned)),
                PartyLayout::Full => {
                    let path = path::join(&self.path, &name);
                    let read = || client.get(&path).compression(Compression::None).retry(Retry::Never);
                    match present(persist(client, read).await) {
                        Ok(Some(node)) => members.push(String::from_utf8_lossy(&node.data).into_owned()),
                        // One that has left meanwhile is none.
                        Ok(None) => {}
                        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
                            tracing::warn!(%path, %error, "left a member of a party out; it cannot be read");
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(members)
    }

    /// How many members there are.
    pub async fn count(&self) -> Result<usize, RecipeError> {
        Ok(self.names().await?.len())
    }

    /// The names of the members' nodes; other children are ignored.
    async fn names(&self) -> Result<Vec<String>, RecipeError> {
        let client = &self.client;
        let listed = persist(client, || client.children(&self.path).retry(Retry::Never)).await;
        let names = present(listed)?.map_or_else(Vec::new, |list| list.names);
        members_among(names, self.layout).map_err(|child| {
            let directory = self.path.clone();
            RecipeError::LayoutConflict { directory, child }
        })
    }
}

/// The members among the names of a directory, or one that is a member in the other layout.
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

/// What stands behind the id in a shallow name.
pub(super) fn shallow_identifier(name: &str) -> Option<&str> {
    let (id, identifier) = name.split_once('-')?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(identifier)
}

/// One member of a party.
#[derive(Debug)]
#[must_use = "dropping it leaves the party"]
pub struct PartyMember {
    node: KeptNode,
    identifier: String,
}

impl PartyMember {
    /// What it calls itself.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its node.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Waits until it is a member, also again after a lost session.
    pub async fn there(&self) -> Result<(), RecipeError> {
        self.node.there().await
    }

    /// Why it is no member any more, if so.
    pub fn failure(&self) -> Option<RecipeError> {
        self.node.failure()
    }

    /// Leaves the party, and waits until the ensemble knows.
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.remove().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_do_not_mix_and_strangers_do_not_count() {
        let full = "53345f9894234e0ca7b59f819e3ec2e1__party__".to_owned();
        let shallow = "53345f9894234e0ca7b59f819e3ec2e1-host-7".to_owned();
        assert_eq!(shallow_identifier(&shallow), Some("host-7"));
        let names = vec!["hello".to_owned(), full.clone()];
        assert_eq!(members_among(names.clone(), PartyLayout::Full), Ok(vec![full.clone()]));
        assert_eq!(members_among(names, PartyLayout::Shallow), Err(full));
        assert_eq!(members_among(vec![shallow.clone()], PartyLayout::Full), Err(shallow));
    }
}
