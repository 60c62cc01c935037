//! Elections in which not everybody knows the same list of voters.

use super::*;

fn told(out: &[Action]) -> Vec<i64> {
    let to = |action: &Action| match action {
        Action::Send { to, .. } => Some(to.0),
        Action::Decided(_) => None,
    };
    out.iter().filter_map(to).collect()
}

/// While a list of voters is pending, both decide, and both are told.
#[test]
fn two_lists_decide_together() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings { pending, members: Members::Changing, ..settings(1, Role::Voter, &[1, 2, 3]) };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), standing(5, 1), 0, &mut out);
    assert_eq!(told(&out), [2, 3, 4, 5]);
    let vote = Candidate { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
    for (from, decides) in [(2, false), (3, false), (4, true)] {
        elector.handle(ServerId(from), &notification(&own, PeerState::Looking, vote, 1), 10, &mut out);
        assert_eq!(elector.next_deadline() == Some(10 + own.finalize_ms), decides, "with {from}");
    }
}

/// A voter may know a list that this server does not know; whom it votes for then may lead.
#[test]
fn a_voter_may_vote_for_one_who_is_not_on_the_own_list() {
    for (members, proposes) in [(Members::Fixed, 1), (Members::Changing, 7)] {
        let own = ElectorSettings { members, ..settings(1, Role::Voter, &[1, 2, 3]) };
        let mut out = Vec::new();
        let mut elector = Elector::new(own.clone(), standing(5, 1), 0, &mut out);
        out.clear();
        let vote = Candidate { leader: ServerId(7), zxid: Zxid(9), epoch: 1 };
        elector.handle(ServerId(2), &notification(&own, PeerState::Looking, vote, 1), 10, &mut out);
        elector.handle(ServerId(9), &notification(&own, PeerState::Looking, vote, 1), 10, &mut out);
        let Some(Action::Send { to: ServerId(9), notification }) = out.last() else { panic!("{out:?}") };
        assert_eq!(notification.leader, ServerId(proposes));
    }
}

/// Those who do not know of what is pending answer it as somebody without a vote; it must not answer that in turn.
#[test]
fn who_is_only_to_become_a_voter_does_not_correct_others() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings { pending, members: Members::Changing, ..settings(4, Role::Voter, &[1, 2, 3]) };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), standing(5, 1), 0, &mut out);
    let vote = |leader| Candidate { leader: ServerId(leader), zxid: Zxid(5), epoch: 1 };
    elector.handle(ServerId(3), &notification(&own, PeerState::Looking, vote(3), 1), 1, &mut out);
    out.clear();
    elector.handle(ServerId(2), &notification(&own, PeerState::Looking, vote(2), 1), 2, &mut out);
    assert_eq!(out, []);
}

/// One that is only to become a voter stands if a leader has refused it, and not before.
#[test]
fn who_is_only_to_become_a_voter_stands_when_nobody_else_can() {
    for (members, leader) in [(Members::Changing, i64::MIN), (Members::ChangingWithoutMe, 5)] {
        let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
        let own = ElectorSettings { pending, members, ..settings(5, Role::Voter, &[1, 2, 3]) };
        let mut out = Vec::new();
        Elector::new(own, standing(5, 1), 0, &mut out);
        let Some(Action::Send { notification, .. }) = out.first() else { panic!("{out:?}") };
        assert_eq!(notification.leader, ServerId(leader));
    }
}

fn candidate(leader: i64, zxid: i64, epoch: i64) -> Candidate {
    Candidate { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
}

#[test]
fn epoch_then_history_then_vote_then_id() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings { pending, members: Members::Changing, ..settings(1, Role::Voter, &[1, 2, 3]) };
    assert!(own.prefers(&candidate(1, 1, 2), &candidate(3, 9, 1)));
    assert!(own.prefers(&candidate(1, 9, 1), &candidate(3, 1, 1)));
    assert!(own.prefers(&candidate(3, 1, 1), &candidate(1, 1, 1)));
    assert!(!own.prefers(&candidate(1, 1, 1), &candidate(1, 1, 1)));
    assert!(own.prefers(&candidate(1, -1, 0), &Candidate::NOBODY));
    assert!(own.prefers(&candidate(1, 1, 1), &candidate(5, 1, 1)), "it has no vote yet");
    assert!(own.prefers(&candidate(5, 2, 1), &candidate(1, 1, 1)), "but it may have the longer history");
}

/// Server 3 is only to become a voter, which server 1 does not know, and has no more history than server 2, who has
/// a vote. If server 2 preferred it, server 1 would follow server 2, who does not lead, again and again.
#[test]
fn who_has_a_vote_leads_if_the_other_has_no_longer_history() {
    let changing =
        |me, pending, members| ElectorSettings { pending, members, ..settings(me, Role::Voter, &[1, 2]) };
    let pending = || Some(QuorumRule::majority([1, 2, 3].map(ServerId)));
    let mut world = World::new(vec![1]);
    world.add(changing(1, None, Members::Changing), standing(4, 1));
    world.add(changing(2, pending(), Members::Changing), standing(5, 1));
    world.add(changing(3, pending(), Members::ChangingWithoutMe), standing(5, 1));
    world.run();
    assert_eq!(world.leader_of(1), Some((2, PeerState::Following)));
    assert_eq!(world.leader_of(2), Some((2, PeerState::Leading)));
    assert_eq!(world.leader_of(3), Some((2, PeerState::Following)));
}

