//! The encoded length of a transaction, without encoding it.

use crate::acl::{Acl, AclList, Id};
use crate::jute::{Buffer, Text};
use crate::txn::body::{SubTxn, Txn, TxnDigest};

/// Bytes of the header: session, xid, zxid, time and type.
const HEADER_LENGTH: usize = 8 + 4 + 8 + 8 + 4;

/// Bytes of an encoded digest.
const DIGEST_LENGTH: usize = 4 + 8;

/// Bytes in front of the body of a part: type and length.
const PART_LENGTH: usize = 4 + 4;

impl Id {
    /// Bytes of the encoded id.
    pub fn encoded_length(&self) -> usize {
        let text = |text: &Text| 4 + text.as_ref().map_or(0, |text| text.len());
        text(&self.scheme) + text(&self.id)
    }
}

impl Acl {
    /// Bytes of the encoded entry.
    pub fn encoded_length(&self) -> usize {
        4 + self.id.encoded_length()
    }
}

impl SubTxn {
    /// Bytes of the encoded part.
    pub fn encoded_length(&self) -> usize {
        PART_LENGTH + self.0.body_length()
    }
}

impl Txn {
    /// Bytes of the log entry and of the proposal: header, body and digest.
    pub fn entry_length(&self, digest: Option<&TxnDigest>) -> usize {
        HEADER_LENGTH + self.body_length() + digest.map_or(0, |_| DIGEST_LENGTH)
    }

    fn body_length(&self) -> usize {
        match self {
            Txn::Error(_) | Txn::CreateSession { .. } => 4,
            Txn::CloseSession(None) => 0,
            Txn::CloseSession(Some(paths)) => 4 + paths.iter().map(|path| text(path)).sum::<usize>(),
            Txn::Create(create) | Txn::Create2(create) => {
                text(&create.path) + buffer(&create.data) + list(create.acl.as_ref()) + 1 + 4
            }
            Txn::CreateContainer(create) => {
                text(&create.path) + buffer(&create.data) + list(create.acl.as_ref()) + 4
            }
            Txn::CreateTtl(create) => {
                text(&create.path) + buffer(&create.data) + list(create.acl.as_ref()) + 4 + 8
            }
            Txn::Delete(path) | Txn::DeleteContainer(path) => text(path),
            Txn::SetData(set) | Txn::Reconfig(set) => text(&set.path) + buffer(&set.data) + 4,
            Txn::SetAcl(set) => text(&set.path) + list(set.acl.as_ref()) + 4,
            Txn::Check(check) => text(&check.path) + 4,
            Txn::Multi(parts) => 4 + parts.iter().map(SubTxn::encoded_length).sum::<usize>(),
        }
    }
}

fn text(text: &str) -> usize {
    4 + text.len()
}

fn buffer(data: &Buffer) -> usize {
    4 + data.as_ref().map_or(0, |data| data.len())
}

fn list(acl: Option<&AclList>) -> usize {
    4 + acl.map_or(0, |acl| acl.iter().map(Acl::encoded_length).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SessionId, Zxid};
    use crate::txn::{
        CheckTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, TxnEntry, TxnHeader,
    };

    #[test]
    fn the_length_is_that_of_the_encoding() {
        let path: Box<str> = "/päth".into();
        let null = Acl { perms: 1, id: Id { scheme: Some("x".into()), id: None } };
        let acl = Some(AclList::from(vec![Acl::new(31, "digest", "bob:secret"), null]));
        let data: Buffer = Some(b"data".as_slice().into());
        let create = CreateTxn {
            path: path.clone(),
            data: data.clone(),
            acl: acl.clone(),
            ephemeral: true,
            parent_cversion: 1,
        };
        let (parent_cversion, ttl_ms, version) = (1, 2, 3);
        let container =
            CreateContainerTxn { path: path.clone(), data: None, acl: acl.clone(), parent_cversion };
        let ttl = CreateTtlTxn { path: path.clone(), data: data.clone(), acl: None, parent_cversion, ttl_ms };
        let set = SetDataTxn { path: path.clone(), data, version };
        let single = [
            Txn::Error(-1),
            Txn::CreateSession { timeout_ms: 1 },
            Txn::CloseSession(None),
            Txn::CloseSession(Some(vec![path.clone(), "/b".into()])),
            Txn::Create(create.clone()),
            Txn::Create2(create),
            Txn::CreateContainer(container),
            Txn::CreateTtl(ttl),
            Txn::Delete(path.clone()),
            Txn::DeleteContainer(path.clone()),
            Txn::SetData(set.clone()),
            Txn::Reconfig(set),
            Txn::SetAcl(SetAclTxn { path: path.clone(), acl, version }),
            Txn::Check(CheckTxn { path, version }),
        ];
        let multi = Txn::Multi(single.iter().cloned().map(SubTxn).collect());
        for txn in single.into_iter().chain([multi]) {
            for digest in [None, Some(TxnDigest { version: 2, tree_digest: 5 })] {
                let header = TxnHeader { session: SessionId(1), cxid: 2, zxid: Zxid(3), time_ms: 4 };
                let length = txn.entry_length(digest.as_ref());
                let mut bytes = Vec::new();
                TxnEntry { header, txn: txn.clone(), digest }.encode(&mut bytes);
                assert_eq!(length, bytes.len(), "{txn:?}");
            }
        }
    }
}
