//! reconfig: change of the membership of an ensemble.

use crate::jute::Text;
use crate::record;

record! {
    /// Incremental (joining and leaving) or complete (new members).
    pub struct ReconfigRequest {
        /// `server.N=…` specifications, comma separated.
        pub joining: Text,
        /// Server ids, comma separated.
        pub leaving: Text,
        /// A complete membership.
        pub new_members: Text,
        /// Version of the configuration that is to be replaced, or -1.
        pub current_config_id: i64,
    }
}
