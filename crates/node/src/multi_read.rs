//! multiRead: several reads of one state. A failed read does not fail the others.

use zebu_proto::client::MultiReadOp;
use zebu_proto::client::multi::{MULTI_END, MultiHeader, encode_error_result, encode_result_header};
use zebu_proto::client::read::Watch;
use zebu_proto::jute::encode_buffer;
use zebu_proto::{ErrorCode, Jute};

use crate::limits::{MULTI_READ_BYTES_MAX, MULTI_READ_VISITS_MAX};
use crate::read::{ReadContext, encode_children};

impl ReadContext<'_> {
    /// The whole request fails if its results together are too long or visit too many nodes. Truncated
    /// results count too. A single result may have any length.
    pub(crate) fn multi_read(&self, ops: &[MultiReadOp], out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let start = out.len();
        for (index, op) in ops.iter().enumerate() {
            let before = out.len();
            encode_result_header(op.op(), out);
            self.work.add_visits(1);
            if let Err(error) = self.read_part(op, out) {
                self.work.add_truncated(out.len() - before);
                out.truncate(before);
                self.encode_failed_part(op, error, out);
            }
            let bytes = out.len() - start + self.work.truncated_bytes();
            if index > 0 && (bytes > MULTI_READ_BYTES_MAX || self.work.visits() > MULTI_READ_VISITS_MAX) {
                return Err(ErrorCode::MarshallingError);
            }
        }
        MULTI_END.encode(out);
        Ok(())
    }

    /// ClickHouse expects the result of a failed read to have the operation code of the read, and no body.
    fn encode_failed_part(&self, op: &MultiReadOp, error: ErrorCode, out: &mut Vec<u8>) {
        match self.is_clickhouse {
            true => MultiHeader { op: op.op().wire(), done: false, err: error.wire() }.encode(out),
            false => encode_error_result(Some(error), out),
        }
    }

    /// ZooKeeper ignores the watches of these reads; ClickHouse Keeper sets them.
    fn read_part(&self, op: &MultiReadOp, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let watched = |watch: Watch| if self.is_clickhouse { watch } else { Watch::None };
        match op {
            MultiReadOp::GetData(path, watch) if watched(*watch) == Watch::Set => {
                self.get_data(path, Watch::Set, out).map(|_| ())
            }
            MultiReadOp::GetData(path, _) => {
                let node = self.readable_node(path)?;
                encode_buffer(node.data(), out);
                node.stat().encode(out);
                Ok(())
            }
            MultiReadOp::GetChildren(path, watch) if watched(*watch) == Watch::Set => {
                self.get_children(path, Watch::Set, 0, out).map(|_| ())
            }
            MultiReadOp::GetChildren(path, _) => {
                let node = self.readable_node(path)?;
                self.replica.listings.encode(path, &node, out, encode_children);
                Ok(())
            }
            MultiReadOp::Exists(path, watch) => self.exists(path, *watch, out),
            MultiReadOp::GetChildren2(path, watch) => self.get_children2(path, *watch, out),
            MultiReadOp::Keeper(request) => self.keeper_read(request, out),
        }
    }
}
