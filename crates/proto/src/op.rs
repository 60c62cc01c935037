//! Operation codes: of requests on the client port and of transactions in the log.

macro_rules! op_codes {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)*) => {
        /// The operation of a request or of a transaction.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(i32)]
        pub enum OpCode { $($(#[$meta])* $name = $code,)* }

        impl OpCode {
            /// All operation codes.
            pub const ALL: &'static [OpCode] = &[$(OpCode::$name,)*];

            /// The operation of a number on the wire.
            pub const fn from_wire(code: i32) -> Option<OpCode> {
                match code { $($code => Some(OpCode::$name),)* _ => None }
            }
        }
    };
}

op_codes! {
    /// A failed transaction; a failed part of a multi.
    Error = -1,
    /// Creates a session. Internal.
    CreateSession = -10,
    /// Closes a session.
    CloseSession = -11,
    /// Creates a node, returns its path.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Reads a node's stat.
    Exists = 3,
    /// Reads a node's data.
    GetData = 4,
    /// Replaces a node's data.
    SetData = 5,
    /// Reads a node's ACL.
    GetAcl = 6,
    /// Replaces a node's ACL.
    SetAcl = 7,
    /// Lists child names.
    GetChildren = 8,
    /// Waits until this server has applied all transactions that the leader has committed.
    Sync = 9,
    /// Keeps the session alive.
    Ping = 11,
    /// Lists child names and the stat.
    GetChildren2 = 12,
    /// Checks a version; only inside a multi.
    Check = 13,
    /// Several writes, all or none.
    Multi = 14,
    /// Creates a node, returns its path and stat.
    Create2 = 15,
    /// Changes the membership of the ensemble.
    Reconfig = 16,
    /// Checks whether a watch is registered.
    CheckWatches = 17,
    /// Removes watches.
    RemoveWatches = 18,
    /// Creates a container node.
    CreateContainer = 19,
    /// Removes an empty container or an expired TTL node. Internal.
    DeleteContainer = 20,
    /// Creates a node that is removed when it was not modified for a while.
    CreateTtl = 21,
    /// Several reads in one request.
    MultiRead = 22,
    /// Lists child names in pages, oldest first. Of LinkedIn's fork.
    GetChildrenPaginated = 71,
    /// Lists child names of a kind, and the stat. Of ClickHouse Keeper, as all codes up to 507.
    FilteredList = 500,
    /// Checks that a node, or a version of it, is missing.
    CheckNotExists = 501,
    /// Creates a node unless it exists.
    CreateIfNotExists = 502,
    /// Deletes a subtree.
    RemoveRecursive = 503,
    /// Checks fields of a stat.
    CheckStat = 504,
    /// Deletes a node if that is possible.
    TryRemove = 505,
    /// Lists child names of a kind, and the stat, with stats and data of the children on demand.
    ListWithStatsAndData = 506,
    /// Lists the paths of a subtree.
    ListRecursive = 507,
    /// Adds a credential to the connection.
    Auth = 100,
    /// Registers watches again after a reconnect.
    SetWatches = 101,
    /// One round of a SASL exchange.
    Sasl = 102,
    /// Lists the session's ephemeral nodes.
    GetEphemerals = 103,
    /// Counts the descendants of a node.
    GetAllChildrenNumber = 104,
    /// `SetWatches` with persistent watches.
    SetWatches2 = 105,
    /// Adds a persistent or recursive watch.
    AddWatch = 106,
    /// Lists the connection's credentials.
    WhoAmI = 107,
    /// Exchanges what client and server understand beyond ZooKeeper. Private to Zebu.
    Hello = 0x5A42_0000,
    /// A read that says how fresh its answer must be. Private to Zebu.
    With = 0x5A42_0001,
    /// Lists children in pages, by name. Private to Zebu.
    Page = 0x5A42_0002,
    /// Lists a subtree in pages. Private to Zebu.
    Scan = 0x5A42_0003,
    /// Deletes a part of a subtree, leaves first. Private to Zebu.
    DeleteTree = 0x5A42_0004,
    /// Opens a feed of committed transactions. Private to Zebu.
    Feed = 0x5A42_0005,
    /// Grants credit to a feed, or closes it. Private to Zebu.
    FeedCredit = 0x5A42_0006,
}

impl OpCode {
    /// The number on the wire.
    pub const fn wire(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for &op in OpCode::ALL {
            assert_eq!(OpCode::from_wire(op.wire()), Some(op));
        }
        for unused in [0, 10, 23, 99, 108, -2, i32::MIN, 0x5A41_FFFF, 0x5A42_0007, 70, 72, 499, 508, 997] {
            assert_eq!(OpCode::from_wire(unused), None);
        }
    }
}
