//! Who is left alone in the second phase: enough of everybody who may have to decide, and some others.

use std::collections::BTreeSet;

use super::World;
use crate::history::End;
use crate::members::{List, Vote, proposed_list};
use crate::operation::Operation;

impl World {
    /// Servers whose disks are right, so many that they may decide in every list that may be in effect, and some of the
    /// others. `None` if there are not so many.
    pub(super) fn draw_healed(&mut self) -> Option<Vec<usize>> {
        let lists = self.lists_in_question();
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        self.random.shuffle(&mut order);
        // Those that may have forgotten something do not count before they were brought up to date.
        let doubtful = |server: usize| {
            let view = &self.core.judge.servers[server];
            view.rotten || view.untrusted
        };
        let any_list = self.is_change_on_its_way();
        let (doubtful, mut sound): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&it| doubtful(it));
        // These may lose their voice yet.
        sound.sort_by_key(|&server| self.core.judge.servers[server].has_unaccepted_state());
        let mut healed = BTreeSet::new();
        let mut left = Vec::new();
        let counted: Vec<BTreeSet<usize>> = lists.iter().map(|list| self.counted(list, &lists)).collect();
        let decides = |index: usize, healed: &BTreeSet<usize>| {
            lists[index].is_quorum(&healed.intersection(&counted[index]).copied().collect())
        };
        // Where members do not change, the faults were drawn so that these are few.
        let (fixed, doubtful) = match self.core.shape.members {
            None => (doubtful, Vec::new()),
            Some(_) => (Vec::new(), doubtful),
        };
        for server in sound.into_iter().chain(fixed) {
            let helps = |index: usize| counted[index].contains(&server) && !decides(index, &healed);
            if (0..lists.len()).any(helps) {
                healed.insert(server);
            } else {
                left.push(server);
            }
        }
        if !(0..lists.len()).all(|index| decides(index, &healed)) {
            return None;
        }
        // Nobody knows yet who will be needed.
        if any_list && !doubtful.is_empty() {
            return None;
        }
        let chance = if any_list || self.random.permille(200) { 1000 } else { 400 };
        healed.extend(left.into_iter().chain(doubtful).filter(|_| self.random.permille(chance)));
        Some(healed.into_iter().collect())
    }

    /// Whether a request for other members may still reach the leader.
    fn is_change_on_its_way(&self) -> bool {
        let shape = &self.core.shape;
        let since = self.core.now.saturating_sub(2 * (shape.init_limit + shape.sync_limit) * shape.tick());
        self.core.judge.calls.iter().any(|call| {
            // A client sends what was asked of it as soon as it is connected, however late.
            let may_come = match call.end {
                None => true,
                Some(End::Failed) => call.at >= since,
                Some(End::Answered { .. }) => false,
            };
            matches!(*call.operation, Operation::Reconfig { .. }) && call.place.is_none() && may_come
        })
    }

    /// Voters of a list who can have a say in it: who takes itself for an observer, because it has not heard of that
    /// list, acknowledges nothing.
    fn counted(&self, list: &List, lists: &[List]) -> BTreeSet<usize> {
        let observes = |server: usize| {
            let known = self.core.judge.servers[server].list_saved;
            let earlier = lists.iter().filter(|it| it.version < list.version && known < list.version);
            earlier.into_iter().any(|it| it.seats.get(&server).is_some_and(|seat| seat.vote == Vote::Lacks))
        };
        list.voters().filter(|&server| !observes(server)).collect()
    }

    /// The list of now and the one before it, which somebody may still take for the present one, and everything that
    /// was proposed and is in a log.
    fn lists_in_question(&mut self) -> Vec<List> {
        let judge = &self.core.judge;
        let chronicle = &judge.ledger.chronicle;
        let last = chronicle.last();
        let mut lists = vec![last.clone()];
        if self.core.shape.members.is_none() {
            return lists;
        }
        lists.push(chronicle.before(last.version).unwrap_or(chronicle.first()).clone());
        for view in &judge.servers {
            let behind = view.log.iter().rev().take_while(|(zxid, _)| *zxid > judge.ledger.last());
            lists.extend(behind.filter_map(|(_, bytes)| proposed_list(bytes)));
        }
        lists.sort_by_key(|list| list.version);
        lists.dedup();
        lists
    }

    /// Of those that are left alone, the ones that have to serve in the end: members who can find the others. Nobody
    /// comes for who has lost his place, or knows only servers that are gone.
    pub(super) fn expected(&mut self) -> Vec<usize> {
        // Who was elected twice and lost everybody at the moment of its promise comes back with the next election.
        let led = self.core.judge.leaders.last_key_value().map_or(0, |(epoch, _)| i64::from(*epoch));
        let judge = &self.core.judge;
        let is_ahead = |server: usize| judge.servers[server].accepted_epoch > led;
        if self.core.shape.members.is_none() {
            let waits = |server: &usize| self.core.shape.is_voter(*server) && is_ahead(*server);
            return self.healed.iter().copied().filter(|server| !waits(server)).collect();
        }
        let ahead: BTreeSet<usize> = self.healed.iter().copied().filter(|&server| is_ahead(server)).collect();
        let list = self.core.judge.ledger.chronicle.last().clone();
        let voters: BTreeSet<usize> = list.voters().filter(|it| self.healed.contains(it)).collect();
        let mut expected = Vec::new();
        for &server in &self.healed {
            let known = self.servers[server].process().map(|process| process.known_members());
            let finds = known.is_none_or(|known| known.iter().any(|it| *it != server && voters.contains(it)));
            if !ahead.contains(&server) && (finds || voters.contains(&server) && voters.len() == 1) {
                expected.push(server);
            }
        }
        expected
    }
}
