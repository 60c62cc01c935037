//! The virtual nodes below `/keeper`. Features that need the leader are shown while the leader has them.

use zebu_proto::client::ReadRequest;
use zebu_tree::{Credentials, TtlNodes, path};

use crate::connection::ClientConnection;
use crate::replica::Replica;

/// For releases of ClickHouse before feature flags: lists by kind and multiRead.
const API_VERSION: &str = "2";

/// Features that need no leader: filteredList, multiRead, its watches, persistent watches, create2,
/// listWithStatsAndData, listRecursive, the node `max_request_size` and createContainer.
const READS: [u8; 9] = [0, 1, 5, 7, 8, 10, 11, 13, 14];

/// Features that become transactions: checkNotExists, createIfNotExists, removeRecursive, checkStat and
/// tryRemove.
const WRITES: [u8; 5] = [2, 3, 4, 6, 9];

const CREATE_TTL: u8 = 12;

/// Whether ClickHouse asks what this server can do, as at the beginning of each of its sessions.
pub(crate) fn is_clickhouse_discovery(request: &ReadRequest<'_>) -> bool {
    matches!(request, ReadRequest::GetData(path, _)
        if matches!(&**path, "/keeper/feature_flags" | "/keeper/api_version"))
}

impl Replica {
    /// The data of a virtual node of ClickHouse. `None` if there is none with this path.
    pub(crate) fn keeper_node(
        &self,
        path: &str,
        connection: &ClientConnection,
        credentials: &Credentials,
    ) -> Option<Vec<u8>> {
        if !self.keeper.extensions || self.tree.node(path).is_some() {
            return None;
        }
        match path.strip_prefix(path::KEEPER)?.strip_prefix('/')? {
            "feature_flags" => {
                let writes = self.accepts_private_writes(connection);
                let ttl = self.tree.options().ttl_nodes != TtlNodes::Disabled;
                Some(feature_flags(writes, ttl).to_vec())
            }
            "api_version" => Some(API_VERSION.into()),
            "availability_zone" => Some(self.keeper.zone.as_deref()?.into()),
            "max_request_size" => Some(self.keeper.request_bytes_max.to_string().into_bytes()),
            "config" => {
                let config = self.readable_node(path::CONFIG, credentials).ok()?;
                Some(config.data().unwrap_or_default().into())
            }
            _ => None,
        }
    }
}

/// Flag `n` is the bit `7 - n % 8` of byte `n / 8`.
fn feature_flags(writes: bool, ttl: bool) -> [u8; 2] {
    let mut flags = [0; 2];
    let writes = WRITES.iter().filter(|_| writes);
    let ttl = ttl.then_some(&CREATE_TTL);
    for flag in READS.iter().chain(writes).chain(ttl) {
        if let Some(byte) = flags.get_mut(usize::from(flag / 8)) {
            *byte |= 0x80 >> (flag % 8);
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_bits_from_the_left() {
        assert_eq!(feature_flags(true, true), [0xFF, 0xFE]);
        assert_eq!(feature_flags(true, false), [0xFF, 0xF6]);
        assert_eq!(feature_flags(false, true), [0b1100_0101, 0b1011_1110]);
        assert_eq!(feature_flags(false, false), [0b1100_0101, 0b1011_0110]);
    }
}
