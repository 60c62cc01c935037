//! create, create2, createContainer and createTTL: one record, four operation codes.

use crate::acl::AclList;
use crate::jute::{Buffer, DecodeError, Jute, Reader, Text};
use crate::op::OpCode;

/// The operation code of a create request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOp {
    /// Returns the path.
    Create,
    /// Returns path and stat.
    Create2,
    /// Creates a container; returns path and stat.
    Container,
    /// Creates a TTL node; returns path and stat.
    Ttl,
}

impl CreateOp {
    /// The operation code on the wire.
    pub const fn op_code(self) -> OpCode {
        match self {
            CreateOp::Create => OpCode::Create,
            CreateOp::Create2 => OpCode::Create2,
            CreateOp::Container => OpCode::CreateContainer,
            CreateOp::Ttl => OpCode::CreateTtl,
        }
    }
}

/// The `flags` of a create request, after validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Stays until it is deleted.
    Persistent,
    /// Deleted with its session.
    Ephemeral,
    /// Persistent, with a counter appended to the name.
    PersistentSequential,
    /// Ephemeral, with a counter appended to the name.
    EphemeralSequential,
    /// Removed some time after its last child.
    Container,
    /// Removed when not modified for its TTL.
    PersistentWithTtl,
    /// The same with a counter appended to the name.
    PersistentSequentialWithTtl,
}

impl CreateMode {
    /// The mode of a `flags` field.
    pub const fn from_flags(flags: i32) -> Option<CreateMode> {
        Some(match flags {
            0 => CreateMode::Persistent,
            1 => CreateMode::Ephemeral,
            2 => CreateMode::PersistentSequential,
            3 => CreateMode::EphemeralSequential,
            4 => CreateMode::Container,
            5 => CreateMode::PersistentWithTtl,
            6 => CreateMode::PersistentSequentialWithTtl,
            _ => return None,
        })
    }

    /// The `flags` field of the mode.
    pub const fn flags(self) -> i32 {
        match self {
            CreateMode::Persistent => 0,
            CreateMode::Ephemeral => 1,
            CreateMode::PersistentSequential => 2,
            CreateMode::EphemeralSequential => 3,
            CreateMode::Container => 4,
            CreateMode::PersistentWithTtl => 5,
            CreateMode::PersistentSequentialWithTtl => 6,
        }
    }

    /// Whether the node is deleted with its session.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }

    /// Whether a counter is appended to the name.
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            CreateMode::PersistentSequential
                | CreateMode::EphemeralSequential
                | CreateMode::PersistentSequentialWithTtl
        )
    }

    /// Whether the request must carry a TTL.
    pub const fn has_ttl(self) -> bool {
        matches!(self, CreateMode::PersistentWithTtl | CreateMode::PersistentSequentialWithTtl)
    }
}

/// A request for a new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// The operation code.
    pub op: CreateOp,
    /// Path, before a counter is appended.
    pub path: Text,
    /// Initial data.
    pub data: Buffer,
    /// Access control list.
    pub acl: Option<AclList>,
    /// See [`CreateMode::from_flags`].
    pub flags: i32,
    /// Milliseconds; -1 for every operation code but createTTL.
    pub ttl_ms: i64,
}

impl CreateRequest {
    /// Decodes the record of `op`.
    pub fn decode(op: CreateOp, reader: &mut Reader<'_>) -> Result<CreateRequest, DecodeError> {
        Ok(CreateRequest {
            op,
            path: Text::decode(reader)?,
            data: Buffer::decode(reader)?,
            acl: Jute::decode(reader)?,
            flags: reader.int()?,
            ttl_ms: match op {
                CreateOp::Ttl => reader.long()?,
                CreateOp::Create | CreateOp::Create2 | CreateOp::Container => -1,
            },
        })
    }

    /// Appends the record of its operation code.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.path.encode(out);
        self.data.encode(out);
        self.acl.encode(out);
        self.flags.encode(out);
        if self.op == CreateOp::Ttl {
            self.ttl_ms.encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_modes_are_each_others_inverse() {
        for flags in 0..7 {
            assert_eq!(CreateMode::from_flags(flags).map(CreateMode::flags), Some(flags));
        }
        assert_eq!(CreateMode::from_flags(7), None);
    }
}
