//! Collects orders until they are fetched. Appends are collected into one batch as long as no other work for the
//! disk comes between them: what goes to the network need not wait for them, agreement sees to that itself.

use zebu_zab::IoId;

use super::orders::{DiskOrder, Order};
use crate::core::{BatchBuilder, Snapshots};
use crate::random::Random;

#[derive(Debug, Default)]
pub(crate) struct OrderQueue {
    orders: Vec<Order>,
    /// The last append that is in the batch.
    appended: Option<IoId>,
}

impl OrderQueue {
    /// Something that is not for the disk.
    pub(crate) fn push(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// The payload of this append was just put into the batch.
    pub(crate) fn appended(&mut self, io: IoId) {
        self.appended = Some(io);
    }

    /// Work for the disk other than an append; the appends before it go first.
    pub(crate) fn push_disk(
        &mut self,
        order: DiskOrder,
        batch: &mut BatchBuilder,
        random: &mut Random,
        snapshots: Snapshots,
    ) {
        self.flush(batch, random, snapshots);
        self.push(Order::Disk(order));
    }

    /// Makes an order of the appends that were collected.
    pub(crate) fn flush(&mut self, batch: &mut BatchBuilder, random: &mut Random, snapshots: Snapshots) {
        if let Some(io) = self.appended.take()
            && let Some(batch) = batch.take(random, snapshots)
        {
            self.push(Order::Disk(DiskOrder::Append { io, batch }));
        }
    }

    pub(crate) fn take(&mut self, orders: &mut Vec<Order>) {
        orders.append(&mut self.orders);
    }
}
