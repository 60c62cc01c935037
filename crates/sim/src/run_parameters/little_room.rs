//! Draws runs in which disks have little room, and nothing else goes wrong. Only these servers look at their
//! room and keep a reserve, so that the runs of old seeds stay the same.

use zebu_runtime::RoomSettings;

use super::{PurgeParameters, RunParameters, ServerKinds};
use crate::queue::VirtualTime;
use crate::random::{DrawPurpose, SimRandom};

/// Runs with little room, of a thousand.
const RUNS_PERMILLE: u64 = 60;

/// Rounds of such a run, and the ticks of each.
pub(crate) const ROOM_ROUNDS: u64 = 6;
pub(crate) const ROOM_ROUND_TICKS: u64 = 20;

/// The marks of all servers, in bytes.
pub(crate) const ROOM: RoomSettings =
    RoomSettings { low: Some(96 << 10), stop: Some(64 << 10), reserve: Some(16 << 10) };

/// Whose disks have little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LittleRoom {
    /// None: the servers do not look.
    Off,
    /// One at a time: a quorum always has room.
    One,
    /// All at once.
    All,
}

impl RunParameters {
    /// Drawn apart, after all others.
    pub(super) fn draw_little_room(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::LittleRoom);
        if !random.permille(RUNS_PERMILLE) || self.endurance.is_some() {
            return;
        }
        self.calm_down(&mut random);
        let little_room = random.pick(&[LittleRoom::One, LittleRoom::All]);
        if little_room == LittleRoom::All && random.permille(250) {
            (self.voters, self.observers) = (1, 0);
        }
        let election_grace_ms = self.kinds.election_grace_ms;
        self.kinds = ServerKinds { election_grace_ms, little_room, ..ServerKinds::DEFAULT };
        self.safety = (ROOM_ROUNDS * ROOM_ROUND_TICKS + 4) * self.tick();
        self.disk.preallocate = random.pick(&[0, 256, 1024]);
        self.disk.purge = PurgeParameters::AfterSnapshots;
        self.workload.calls_max = 1500;
        self.workload.data_max = self.workload.data_max.min(200);
    }

    /// The pause between two looks of a server at its room.
    pub(crate) fn room_pause(&self) -> VirtualTime {
        self.tick() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Little room and drains were once drawn alike, so that one replaced the other in every ensemble.
    #[test]
    fn ensembles_have_little_room_or_drains_as_their_only_fault() {
        let ensembles = || (0..2000).map(RunParameters::draw).filter(|it| it.voters > 1);
        let with_room = |room| ensembles().filter(|it| it.kinds.little_room == room).count();
        let (one, all) = (with_room(LittleRoom::One), with_room(LittleRoom::All));
        let drains = ensembles().filter(|it| it.kinds.only_drains).count();
        assert!(one > 40 && all > 25 && drains > 60, "{one} {all} {drains}");
        assert!(ensembles().all(|it| it.kinds.little_room == LittleRoom::Off || !it.kinds.only_drains));
    }
}
