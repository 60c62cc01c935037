//! The servers that are healed in the second phase: enough for every quorum that may be needed, and some
//! others.

use std::collections::BTreeSet;

use super::World;
use crate::history::CallEnd;
use crate::members::{EnsembleConfig, VoteRight, proposed_config};
use crate::operation::Operation;

impl World {
    /// Servers with intact disks that form a quorum in every config that may be in effect, and some of the
    /// others. `None` if there are too few.
    pub(super) fn draw_healed(&mut self) -> Option<Vec<usize>> {
        let lists = self.lists_in_question();
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        self.random.shuffle(&mut order);
        // Servers that may have lost transactions do not count before they are synchronized.
        let doubtful = |server: usize| {
            let view = &self.core.checker.servers[server];
            view.rotten || view.untrusted
        };
        let any_list = self.is_change_on_its_way();
        let (doubtful, mut sound): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&it| doubtful(it));
        // These may still lose their vote.
        sound.sort_by_key(|&server| self.core.checker.servers[server].has_unaccepted_state());
        let mut healed = BTreeSet::new();
        let mut left = Vec::new();
        let counted: Vec<BTreeSet<usize>> = lists.iter().map(|list| self.counted(list, &lists)).collect();
        let decides = |index: usize, healed: &BTreeSet<usize>| {
            lists[index].is_quorum(&healed.intersection(&counted[index]).copied().collect())
        };
        // Without reconfig, the faults were drawn so that these are few.
        let (fixed, doubtful) = match self.core.parameters.members {
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
        // The servers that a quorum will need are unknown.
        if any_list && !doubtful.is_empty() {
            return None;
        }
        let chance = if any_list || self.random.permille(200) { 1000 } else { 400 };
        healed.extend(left.into_iter().chain(doubtful).filter(|_| self.random.permille(chance)));
        Some(healed.into_iter().collect())
    }

    /// Whether a reconfig may still reach the leader.
    fn is_change_on_its_way(&self) -> bool {
        let shape = &self.core.parameters;
        let since = self.core.now.saturating_sub(2 * (shape.init_limit + shape.sync_limit) * shape.tick());
        self.core.checker.calls.iter().any(|call| {
            // A client sends its pending calls as soon as it is connected, however late.
            let may_come = match call.end {
                None => true,
                Some(CallEnd::Failed) => call.at >= since,
                Some(CallEnd::Answered { .. }) => false,
            };
            matches!(*call.operation, Operation::Reconfig { .. }) && call.place.is_none() && may_come
        })
    }

    /// Voters of a config that can vote in it. A server that acts as an observer, because it does not know
    /// that config, acknowledges nothing.
    fn counted(&self, list: &EnsembleConfig, lists: &[EnsembleConfig]) -> BTreeSet<usize> {
        let observes = |server: usize| {
            let known = self.core.checker.servers[server].list_saved;
            let earlier = lists.iter().filter(|it| it.version < list.version && known < list.version);
            earlier
                .into_iter()
                .any(|it| it.servers.get(&server).is_some_and(|seat| seat.vote == VoteRight::Lacks))
        };
        list.voters().filter(|&server| !observes(server)).collect()
    }

    /// The current config, the one before it, which a server may still use, and every proposed config that is
    /// in a log.
    fn lists_in_question(&mut self) -> Vec<EnsembleConfig> {
        let checker = &self.core.checker;
        let configs = &checker.committed.configs;
        let last = configs.last();
        let mut lists = vec![last.clone()];
        if self.core.parameters.members.is_none() {
            return lists;
        }
        lists.push(configs.before(last.version).unwrap_or(configs.first()).clone());
        for view in &checker.servers {
            let behind = view.log.iter().rev().take_while(|(zxid, _)| *zxid > checker.committed.last());
            lists.extend(behind.filter_map(|(_, bytes)| proposed_config(bytes)));
        }
        lists.sort_by_key(|list| list.version);
        lists.dedup();
        lists
    }

    /// The healed servers that have to serve in the end: servers of the config that can find their peers. A
    /// server outside the config, or one that knows only servers that are gone, is not expected.
    pub(super) fn expected(&mut self) -> Vec<usize> {
        // A server that was elected twice and lost its quorum when it accepted the epoch returns with the
        // next election.
        let led = self.core.checker.leaders.last_key_value().map_or(0, |(epoch, _)| i64::from(*epoch));
        let checker = &self.core.checker;
        let is_ahead = |server: usize| checker.servers[server].accepted_epoch > led;
        if self.core.parameters.members.is_none() {
            let waits = |server: &usize| self.core.parameters.is_voter(*server) && is_ahead(*server);
            return self.healed.iter().copied().filter(|server| !waits(server)).collect();
        }
        let ahead: BTreeSet<usize> = self.healed.iter().copied().filter(|&server| is_ahead(server)).collect();
        let list = self.core.checker.committed.configs.last().clone();
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
