//! All connections of a server, as the node sees them.

use super::{ClientConnection, ConnectionId};

/// All connections of a server, by number. The server locks them one at a time; the simulator owns them.
pub trait Connections {
    /// Runs `action` on a connection; `None` if it is closed.
    fn with<R>(
        &mut self,
        connection: ConnectionId,
        action: impl FnOnce(&mut ClientConnection) -> R,
    ) -> Option<R>;
}
