//! The room on the disk of a server, as one byte behind the sessions of a ping reply. Only a leader that has
//! announced [`crate::quorum::Capabilities::DISK_ROOM`] gets it: Apache ZooKeeper would read it as a session.

/// The room on the disk of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskRoom {
    /// Enough. A server that tells nothing counts as having enough.
    #[default]
    Enough,
    /// Less than `disk.low`: an operator has to act.
    Low,
    /// Less than `disk.stop`: the tree must not grow.
    Full,
}

impl DiskRoom {
    /// The number of the state, in packets and in metrics.
    pub const fn number(self) -> u8 {
        match self {
            DiskRoom::Enough => 0,
            DiskRoom::Low => 1,
            DiskRoom::Full => 2,
        }
    }

    /// The state of a number; `None` for a number of a later version.
    pub const fn from_number(number: u8) -> Option<DiskRoom> {
        match number {
            0 => Some(DiskRoom::Enough),
            1 => Some(DiskRoom::Low),
            2 => Some(DiskRoom::Full),
            _ => None,
        }
    }

    /// The word for logs and reports.
    pub const fn word(self) -> &'static str {
        match self {
            DiskRoom::Enough => "enough",
            DiskRoom::Low => "low",
            DiskRoom::Full => "full",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_its_number() {
        for room in [DiskRoom::Enough, DiskRoom::Low, DiskRoom::Full] {
            assert_eq!(DiskRoom::from_number(room.number()), Some(room));
        }
        assert_eq!(DiskRoom::from_number(3), None);
    }
}
