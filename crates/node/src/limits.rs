//! Named limits of a connection. A client that does not read its replies, or that sends faster than its
//! requests can be carried out, costs at most this much; then it waits, and in the end it is closed.

/// Requests of one connection that may wait at a time. More are left in the socket.
pub const SLOTS_MAX: usize = 4096;

/// Reads of one connection that may wait behind its writes. They are run by the core, so few.
pub const WAITING_READS_MAX: usize = 256;

/// Unsent bytes above which no further request of the connection is looked at.
pub const OUTBOX_PAUSE_BYTES: usize = 1 << 20;

/// Unsent bytes above which the connection is closed: only events and reads behind writes get this far.
pub const OUTBOX_CLOSE_BYTES: usize = 16 << 20;

/// Credentials that one connection may collect.
pub const CREDENTIALS_MAX: usize = 64;

/// Sessions that a leader with local sessions remembers after their end. Learners hear of an end within moments.
pub const ENDED_SESSIONS_MAX: usize = 16_384;

const _: () = assert!(OUTBOX_PAUSE_BYTES < OUTBOX_CLOSE_BYTES);
const _: () = assert!(WAITING_READS_MAX < SLOTS_MAX);
