//! The appends and commands that the disk has not finished. The disk works in order, so one id tells how far
//! it is.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::event::IoId;

/// The queue of the disk.
#[derive(Debug)]
pub(crate) struct DiskQueue {
    last: IoId,
    done: IoId,
    /// Unfinished appends and commands, each with its submission time in milliseconds.
    pending: VecDeque<(IoId, i64)>,
    /// Unfinished appends.
    appends: VecDeque<(IoId, Zxid)>,
    /// The last transaction that was submitted to the log.
    log_end: Zxid,
    /// The last durable transaction of the log.
    durable: Zxid,
}

impl DiskQueue {
    pub(crate) fn new(durable: Zxid) -> DiskQueue {
        let (pending, appends) = (VecDeque::new(), VecDeque::new());
        DiskQueue { last: IoId(0), done: IoId(0), pending, appends, log_end: durable, durable }
    }

    /// Submits a command; returns its id.
    pub(crate) fn submit(&mut self, now_ms: i64) -> IoId {
        self.last = IoId(self.last.0 + 1);
        self.pending.push_back((self.last, now_ms));
        self.last
    }

    /// Submits an append; returns its id.
    pub(crate) fn append(&mut self, zxid: Zxid, now_ms: i64) -> IoId {
        let io = self.submit(now_ms);
        self.appends.push_back((io, zxid));
        self.log_end = zxid;
        io
    }

    /// The disk has finished this append or command and all earlier ones.
    pub(crate) fn mark_persisted(&mut self, io: IoId) {
        assert!(io <= self.last, "the disk finished {io:?}, which was never submitted");
        self.done = self.done.max(io);
        while self.pending.front().is_some_and(|(submitted, _)| *submitted <= io) {
            self.pending.pop_front();
        }
        while let Some(&(append, zxid)) = self.appends.front()
            && append <= io
        {
            self.appends.pop_front();
            self.durable = zxid;
        }
    }

    /// The log was truncated or replaced, and ends here now.
    pub(crate) fn reset_log_end(&mut self, zxid: Zxid) {
        assert!(self.appends.is_empty(), "the log changes only while no append is pending");
        self.durable = zxid;
        self.log_end = zxid;
    }

    /// The last transaction that was submitted to the log, durable or not.
    pub(crate) fn log_end(&self) -> Zxid {
        self.log_end
    }

    /// The id of the last append or command.
    pub(crate) fn last_submitted(&self) -> IoId {
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

    /// When the oldest unfinished append or command was submitted.
    pub(crate) fn busy_since_ms(&self) -> Option<i64> {
        self.pending.front().map(|(_, since_ms)| *since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_follows_the_appends() {
        let mut queue = DiskQueue::new(Zxid(5));
        let first = queue.append(Zxid(6), 10);
        let epoch = queue.submit(11);
        let second = queue.append(Zxid(7), 12);
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(5), Some(10)));
        queue.mark_persisted(epoch);
        assert!(queue.has_done(first) && !queue.is_idle());
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(6), Some(12)));
        queue.mark_persisted(second);
        assert!(queue.is_idle());
        assert_eq!((queue.durable(), queue.busy_since_ms()), (Zxid(7), None));
    }

    #[test]
    #[should_panic(expected = "was never submitted")]
    fn work_that_was_never_ordered_is_a_broken_executor() {
        DiskQueue::new(Zxid(5)).mark_persisted(IoId(1));
    }
}
