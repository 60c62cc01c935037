//! The order of items in a queue, and their names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zebu_client::path;

use crate::error::RecipeError;

/// The order and layout of a queue, which define the compatible libraries. All clients of a queue must use
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First in, first out; `qn-<number>` with plain bytes: Curator's `SimpleDistributedQueue`, ZooKeeper's
    /// `DistributedQueue`.
    Simple,
    /// First in, first out; `queue-<number>` in frames: Curator's `DistributedQueue`.
    Fifo,
    /// First in, first out, and items can be removed by id; `queue-|id|<number>`: Curator's
    /// `DistributedIdQueue`.
    Ids,
    /// The smallest priority first; `queue-<sign><8 digits><number>`: Curator's `DistributedPriorityQueue`.
    Priority,
    /// By due time; `queue-|<milliseconds since 1970>|<number>`: Curator's `DistributedDelayQueue`. It needs
    /// synchronized clocks.
    Delay,
    /// The smallest priority from 0 to 999 first; `entry-<3 digits>-<number>` with plain bytes: Kazoo's
    /// `Queue`.
    Kazoo,
    /// The same names below `entries`, with locks below `taken`: Kazoo's `LockingQueue`.
    /// [`pop`](super::DistributedQueue::pop) skips items that another consumer has locked.
    KazooLocking,
}

/// The rank of an item by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemRank {
    /// A priority, or the milliseconds since 1970 when it is due.
    pub(super) key: i64,
    pub(super) sequence: i32,
}

/// Whether data is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemFormat {
    Plain,
    Framed,
}

impl QueueOrder {
    pub(super) const fn format(self) -> ItemFormat {
        match self {
            QueueOrder::Simple | QueueOrder::Kazoo | QueueOrder::KazooLocking => ItemFormat::Plain,
            QueueOrder::Fifo | QueueOrder::Ids | QueueOrder::Priority | QueueOrder::Delay => {
                ItemFormat::Framed
            }
        }
    }

    /// The default directories of the items and of their locks.
    pub(super) fn paths(self, path: &str) -> (String, String) {
        match self {
            QueueOrder::KazooLocking => (path::join(path, "entries"), path::join(path, "taken")),
            QueueOrder::Simple
            | QueueOrder::Fifo
            | QueueOrder::Ids
            | QueueOrder::Priority
            | QueueOrder::Delay
            | QueueOrder::Kazoo => (path.to_owned(), format!("{path}-locks")),
        }
    }

    /// Whether `pop` skips locked items.
    pub(super) const fn respects_locks(self) -> bool {
        matches!(self, QueueOrder::KazooLocking)
    }

    /// The name of an item without options, up to the counter.
    pub(super) fn plain_name(self) -> Result<String, RecipeError> {
        match self {
            QueueOrder::Simple => Ok("qn-".to_owned()),
            QueueOrder::Fifo => Ok("queue-".to_owned()),
            QueueOrder::Kazoo | QueueOrder::KazooLocking => self.priority_name(100),
            QueueOrder::Priority => self.priority_name(0),
            QueueOrder::Delay => self.due_name(SystemTime::now()),
            QueueOrder::Ids => Err(invalid("a queue with ids needs an id for every item")),
        }
    }

    pub(super) fn id_name(self, id: &str) -> Result<String, RecipeError> {
        match self {
            QueueOrder::Ids => Ok(format!("queue-|{}|", id.replace(['/', '|'], "_"))),
            _ => Err(invalid("only a queue with ids has ids")),
        }
    }

    pub(super) fn priority_name(self, priority: i32) -> Result<String, RecipeError> {
        match self {
            // Java's hexadecimal of a negative number would sort last; the digit before it corrects that.
            QueueOrder::Priority => {
                Ok(format!("queue-{}{:08X}", if priority >= 0 { '1' } else { '0' }, priority))
            }
            QueueOrder::Kazoo | QueueOrder::KazooLocking if (0..1000).contains(&priority) => {
                Ok(format!("entry-{priority:03}-"))
            }
            QueueOrder::Kazoo | QueueOrder::KazooLocking => {
                Err(invalid("a priority of Kazoo's lies between 0 and 999"))
            }
            _ => Err(invalid("only a priority queue has priorities")),
        }
    }

    pub(super) fn due_name(self, due: SystemTime) -> Result<String, RecipeError> {
        let millis = due.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
        match self {
            QueueOrder::Delay => Ok(format!("queue-|{millis:08X}|")),
            _ => Err(invalid("only a delay queue has delays")),
        }
    }

