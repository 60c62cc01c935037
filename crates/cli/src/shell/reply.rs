//! What commands answer: values, not text. How they look is decided in `text` and `json`.

use zebu_client::{Acl, Identity, Stat};

use super::quota::Limits;

/// How the data of a node is to be spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Plain,
    Base64,
    HexDump,
}

/// A node of a tree that is shown as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) name: String,
    pub(crate) note: Option<String>,
    /// Whether there is more below that was not asked for.
    pub(crate) cut: bool,
    pub(crate) children: Vec<Branch>,
}

/// A watch event, with the text that stands for a missing path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) state: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) path: Option<String>,
    pub(crate) zxid: i64,
}

/// What became of a subtree that was copied, exported or imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// `copied`, `exported`, `imported`, `would be imported`.
    pub(crate) verb: &'static str,
    pub(crate) created: u64,
    pub(crate) overwritten: u64,
    pub(crate) skipped_ephemerals: u64,
    pub(crate) bytes: u64,
}

/// The answer of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// What there was to say has been said.
    Nothing,
    /// It was done, and there is nothing to show.
    Done,
    /// This node is gone, and all below it.
    Deleted(String),
    /// The shell ends.
    Quit,
    /// This line is to be run in its place.
    Again(String),
    /// A line that is text in every form.
    Line(String),
    Children {
        path: String,
        names: Vec<String>,
        stat: Option<Stat>,
    },
    /// One path per line.
    Paths(Vec<String>),
    /// A list in brackets.
    Ephemerals(Vec<String>),
    Data {
        path: String,
        data: Option<Vec<u8>>,
        stat: Stat,
        /// Whether the text shows the stat; JSON always does.
        with_stat: bool,
        spelling: Spelling,
    },
    Stat {
        path: String,
        stat: Stat,
    },
    Written {
        path: String,
        stat: Stat,
        /// Whether the text shows the stat; JSON always does.
        with_stat: bool,
    },
    Created {
        path: String,
        stat: Stat,
    },
    Acl {
        path: String,
        entries: Vec<Acl>,
        stat: Option<Stat>,
    },
    Count {
        path: String,
        number: u32,
    },
    Identities(Vec<Identity>),
    Quota {
        path: String,
        limits: Limits,
        usage: Limits,
    },
    Config {
        /// What stands above it.
        heading: Option<&'static str>,
        text: String,
        stat: Option<Stat>,
    },
    /// Version and client addresses.
    ClientConfig {
        version: String,
        addresses: Vec<String>,
    },
    History(Vec<(usize, String)>),
    Tree(Branch),
    Tally(Tally),
}
