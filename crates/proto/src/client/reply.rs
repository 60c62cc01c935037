//! Bodies of replies that are records of their own. A body that is a single field (a path, a stat) is encoded
//! by the code that answers the request.

use crate::acl::Acl;
use crate::jute::{Buffer, Text};
use crate::record;
use crate::stat::Stat;

record! {
    /// Reply to create2, createContainer and createTTL.
    pub struct Create2Response {
        /// Final path.
        pub path: Text,
        /// Stat of the new node.
        pub stat: Stat,
    }
}

record! {
    /// Reply to getData and reconfig.
    pub struct GetDataResponse {
        /// The data; null stays null.
        pub data: Buffer,
        /// Stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// Reply to getACL.
    pub struct GetAclResponse {
        /// The ACL.
        pub acl: Vec<Acl>,
        /// Stat of the node.
        pub stat: Stat,
    }
}

record! {
    /// Reply to getChildren2.
    pub struct GetChildren2Response {
        /// Names, in unspecified order.
        pub children: Vec<Box<str>>,
        /// Stat of the node.
        pub stat: Stat,
    }
}
