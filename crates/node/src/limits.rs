//! Limits of one connection. They bound the memory for a client that does not read its replies or sends
//! faster than the server executes. At a limit the client waits, and in the end its connection is closed.

/// Requests of one connection that may wait at a time. Further requests stay in the socket.
pub const SLOTS_MAX: usize = 4096;

/// Bytes of the waiting requests of one connection. Further requests stay in the socket.
pub const SLOTS_BYTES_MAX: usize = 16 << 20;

/// Reads of one connection that may wait behind its writes. The core runs them, so the limit is low.
pub const WAITING_READS_MAX: usize = 256;

/// Unsent bytes above which no further request of the connection is decoded.
pub const OUTBOX_PAUSE_BYTES: usize = 1 << 20;

/// Unsent bytes above which the connection is closed. Only watch events and reads behind writes reach it.
pub const OUTBOX_CLOSE_BYTES: usize = 16 << 20;

/// Capacity that an empty outbox keeps: a server may have ten thousand idle clients.
const OUTBOX_KEEP_BYTES: usize = 16 * 1024;

/// Capacity that an empty outbox gives back: that of a ping reply. Most connections only ping.
const OUTBOX_SMALL_BYTES: usize = 64;

/// Shrinks the capacity of an empty buffer, unless it is likely to be needed again.
pub fn shrink_buffer(buffer: &mut Vec<u8>) {
    if buffer.capacity() <= OUTBOX_SMALL_BYTES {
        *buffer = Vec::new();
    } else {
        buffer.shrink_to(OUTBOX_KEEP_BYTES);
    }
}

/// Credentials of one connection.
pub const CREDENTIALS_MAX: usize = 64;

/// Bytes of the credentials of one connection: each forwarded request carries them.
pub const CREDENTIALS_BYTES_MAX: usize = 1 << 20;

/// Milliseconds from the first token of a SASL exchange to its end.
pub const SASL_EXCHANGE_MS_MAX: i64 = 30_000;

/// Bytes of the results of one multiRead, beyond its first result. A request of half a megabyte may name one
/// node thirty thousand times.
pub const MULTI_READ_BYTES_MAX: usize = 16 << 20;

/// Nodes that the parts of one multiRead visit together, beyond its first part. A part of twenty bytes may
/// visit every child of a large node and list none.
pub const MULTI_READ_VISITS_MAX: usize = 200_000;

/// Work of reads under one hold of the replica, in visited nodes. The last read may exceed it.
pub const READ_WORK_PER_LOCK: u32 = 20_000;

/// Waiting reads that a multiRead or a list of ClickHouse Keeper counts for, because the core runs it.
pub const HEAVY_READ_WEIGHT: u16 = 32;

/// Number of children from which the encoded listing of a node is cached as a long one.
pub const CACHED_LISTING_CHILDREN_MIN: usize = 10_000;

/// Bytes of the longest encoded listing that is cached. The cache holds one long listing.
pub const CACHED_LISTING_BYTES_MAX: usize = 64 << 20;

/// Number of children from which the encoded listing of a node is cached as a short one.
pub const SHORT_LISTING_CHILDREN_MIN: usize = 8;

/// Bytes of the longest encoded listing that is cached as a short one.
pub const SHORT_LISTING_BYTES_MAX: usize = 16 << 10;

/// Number of short listings in the cache.
pub const SHORT_LISTINGS_MAX: usize = 64;

/// Ended sessions that a leader with local sessions remembers. Learners hear of an end within moments.
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
            shrink_buffer(&mut buffer);
            assert_eq!(buffer.capacity(), kept, "{room}");
        }
    }
}
