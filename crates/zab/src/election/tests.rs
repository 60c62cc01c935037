//! Elections among electors that talk through a network of queues, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

mod changing;
mod yielding;

const CONFIG: &str = "version=0";

fn settings(me: i64, role: Role, voters: &[i64]) -> ElectorSettings {
    ElectorSettings {
        me: ServerId(me),
        role,
        quorum: QuorumRule::majority(voters.iter().copied().map(ServerId)),
        pending_quorum: None,
        membership_mode: MembershipMode::Static,
        observers: BTreeSet::new(),
        config: CONFIG.into(),
        resend_ms_min: 200,
        resend_ms_max: 60_000,
        finalize_ms: 200,
    }
}

fn logged_state(zxid: i64, epoch: i64) -> LoggedState {
    LoggedState { last_zxid: Zxid(zxid), current_epoch: epoch, candidacy: Candidacy::Normal }
}

/// A network that delivers every message after its own delay, in order per connection.
struct World {
    now_ms: i64,
    electors: BTreeMap<ServerId, Elector>,
    links: BTreeMap<(ServerId, ServerId), VecDeque<(i64, Notification)>>,
    decisions: BTreeMap<ServerId, ElectionResult>,
    cut: BTreeSet<ServerId>,
    delays: Vec<i64>,
    sent: usize,
}

impl World {
    fn new(delays: Vec<i64>) -> World {
        World {
            now_ms: 0,
            electors: BTreeMap::new(),
            links: BTreeMap::new(),
            decisions: BTreeMap::new(),
            cut: BTreeSet::new(),
            delays,
            sent: 0,
        }
    }

    fn add(&mut self, settings: ElectorSettings, logged_state: LoggedState) {
        let me = settings.me;
        let mut out = Vec::new();
        let elector = Elector::new(settings, logged_state, self.now_ms, &mut out);
        self.electors.insert(me, elector);
        self.act(me, out);
    }

    fn act(&mut self, from: ServerId, actions: Vec<ElectionEffect>) {
        for action in actions {
            match action {
                ElectionEffect::Send { to, notification } => {
                    let delay = self.delays[self.sent % self.delays.len()];
                    self.sent += 1;
                    let queue = self.links.entry((from, to)).or_default();
                    let not_before = queue.back().map_or(0, |(at_ms, _)| *at_ms);
                    queue.push_back(((self.now_ms + delay).max(not_before), notification));
                }
                ElectionEffect::Elected(decision) => {
                    self.decisions.insert(from, decision);
                }
            }
        }
    }

    /// Runs until no event is left, or for ten minutes.
    fn run(&mut self) {
        self.run_for(600_000);
    }

    fn run_for(&mut self, duration_ms: i64) {
        let end_ms = self.now_ms + duration_ms;
        while let Some(at_ms) = self.next_event().filter(|&at_ms| at_ms <= end_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.deliver();
            let due: Vec<ServerId> = self.electors.keys().copied().collect();
            for me in due {
                let elector = self.electors.get_mut(&me).unwrap();
                if elector.next_deadline().is_some_and(|at_ms| at_ms <= self.now_ms) {
                    let mut out = Vec::new();
                    elector.timeout(self.now_ms, &mut out);
                    self.act(me, out);
                }
            }
        }
    }

    fn next_event(&self) -> Option<i64> {
        let deliveries = self.links.values().filter_map(|queue| queue.front().map(|(at_ms, _)| *at_ms));
        let undecided = self.electors.values().any(|elector| elector.state() == ServerState::Looking);
        let deadlines = self.electors.values().filter_map(Elector::next_deadline).filter(|_| undecided);
        deliveries.chain(deadlines).min()
    }

    fn deliver(&mut self) {
        let links: Vec<_> = self.links.keys().copied().collect();
        for (from, to) in links {
            while let Some((at_ms, _)) = self.links[&(from, to)].front() {
                if *at_ms > self.now_ms {
                    break;
                }
                let (_, notification) = self.links.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                let reachable = !self.cut.contains(&from) && !self.cut.contains(&to);
                if let Some(elector) = self.electors.get_mut(&to).filter(|_| reachable) {
                    let mut out = Vec::new();
                    elector.handle_notification(from, &notification, self.now_ms, &mut out);
                    self.act(to, out);
                }
            }
        }
    }

    fn leader_of(&self, server: i64) -> Option<(i64, ServerState)> {
        self.decisions.get(&ServerId(server)).map(|decision| (decision.leader.0, decision.state))
    }
}

