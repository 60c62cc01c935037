//! Credentials: auth packets, SASL rounds and whoAmI.

use crate::jute::{Buffer, Text};
use crate::record;

record! {
    /// auth: adds a credential to the connection.
    pub struct AuthPacket {
        /// Ignored.
        pub kind: i32,
        /// `digest`, `ip`, …
        pub scheme: Text,
        /// The authentication data of the scheme.
        pub auth: Buffer,
    }
}

record! {
    /// sasl: one message of the exchange, in either direction.
    pub struct SaslToken {
        /// The mechanism's bytes.
        pub token: Buffer,
    }
}

record! {
    /// One credential in the reply to whoAmI.
    pub struct ClientInfo {
        /// Scheme of the credential.
        pub scheme: Text,
        /// The user in it, without secrets.
        pub user: Text,
    }
}
