//! Collects effects until the runtime takes them. Consecutive appends form one batch until another disk
//! command follows. Network effects need not wait for appends: Zab sends an ack only after the append is
//! durable.

use zebu_zab::{DiskCommand, IoId};

use super::effect::Effect;
use crate::core::BatchBuilder;
use crate::split_mix::SplitMix64;

#[derive(Debug, Default)]
pub(crate) struct EffectQueue {
    effects: Vec<Effect>,
    /// The last append in the batch.
    appended: Option<IoId>,
}

impl EffectQueue {
    /// Adds an effect that is not for the disk.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Records that the payload of this append was added to the batch.
    pub(crate) fn appended(&mut self, io: IoId) {
        self.appended = Some(io);
    }

    /// Adds a disk command other than an append, behind the collected appends.
    pub(crate) fn push_disk(
        &mut self,
        command: DiskCommand,
        batch: &mut BatchBuilder,
        random: &mut SplitMix64,
        allows_snapshot: bool,
    ) {
        self.flush(batch, random, allows_snapshot);
        self.push(Effect::Disk(command));
    }

    /// Turns the collected appends into one effect.
    pub(crate) fn flush(&mut self, batch: &mut BatchBuilder, random: &mut SplitMix64, allows_snapshot: bool) {
        if let Some(io) = self.appended.take()
            && let Some(batch) = batch.take(random, allows_snapshot)
        {
            self.push(Effect::Append { io: Some(io), batch });
        }
    }

    pub(crate) fn take(&mut self, effects: &mut Vec<Effect>) {
        effects.append(&mut self.effects);
    }
}
