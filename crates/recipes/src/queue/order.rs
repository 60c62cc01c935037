//! In which order items leave a queue, and the names that say it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zebu_client::path;

use crate::error::RecipeError;

/// The order of a queue, its layout, and with whom it is shared. Everybody must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First in, first out; `qn-<number>` with bytes as they are: Curator's `SimpleDistributedQueue`,
    /// ZooKeeper's `DistributedQueue`.
    Simple,
    /// First in, first out; `queue-<number>` in frames: Curator's `DistributedQueue`.
    Fifo,
    /// First in, first out, and items can be removed by id; `queue-|id|<number>`: Curator's
    /// `DistributedIdQueue`.
    Ids,
    /// The smallest priority first; `queue-<sign><8 digits><number>`: Curator's `DistributedPriorityQueue`.
    Priority,
    /// When its time has come; `queue-|<milliseconds since 1970>|<number>`: Curator's
    /// `DistributedDelayQueue`. Needs clocks that agree.
    Delay,
    /// The smallest priority from 0 to 999 first; `entry-<3 digits>-<number>` with bytes as they are: Kazoo's
    /// `Queue`.
    Kazoo,
    /// The same names below `entries`, with locks below `taken`: Kazoo's `LockingQueue`. Items that another
    /// consumer has locked are not taken by [`pop`](super::Queue::pop) either.
    KazooLocking,
}

/// What a name says: when it may leave, what comes before what, and the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    /// A priority, or the milliseconds since 1970 when it is due.
    pub(super) class: i64,
    pub(super) sequence: i32,
}

/// Whether data is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Framed,
}

impl QueueOrder {
    pub(super) const fn form(self) -> Form {
        match self {
            QueueOrder::Simple | QueueOrder::Kazoo | QueueOrder::KazooLocking => Form::Plain,
            QueueOrder::Fifo | QueueOrder::Ids | QueueOrder::Priority | QueueOrder::Delay => Form::Framed,
        }
    }

    /// Where the items of a queue at this path are, and where their locks are unless told otherwise.
    pub(super) fn places(self, path: &str) -> (String, String) {
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

    /// Whether items that are locked stay where they are when others are taken for good.
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
            // Java's hexadecimal of a negative number, which sorts behind: the sign before it mends that.
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

    /// Reads a name; `None` if it is none of this queue's.
    pub(super) fn rank(self, name: &str) -> Option<Rank> {
        let (class, counter) = match self {
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
        Some(Rank { class, sequence })
    }

    /// The id in a name.
    pub(super) fn id(self, name: &str) -> Option<&str> {
        match self {
            QueueOrder::Ids => Some(name.strip_prefix("queue-|")?.rsplit_once('|')?.0),
            _ => None,
        }
    }

    /// How long an item still has to stay.
    pub(super) fn remaining(self, rank: Rank, now: SystemTime) -> Duration {
        match self {
            QueueOrder::Delay => {
                let due = UNIX_EPOCH + Duration::from_millis(u64::try_from(rank.class).unwrap_or(0));
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
            (rank.class, rank.sequence)
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