    /// Parses a name; `None` if it belongs to another layout.
    pub(super) fn rank(self, name: &str) -> Option<ItemRank> {
        let (key, counter) = match self {
            QueueOrder::Simple => (0, name.strip_prefix("qn-")?),
            QueueOrder::Fifo => (0, name.strip_prefix("queue-")?),
            QueueOrder::Ids => (0, name.strip_prefix("queue-|")?.rsplit_once('|')?.1),
            QueueOrder::Priority => {
                let rest = name.strip_prefix("queue-")?;
                let (digits, counter) = (rest.get(1..9)?, rest.get(9..)?);
                (i64::from(u32::from_str_radix(digits, 16).ok()?.cast_signed()), counter)
            }
            QueueOrder::Delay => {
                let (due, counter) = name.strip_prefix("queue-|")?.split_once('|')?;
                (i64::from_str_radix(due, 16).ok()?, counter)
            }
            QueueOrder::Kazoo | QueueOrder::KazooLocking => {
                let (priority, counter) = name.strip_prefix("entry-")?.split_once('-')?;
                (priority.parse().ok()?, counter)
            }
        };
        let sequence = counter.parse().ok().filter(|_| counter.len() >= 10)?;
        Some(ItemRank { key, sequence })
    }

    /// The id in a name.
    pub(super) fn id(self, name: &str) -> Option<&str> {
        match self {
            QueueOrder::Ids => Some(name.strip_prefix("queue-|")?.rsplit_once('|')?.0),
            _ => None,
        }
    }

    /// The time until an item is due.
    pub(super) fn remaining(self, rank: ItemRank, now: SystemTime) -> Duration {
        match self {
            QueueOrder::Delay => {
                let due = UNIX_EPOCH + Duration::from_millis(u64::try_from(rank.key).unwrap_or(0));
                due.duration_since(now).unwrap_or(Duration::ZERO)
            }
            _ => Duration::ZERO,
        }
    }
}

fn invalid(what: &str) -> RecipeError {
    RecipeError::Invalid(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_layouts() {
        assert_eq!(QueueOrder::Ids.id_name("a/b|c").expect("a name"), "queue-|a_b_c|");
        assert_eq!(QueueOrder::Ids.id("queue-|a_b_c|0000000001"), Some("a_b_c"));
        assert_eq!(QueueOrder::Priority.priority_name(5).expect("a name"), "queue-100000005");
        assert_eq!(QueueOrder::Priority.priority_name(-1).expect("a name"), "queue-0FFFFFFFF");
        assert_eq!(QueueOrder::Kazoo.priority_name(7).expect("a name"), "entry-007-");
        let due = UNIX_EPOCH + Duration::from_millis(0x18f_0000_0000);
        assert_eq!(QueueOrder::Delay.due_name(due).expect("a name"), "queue-|18F00000000|");
        assert!(QueueOrder::Kazoo.priority_name(1000).is_err());
        assert!(QueueOrder::Ids.plain_name().is_err());
        assert!(QueueOrder::Fifo.priority_name(1).is_err());
    }

    #[test]
    fn ranks_follow_priority_time_and_number() {
        let rank = |order: QueueOrder, name: &str| {
            let rank = order.rank(name).expect("a rank");
            (rank.key, rank.sequence)
        };
        let priority = |name| rank(QueueOrder::Priority, name);
        assert!(priority("queue-0FFFFFFFF0000000009") < priority("queue-1000000000000000001"));
        assert!(priority("queue-0800000000000000009") < priority("queue-0FFFFFFFF0000000001"));
        assert!(
            rank(QueueOrder::Delay, "queue-|FF|0000000002")
                < rank(QueueOrder::Delay, "queue-|100|0000000001")
        );
        assert!(
            rank(QueueOrder::Kazoo, "entry-005-0000000009") < rank(QueueOrder::Kazoo, "entry-100-0000000001")
        );
        for (order, name) in [
            (QueueOrder::Simple, "hello"),
            (QueueOrder::Simple, "qn-12"),
            (QueueOrder::Priority, "queue-1é"),
            (QueueOrder::Priority, "queue-0000000001"),
            (QueueOrder::Delay, "queue-|x|0000000001"),
            (QueueOrder::Ids, "queue-0000000001"),
            (QueueOrder::Kazoo, "entry-0000000001"),
        ] {
            assert_eq!(order.rank(name), None, "{name}");
        }
    }
}
