//! The work that the disk was given and has not finished. It is done in order, so one number says it all.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::event::IoId;

/// Orders to the disk.
#[derive(Debug)]
pub(crate) struct DiskQueue {
    last: IoId,
    done: IoId,
    /// When each unfinished order was given.
    given: VecDeque<(IoId, i64)>,
    /// Unfinished appends.
    appends: VecDeque<(IoId, Zxid)>,
    /// The last transaction that the log was given.
    end: Zxid,
    /// The last transaction of the log that is durable.
    durable: Zxid,
}

impl DiskQueue {
    pub(crate) fn new(durable: Zxid) -> DiskQueue {
        let (given, appends) = (VecDeque::new(), VecDeque::new());
        DiskQueue { last: IoId(0), done: IoId(0), given, appends, end: durable, durable }
    }

    /// The number of an order that is given now.
    pub(crate) fn order(&mut self, now_ms: i64) -> IoId {
        self.last = IoId(self.last.0 + 1);
        self.given.push_back((self.last, now_ms));
        self.last
    }

    /// The number of an append that is given now.
    pub(crate) fn append(&mut self, zxid: Zxid, now_ms: i64) -> IoId {
        let io = self.order(now_ms);
        self.appends.push_back((io, zxid));
        self.end = zxid;
        io
    }

    /// The disk has done this and all before it.
    pub(crate) fn persisted(&mut self, io: IoId) {
        assert!(io <= self.last, "the disk did {io:?}, which nobody asked for");
        self.done = self.done.max(io);
        while self.given.front().is_some_and(|(given, _)| *given <= io) {
            self.given.pop_front();
        }
        while let Some(&(append, zxid)) = self.appends.front()
            && append <= io
        {
            self.appends.pop_front();
            self.durable = zxid;
        }
    }

    /// The log was cut or replaced; it ends here now.
    pub(crate) fn log_ends_at(&mut self, zxid: Zxid) {
        assert!(self.appends.is_empty(), "a log is cut only when nothing is being appended");
        self.durable = zxid;
        self.end = zxid;
    }

    /// The last transaction that the log was given, durable or not.
    pub(crate) fn end(&self) -> Zxid {
        self.end
    }

    /// The last order that was given.
    pub(crate) fn last_order(&self) -> IoId {
        self.last
    }

    pub(crate) fn durable(&self) -> Zxid {
        self.durable
    }

    pub(crate) fn has_done(&self, io: IoId) -> bool {
        io <= self.done
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.last
    }

    /// Since when the disk has not finished its oldest order.
    pub(crate) fn busy_since_ms(&self) -> Option<i64> {
        self.given.front().map(|(_, since_ms)| *since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_follows_the_appends() {
        let mut queue = DiskQueue::new(Zxid(5));
        let first = queue.append(Zxid(6), 10);
        let epoch = queue.order(11);
        let second = queue.append(Zxid(7), 12);
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(5), Some(10)));
        queue.persisted(epoch);
        assert!(queue.has_done(first) && !queue.is_idle());
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(6), Some(12)));
        queue.persisted(second);
        assert!(queue.is_idle());
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(7), None));
    }

    #[test]
    #[should_panic(expected = "nobody asked for")]
    fn work_that_was_never_ordered_is_a_broken_executor() {
        DiskQueue::new(Zxid(5)).persisted(IoId(1));
    }
}
