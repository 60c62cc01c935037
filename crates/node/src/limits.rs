//! Named limits of a connection. A client that does not read its replies, or that sends faster than its
//! requests can be carried out, costs at most this much; then it waits, and in the end it is closed.

/// Requests of one connection that may wait at a time. More are left in the socket.
pub const SLOTS_MAX: usize = 4096;

/// Their bytes. Beyond that too, requests are left in the socket.
pub const SLOTS_BYTES_MAX: usize = 16 << 20;

/// Reads of one connection that may wait behind its writes. They are run by the core, so few.
pub const WAITING_READS_MAX: usize = 256;

/// Unsent bytes above which no further request of the connection is looked at.
pub const OUTBOX_PAUSE_BYTES: usize = 1 << 20;

/// Unsent bytes above which the connection is closed: only events and reads behind writes get this far.
pub const OUTBOX_CLOSE_BYTES: usize = 16 << 20;

/// Room for bytes to send that a connection keeps when they are sent: there may be ten thousand idle clients.
const OUTBOX_KEEP_BYTES: usize = 16 * 1024;

/// Room of a buffer that is not worth keeping: that of an answer to a ping. Most connections say nothing else for long.
const OUTBOX_SMALL_BYTES: usize = 64;

/// Gives back the room of an empty buffer, unless it is likely to be needed again.
pub fn relax(buffer: &mut Vec<u8>) {
    if buffer.capacity() <= OUTBOX_SMALL_BYTES {
        *buffer = Vec::new();
    } else {
        buffer.shrink_to(OUTBOX_KEEP_BYTES);
    }
}

/// Credentials that one connection may collect.
pub const CREDENTIALS_MAX: usize = 64;

/// Their bytes: every request that is sent on to a leader carries them.
pub const CREDENTIALS_BYTES_MAX: usize = 1 << 20;

/// Bytes of the results of one multiRead, beyond its first result. A request of half a megabyte may name one node
/// thirty thousand times.
pub const MULTI_READ_BYTES_MAX: usize = 16 << 20;

/// Sessions that a leader with local sessions remembers after their end. Learners hear of an end within moments.
pub const ENDED_SESSIONS_MAX: usize = 16_384;

const _: () = assert!(OUTBOX_PAUSE_BYTES < OUTBOX_CLOSE_BYTES);
const _: () = assert!(WAITING_READS_MAX < SLOTS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_empty_buffer_keeps() {
        for (room, kept) in [(20, 0), (OUTBOX_SMALL_BYTES, 0), (200, 200), (1 << 20, OUTBOX_KEEP_BYTES)] {
            let mut buffer = Vec::with_capacity(room);
            relax(&mut buffer);
            assert_eq!(buffer.capacity(), kept, "{room}");
        }
    }
}