#[test]
fn three_empty_servers_elect_the_largest_id() {
    let mut world = World::new(vec![3, 1, 7]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(0, 0));
    }
    world.run();
    assert_eq!(world.leader_of(1), Some((3, ServerState::Following)));
    assert_eq!(world.leader_of(2), Some((3, ServerState::Following)));
    assert_eq!(world.leader_of(3), Some((3, ServerState::Leading)));
}

#[test]
fn a_single_voter_elects_itself() {
    let mut world = World::new(vec![1]);
    world.add(settings(5, Role::Participant, &[5]), logged_state(7, 1));
    world.run();
    assert_eq!(world.leader_of(5), Some((5, ServerState::Leading)));
}

#[test]
fn without_a_quorum_nobody_leads() {
    let mut world = World::new(vec![1]);
    for me in 1..=2 {
        world.add(settings(me, Role::Participant, &[1, 2, 3, 4]), logged_state(0, 0));
    }
    world.run();
    assert_eq!(world.decisions.len(), 0);
}

#[test]
fn a_server_that_comes_back_finds_the_leader_even_with_a_better_id() {
    let mut world = World::new(vec![2]);
    for me in [1, 2] {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(0x1_0000_0005, 1));
    }
    world.run();
    assert_eq!(world.leader_of(1), Some((2, ServerState::Following)));
    for me in [1, 2] {
        world.electors.get_mut(&ServerId(me)).unwrap().set_established_epoch(2);
    }
    world.add(settings(3, Role::Participant, &[1, 2, 3]), logged_state(0x1_0000_0005, 1));
    world.run();
    assert_eq!(world.leader_of(3), Some((2, ServerState::Following)));
}

/// By then the first server sends its vote only once a minute.
#[test]
fn a_member_that_comes_late_is_not_kept_waiting() {
    for late in [1, 3] {
        let mut world = World::new(vec![2]);
        world.add(settings(2, Role::Participant, &[1, 2, 3]), logged_state(5, 1));
        world.run();
        world.now_ms = 600_000;
        world.add(settings(late, Role::Participant, &[1, 2, 3]), logged_state(5, 1));
        world.run();
        assert_eq!(world.decisions.len(), 2);
        assert!(world.now_ms - 600_000 < 250, "{late} waited {} ms", world.now_ms - 600_000);
    }
}

#[test]
fn observers_learn_the_leader_and_are_never_elected() {
    let mut world = World::new(vec![2, 5]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(0, 0));
    }
    world.add(settings(9, Role::Observer, &[1, 2, 3]), logged_state(0x7_0000_0000, 7));
    world.run();
    assert_eq!(world.leader_of(9), Some((3, ServerState::Observing)));
    assert_eq!(world.leader_of(1), Some((3, ServerState::Following)));
}

#[test]
fn a_server_without_trusted_data_does_not_vote_but_joins() {
    let mut world = World::new(vec![2]);
    world.add(settings(3, Role::Participant, &[1, 2, 3]), logged_state(-1, 0));
    world.add(settings(1, Role::Participant, &[1, 2, 3]), logged_state(0x1_0000_0001, 1));
    world.run();
    assert_eq!(world.decisions.len(), 0, "one voice is no quorum of three");
    world.add(settings(2, Role::Participant, &[1, 2, 3]), logged_state(0x1_0000_0000, 1));
    world.run();
    assert_eq!(world.leader_of(1), Some((1, ServerState::Leading)));
    assert_eq!(world.leader_of(3), Some((1, ServerState::Following)));
}

/// The followers of a leader that lost its data and restarted before they noticed still name it.
#[test]
fn a_server_without_trusted_data_does_not_lead_because_others_follow_it() {
    for (zxid, leads) in [(0x1_0000_0001, true), (-1, false)] {
        let mut out = Vec::new();
        let mut elector =
            Elector::new(settings(3, Role::Participant, &[1, 2, 3]), logged_state(zxid, 1), 0, &mut out);
        for from in [1, 2] {
            let following = Notification {
                state: ServerState::Following,
                leader: ServerId(3),
                zxid: Zxid(0x1_0000_0001),
                round: 1,
                epoch: 1,
                version: NotificationVersion::V2,
                config: None,
            };
            elector.handle_notification(ServerId(from), &following, 1, &mut out);
        }
        assert_eq!(elector.state() == ServerState::Leading, leads);
    }
}

