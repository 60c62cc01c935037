//! Bodies of replies that are records of their own. Bodies that are a single field (a path, a stat) are
//! written where they are made.

use crate::acl::Acl;
use crate::jute::{Buffer, Text};
use crate::record;
use crate::stat::Stat;

record! {
    /// Answer to create2, createContainer and createTTL.
    pub struct Create2Response {
        /// Final path.
        pub path: Text,
        /// Stat of the new node.
        pub stat: Stat,
    }
}

record! {
    /// Answer to getData and reconfig.
    pub struct GetDataResponse {
        /// The data; null stays null.
        pub data: Buffer,
        /// Stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// Answer to getACL.
    pub struct GetAclResponse {
        /// The list.
        pub acl: Vec<Acl>,
        /// Stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// Answer to getChildren2.
    pub struct GetChildren2Response {
        /// Names, in no order.
        pub children: Vec<Box<str>>,
        /// Stat of the node.
        pub stat: Stat,
    }
}
