//! hello: a client says once per connection what it understands beyond ZooKeeper. Without it a server never
//! sends anything that ZooKeeper would not.

use crate::record;

record! {
    /// The request: what the client understands.
    #[derive(Copy)]
    pub struct ClientHello {
        /// One bit per feature.
        pub features: i32,
    }
}

record! {
    /// The reply: what the server does.
    #[derive(Copy)]
    pub struct ServerHello {
        /// One bit per feature; zero until a release has one.
        pub features: i32,
    }
}
