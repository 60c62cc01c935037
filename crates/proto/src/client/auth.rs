//! Credentials: auth packets, SASL rounds and whoAmI.

use crate::jute::{Buffer, Text};
use crate::record;

record! {
    /// auth: adds a credential to the connection.
    pub struct AuthPacket {
        /// Not looked at.
        pub kind: i32,
        /// `digest`, `ip`, …
        pub scheme: Text,
        /// What the scheme asks for.
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
    /// One credential in the answer to whoAmI.
    pub struct ClientInfo {
        /// Scheme of the credential.
        pub scheme: Text,
        /// The user in it, without secrets.
        pub user: Text,
    }
}