/// If all voters said the same and their leader did not lead, one of them may have heard of somebody better.
#[test]
fn unanimity_is_not_trusted_again_when_its_leader_did_not_lead() {
    let own = ElectorSettings { members: Members::Changing, ..settings(1, Role::Voter, &[1, 2]) };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), standing(4, 1), 0, &mut out);
    let says = |elector: &mut Elector, leader, zxid, at_ms| {
        let round = elector.round();
        let vote = notification(&own, PeerState::Looking, candidate(leader, zxid, 1), round);
        elector.handle(ServerId(2), &vote, at_ms, &mut Vec::new());
        elector.next_deadline()
    };
    assert_eq!(says(&mut elector, 2, 5, 10), Some(10), "nobody else has a vote");
    elector.timeout(10, &mut out);
    assert_eq!(elector.state(), PeerState::Following);
    elector.look(standing(4, 1), None, 100, &mut out);
    assert_eq!(says(&mut elector, 2, 5, 110), Some(110 + own.finalize_ms));
    assert_eq!(says(&mut elector, 3, 6, 120), Some(120 + own.finalize_ms), "it votes for somebody better");
    out.clear();
    elector.timeout(120 + own.finalize_ms, &mut out);
    let decided = Decision { leader: ServerId(3), state: PeerState::Following, joined: None };
    assert_eq!(out, [Action::Decided(decided)]);
    elector.established(2);
    elector.look(standing(6, 1), None, 1000, &mut out);
    assert_eq!(says(&mut elector, 2, 9, 1010), Some(1010), "the last leader led");
}

/// The voters of an old list may be gone, and its observers may have a vote by now.
#[test]
fn who_looks_in_vain_asks_observers_too() {
    for (members, asked) in [(Members::Fixed, vec![2, 3]), (Members::Changing, vec![2, 3, 7])] {
        let observers = [ServerId(7)].into();
        let own = ElectorSettings { members, observers, ..settings(1, Role::Voter, &[1, 2, 3]) };
        let mut out = Vec::new();
        let mut elector = Elector::new(own.clone(), standing(5, 1), 0, &mut out);
        assert_eq!(told(&out), [2, 3], "most elections are short");
        while let Some(at_ms) = elector.next_deadline().filter(|at_ms| *at_ms < 20_000) {
            out.clear();
            elector.timeout(at_ms, &mut out);
        }
        assert_eq!(told(&out), asked);
    }
}

/// Two who take each other for observers must not answer each other's answers for ever.
#[test]
fn who_is_asked_for_an_answer_gets_none() {
    let observers = [ServerId(7)].into();
    let own =
        ElectorSettings { members: Members::Changing, observers, ..settings(1, Role::Voter, &[1, 2, 3]) };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), standing(5, 1), 0, &mut out);
    let vote = notification(&own, PeerState::Looking, candidate(7, 5, 1), 1);
    out.clear();
    elector.handle(ServerId(7), &vote, 1, &mut out);
    assert_eq!(told(&out), [7], "it asks");
    while let Some(at_ms) = elector.next_deadline().filter(|at_ms| *at_ms < 20_000) {
        elector.timeout(at_ms, &mut out);
    }
    out.clear();
    elector.handle(ServerId(7), &vote, 20_000, &mut out);
    assert_eq!(told(&out), [], "it has been asked");
    elector.handle(ServerId(8), &vote, 20_000, &mut out);
    assert_eq!(told(&out), [8], "a stranger asks");
}

/// An ensemble that looks for a leader hears a new server that has all of them on its list, in a later round and with a
/// better candidate: each corrects the other, and they must not do that without end.
#[test]
fn a_server_that_is_only_on_its_own_list_is_not_answered_without_end() {
    let mut world = World::new(vec![1]);
    world.add(settings(1, Role::Voter, &[1, 2, 3]), standing(5, 1));
    world.add(settings(4, Role::Voter, &[1, 2, 3, 4]), standing(5, 1));
    let mut out = Vec::new();
    for round in 1..4 {
        let elector = world.electors.get_mut(&ServerId(4)).unwrap();
        elector.look(standing(5, 1), None, round, &mut out);
    }
    world.act(ServerId(4), out);
    world.run_for(10_000);
    assert!(world.sent < 1_000, "{} messages in ten seconds", world.sent);
}

/// The new server is started with the longer list while the others serve: it finds their leader, whatever its id.
#[test]
fn a_server_that_is_only_on_its_own_list_finds_the_leader() {
    for newcomer in [0, 4] {
        let mut world = World::new(vec![3, 1, 7]);
        for me in 1..=3 {
            world.add(settings(me, Role::Voter, &[1, 2, 3]), standing(5, 1));
        }
        world.run();
        for elector in world.electors.values_mut() {
            elector.established(2);
        }
        world.add(settings(newcomer, Role::Voter, &[newcomer, 1, 2, 3]), standing(0, 0));
        world.run();
        assert_eq!(world.leader_of(newcomer), Some((3, PeerState::Following)));
    }
}
