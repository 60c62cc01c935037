//! hello: a client says once per connection what it understands beyond ZooKeeper. Without it a server never
//! sends anything that ZooKeeper would not. With it, the server may push.

use crate::record;

/// The bit of hello for [`MovePush`]: a client moves when it is asked to, a server asks before it stops.
pub const FEATURE_MOVE: i32 = 1;

/// [`MovePush::kind`]: the server stops soon.
pub const PUSH_MOVE: i32 = 2;

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
        /// One bit per feature.
        pub features: i32,
    }
}

record! {
    /// The body of a push: the client should move to another server, with the same session.
    #[derive(Copy)]
    pub struct MovePush {
        /// [`PUSH_MOVE`]; a client ignores other kinds.
        pub kind: i32,
        /// Milliseconds until the server closes the connection.
        pub time_ms: i32,
    }
}
