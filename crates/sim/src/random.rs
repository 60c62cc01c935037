//! Random numbers from a seed. Every part of a run has a stream of its own. A change in one part (an omitted
//! fault, for instance) disturbs the others as little as possible.

/// The purpose of a stream. Two purposes with one number would draw the same; the compiler refuses them. A
/// number stays with its purpose, so that old seeds draw the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrawPurpose {
    Parameters = 1,
    Faults = 2,
    Network = 3,
    Disks = 4,
    World = 5,
    Garble = 6,
    Members = 8,
    Reconfigs = 9,
    LaterFaults = 10,
    Endurance = 11,
    UnstartableConfigs = 12,
    TransactionLimit = 13,
    StalledLeaders = 14,
    LeaderStalls = 15,
    ResumeOrder = 16,
    ServerKinds = 17,
    ServerKindFaults = 18,
    KeptConnections = 29,
    Drains = 37,
    DrainFaults = 38,
    LittleRoom = 39,
    SnapshotStreams = 40,
    PrivateRequests = 41,
}

/// The purpose of the first client; those of the other clients follow.
const FIRST_CLIENT: u64 = 1000;

/// The same for the requests that ZooKeeper does not have.
const FIRST_PRIVATE: u64 = 1 << 32;

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct SimRandom(zebu_node::SplitMix64);

impl SimRandom {
    /// The stream of a seed for one purpose.
    pub(crate) fn new(seed: u64, purpose: DrawPurpose) -> SimRandom {
        SimRandom::numbered(seed, purpose as u64)
    }

    /// The stream of a seed for one client.
    pub(crate) fn of_client(seed: u64, number: u64) -> SimRandom {
        SimRandom::numbered(seed, FIRST_CLIENT + number)
    }

    /// The stream of a seed for the requests of one client that ZooKeeper does not have.
    pub(crate) fn of_private_requests(seed: u64, client: u64) -> SimRandom {
        SimRandom::numbered(seed, FIRST_PRIVATE + client)
    }

    fn numbered(seed: u64, number: u64) -> SimRandom {
        let mut mixer = zebu_node::SplitMix64::new(seed);
        let mixed = mixer.next_u64() ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        SimRandom(zebu_node::SplitMix64::new(mixed))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; zero for an empty range.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `low` up to, and including, `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index into `count` items.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True with a probability of `chance` per mille.
    pub(crate) fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// One of the items.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// An index, with a probability in proportion to its weight.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if at < weight {
                return index;
            }
            at -= weight;
        }
        weights.len() - 1
    }

    /// A number that is more often small than large: every order of magnitude is as likely.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let ratio = (high.max(1) as f64) / (low.max(1) as f64);
        let drawn = low.max(1) as f64 * ratio.powf(self.0.fraction());
        (drawn as u64).clamp(low, high)
    }

    /// Shuffles the items; all orders are equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}