#[test]
fn when_the_leader_dies_the_others_look_in_a_later_round() {
    let mut world = World::new(vec![2]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(5, 0));
    }
    world.run();
    world.cut.insert(ServerId(3));
    world.electors.remove(&ServerId(3));
    world.decisions.clear();
    for (me, zxid) in [(1, 0x1_0000_0009), (2, 0x1_0000_0004)] {
        let mut out = Vec::new();
        let elector = world.electors.get_mut(&ServerId(me)).unwrap();
        elector.look_for_leader(logged_state(zxid, 1), None, world.now_ms, &mut out);
        world.act(ServerId(me), out);
    }
    world.run();
    assert_eq!(world.leader_of(1), Some((1, ServerState::Leading)), "the longer history wins over the id");
    assert_eq!(world.leader_of(2), Some((1, ServerState::Following)));
}

/// Makes the first two of three servers look again, with the third as the lost leader.
fn world_without_leader(lost: Option<ServerId>) -> World {
    let mut world = World::new(vec![2]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(5, 0));
    }
    world.run();
    world.electors.remove(&ServerId(3));
    world.decisions.clear();
    world.now_ms = 10_000;
    for me in [1, 2] {
        let mut out = Vec::new();
        let elector = world.electors.get_mut(&ServerId(me)).unwrap();
        elector.look_for_leader(logged_state(5, 0), lost, world.now_ms, &mut out);
        world.act(ServerId(me), out);
    }
    world
}

#[test]
fn when_all_have_voted_alike_nobody_is_waited_for() {
    let mut world = World::new(vec![2]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(5, 0));
    }
    world.run();
    assert_eq!(world.decisions.len(), 3);
    assert!(world.now_ms < 20, "decided after {} ms", world.now_ms);
}

#[test]
fn a_lost_leader_is_not_waited_for() {
    for (lost, took_ms) in [(Some(ServerId(3)), 0..20), (None, 200..220)] {
        let mut world = world_without_leader(lost);
        world.run();
        assert_eq!(world.leader_of(1), Some((2, ServerState::Following)));
        assert_eq!(world.leader_of(2), Some((2, ServerState::Leading)));
        assert!(took_ms.contains(&(world.now_ms - 10_000)), "{lost:?} decided at {}", world.now_ms);
    }
}

/// The first vote of the better candidate arrived while the other server still had a leader.
#[test]
fn who_begins_to_look_later_hears_of_the_better_candidate_at_once() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(2, Role::Participant, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    out.clear();
    let own = settings(1, Role::Participant, &[1, 2, 3]);
    let worse = ElectionVote { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
    elector.handle_notification(
        ServerId(1),
        &notification(&own, ServerState::Looking, worse, 1),
        1,
        &mut out,
    );
    let better = ElectionVote { leader: ServerId(2), zxid: Zxid(5), epoch: 1 };
    let answer = notification(&own, ServerState::Looking, better, 1);
    assert_eq!(out, [ElectionEffect::Send { to: ServerId(1), notification: answer.clone() }]);
    out.clear();
    elector.handle_notification(ServerId(1), &answer, 2, &mut out);
    assert_eq!(out, [], "who says the same needs no answer");
}

/// Otherwise the candidate that holds its vote would wait for it as a leader.
#[test]
fn who_finds_a_leader_tells_those_who_have_its_vote() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(1, Role::Participant, &[1, 2, 3, 4, 5]), logged_state(5, 1), 0, &mut out);
    let other = settings(9, Role::Participant, &[1, 2, 3, 4, 5]);
    let better = ElectionVote { leader: ServerId(2), zxid: Zxid(5), epoch: 1 };
    elector.handle_notification(
        ServerId(2),
        &notification(&other, ServerState::Looking, better, 1),
        1,
        &mut out,
    );
    let found = ElectionVote { leader: ServerId(5), zxid: Zxid(5), epoch: 1 };
    for (from, state) in [(3, ServerState::Following), (4, ServerState::Following), (5, ServerState::Leading)]
    {
        out.clear();
        elector.handle_notification(ServerId(from), &notification(&other, state, found, 7), 2, &mut out);
    }
    let told = notification(&other, ServerState::Following, found, 7);
    assert_eq!(
        out,
        [
            ElectionEffect::Elected(ElectionResult {
                leader: ServerId(5),
                state: ServerState::Following,
                established_epoch: Some(1)
            }),
            ElectionEffect::Send { to: ServerId(2), notification: told },
        ]
    );
}

/// It may have the longest history, and the others may not have received its vote yet.
#[test]
fn a_lost_leader_that_votes_is_waited_for_again() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(1, Role::Participant, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    elector.look_for_leader(logged_state(5, 1), Some(ServerId(3)), 0, &mut out);
    let own = settings(9, Role::Participant, &[1, 2, 3]);
    let better = ElectionVote { leader: ServerId(3), zxid: Zxid(9), epoch: 1 };
    elector.handle_notification(
        ServerId(3),
        &notification(&own, ServerState::Looking, better, 2),
        1,
        &mut out,
    );
    assert_eq!(elector.next_deadline(), Some(201), "the second has not been heard");
    elector.handle_notification(
        ServerId(2),
        &notification(&own, ServerState::Looking, better, 2),
        5,
        &mut out,
    );
    assert_eq!(elector.next_deadline(), Some(5));
}

/// A server with a leader repeats its vote for every LOOKING server, and adopts no better vote.
#[test]
fn settled_servers_answer_and_stay() {
    let mut out = Vec::new();
    let mut elector = Elector::new(settings(1, Role::Participant, &[1]), logged_state(5, 1), 0, &mut out);
    elector.timeout(200, &mut out);
    assert_eq!(elector.state(), ServerState::Leading);
    out.clear();
    let better = Notification {
        state: ServerState::Looking,
        leader: ServerId(1),
        zxid: Zxid(i64::MAX),
        round: 99,
        epoch: 99,
        version: NotificationVersion::V2,
        config: None,
    };
    elector.handle_notification(ServerId(1), &better, 300, &mut out);
    assert_eq!(elector.round(), 1);
    let Some(ElectionEffect::Send { to, notification }) = out.pop() else { panic!("an answer") };
    assert_eq!((to, notification.state, notification.round), (ServerId(1), ServerState::Leading, 1));
    elector.handle_notification(ServerId(77), &better, 300, &mut out);
    assert!(
        matches!(out.pop(), Some(ElectionEffect::Send { to: ServerId(77), .. })),
        "strangers are answered too"
    );
}

/// Each of them would reply to the other for ever.
#[test]
fn an_observer_that_has_a_leader_is_not_answered() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(1, Role::Participant, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    out.clear();
    let vote = ElectionVote { leader: ServerId(3), zxid: Zxid(5), epoch: 1 };
    let own = settings(9, Role::Observer, &[1, 2, 3]);
    elector.handle_notification(
        ServerId(9),
        &notification(&own, ServerState::Observing, vote, 1),
        10,
        &mut out,
    );
    assert_eq!(out, []);
    elector.handle_notification(
        ServerId(9),
        &notification(&own, ServerState::Looking, vote, 1),
        10,
        &mut out,
    );
    assert_eq!(out.len(), 1);
}

/// A voter replies to LOOKING servers without a vote. If those replied because their round is later, the
/// exchange would never end.
#[test]
fn a_server_without_a_vote_is_asked_once() {
    let mut out = Vec::new();
    let mut elector = Elector::new(settings(9, Role::Observer, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    for _ in 0..3 {
        elector.look_for_leader(logged_state(5, 1), None, 0, &mut out);
    }
    assert_eq!(elector.round(), 4);
    let vote = ElectionVote { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
    let voter = settings(1, Role::Participant, &[1, 2, 3]);
    let mut said = |elector: &mut Elector| {
        out.clear();
        elector.handle_notification(
            ServerId(1),
            &notification(&voter, ServerState::Looking, vote, 1),
            10,
            &mut out,
        );
        out.len()
    };
    assert_eq!(said(&mut elector), 3, "it joins the voters' round and says so to all of them");
    assert_eq!((elector.round(), said(&mut elector)), (1, 0));
}

#[test]
fn votes_for_strangers_are_not_counted() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(1, Role::Participant, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    out.clear();
    let vote = |leader: i64, round: i64| Notification {
        state: ServerState::Looking,
        leader: ServerId(leader),
        zxid: Zxid(i64::MAX),
        round,
        epoch: i64::MAX,
        version: NotificationVersion::V2,
        config: None,
    };
    elector.handle_notification(ServerId(2), &vote(99, 1000), 1, &mut out);
    assert_eq!((elector.round(), out.len()), (1, 0), "the round is not raised by it either");
    elector.handle_notification(ServerId(2), &vote(2, 3), 1, &mut out);
    assert_eq!(elector.round(), 3);
}

#[test]
fn votes_are_sent_again_and_ever_more_rarely() {
    let mut out = Vec::new();
    let mut elector =
        Elector::new(settings(1, Role::Participant, &[1, 2, 3]), logged_state(5, 1), 0, &mut out);
    let mut at_ms = Vec::new();
    for _ in 0..12 {
        let deadline_ms = elector.next_deadline().unwrap();
        out.clear();
        elector.timeout(deadline_ms, &mut out);
        assert_eq!(out.len(), 2);
        at_ms.push(deadline_ms);
    }
    let gaps: Vec<i64> = at_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..4], [400, 800, 1600, 3200]);
    assert_eq!(gaps.last(), Some(&60_000));
}

proptest! {
    /// If the network is faster than the finalize timeout, all servers elect the best candidate.
    #[test]
    fn the_best_candidate_wins(
        standings in proptest::collection::vec((0i64..4, 0i64..3), 1..=7),
        delays in proptest::collection::vec(0i64..90, 1..40),
        starts in proptest::collection::vec(0i64..150, 7),
    ) {
        let voters: Vec<i64> = (1..=standings.len() as i64).collect();
        let mut world = World::new(delays);
        let mut order: Vec<usize> = (0..standings.len()).collect();
        order.sort_by_key(|&index| starts[index]);
        // All of them start before the finalize timeout of the first one expires.
        for index in order {
            let (zxid, epoch) = standings[index];
            world.add(settings(voters[index], Role::Participant, &voters), logged_state(zxid, epoch));
        }
        world.run();
        let best = voters.iter().zip(&standings).max_by_key(|(id, (zxid, epoch))| (*epoch, *zxid, **id));
        let best = *best.unwrap().0;
        for voter in &voters {
            let state = if *voter == best { ServerState::Leading } else { ServerState::Following };
            prop_assert_eq!(world.leader_of(*voter), Some((best, state)));
        }
    }
}

/// The largest round has no successor. After any sender used it, the next election must still find a leader.
#[test]
fn the_round_behind_the_largest_one_is_the_first() {
    let mut world = World::new(vec![3, 1, 7]);
    for me in 1..=3 {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(5, 1));
    }
    let largest = Notification {
        state: ServerState::Looking,
        leader: ServerId(2),
        zxid: Zxid(5),
        round: i64::MAX,
        epoch: 1,
        version: NotificationVersion::V2,
        config: None,
    };
    let mut out = Vec::new();
    world.electors.get_mut(&ServerId(1)).unwrap().handle_notification(ServerId(2), &largest, 0, &mut out);
    world.act(ServerId(1), out);
    world.run();
    assert_eq!(world.leader_of(3), Some((3, ServerState::Leading)));
    assert!(world.electors.values().all(|elector| elector.round() == i64::MAX));

    world.cut.insert(ServerId(3));
    for me in [1, 2] {
        let now_ms = world.now_ms;
        let mut out = Vec::new();
        let elector = world.electors.get_mut(&ServerId(me)).unwrap();
        elector.look_for_leader(logged_state(5, 1), Some(ServerId(3)), now_ms, &mut out);
        assert_eq!(elector.round(), 1);
        world.act(ServerId(me), out);
        // One of them starts to look only after the other has waited for a while.
        world.run_for(1_000);
    }
    world.run();
    assert_eq!(world.leader_of(1), Some((2, ServerState::Following)));
    assert_eq!(world.leader_of(2), Some((2, ServerState::Leading)));
}

/// Rounds that no correct server has: they cost at most this election, and no server panics.
#[test]
fn numbers_out_of_range_in_a_notification_stop_no_server() {
    let numbers = [i64::MIN, -1, 0, i64::MAX];
    for state in [ServerState::Looking, ServerState::Following, ServerState::Leading, ServerState::Observing]
    {
        for choice in 0..numbers.len().pow(3) {
            let [round, epoch, zxid] = [1, 4, 16].map(|place| numbers[choice / place % numbers.len()]);
            for from in [2, 9] {
                let mut out = Vec::new();
                let own = settings(1, Role::Participant, &[1, 2, 3]);
                let mut elector = Elector::new(own, logged_state(5, 1), 0, &mut out);
                let message = Notification {
                    state,
                    leader: ServerId(2),
                    zxid: Zxid(zxid),
                    round,
                    epoch,
                    version: NotificationVersion::V2,
                    config: None,
                };
                elector.handle_notification(ServerId(from), &message, 1, &mut out);
                elector.timeout(1_000, &mut out);
                elector.look_for_leader(logged_state(5, 1), None, 2_000, &mut out);
                assert!(elector.round() >= 1, "{message:?}");
            }
        }
    }
}
