//! Elections in which the servers have different configs.

use super::*;

fn told(out: &[ElectionEffect]) -> Vec<i64> {
    let to = |action: &ElectionEffect| match action {
        ElectionEffect::Send { to, .. } => Some(to.0),
        ElectionEffect::Elected(_) => None,
    };
    out.iter().filter_map(to).collect()
}

/// While a config is pending, both quorums are needed, and the voters of both are notified.
#[test]
fn two_lists_decide_together() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings {
        pending_quorum: pending,
        membership_mode: MembershipMode::Dynamic,
        ..settings(1, Role::Participant, &[1, 2, 3])
    };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), logged_state(5, 1), 0, &mut out);
    assert_eq!(told(&out), [2, 3, 4, 5]);
    let vote = ElectionVote { leader: ServerId(1), zxid: Zxid(5), epoch: 1 };
    for (from, decides) in [(2, false), (3, false), (4, true)] {
        elector.handle_notification(
            ServerId(from),
            &notification(&own, ServerState::Looking, vote, 1),
            10,
            &mut out,
        );
        assert_eq!(elector.next_deadline() == Some(10 + own.finalize_ms), decides, "with {from}");
    }
}

/// A voter may know a config that this server does not know; its candidate may lead.
#[test]
fn a_voter_may_vote_for_one_who_is_not_on_the_own_list() {
    for (members, proposes) in [(MembershipMode::Static, 1), (MembershipMode::Dynamic, 7)] {
        let own = ElectorSettings { membership_mode: members, ..settings(1, Role::Participant, &[1, 2, 3]) };
        let mut out = Vec::new();
        let mut elector = Elector::new(own.clone(), logged_state(5, 1), 0, &mut out);
        out.clear();
        let vote = ElectionVote { leader: ServerId(7), zxid: Zxid(9), epoch: 1 };
        elector.handle_notification(
            ServerId(2),
            &notification(&own, ServerState::Looking, vote, 1),
            10,
            &mut out,
        );
        elector.handle_notification(
            ServerId(9),
            &notification(&own, ServerState::Looking, vote, 1),
            10,
            &mut out,
        );
        let Some(ElectionEffect::Send { to: ServerId(9), notification }) = out.last() else {
            panic!("{out:?}")
        };
        assert_eq!(notification.leader, ServerId(proposes));
    }
}

/// Servers that do not know the pending config reply as to a server without a vote. This server must not
/// reply again.
#[test]
fn who_is_only_to_become_a_voter_does_not_correct_others() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings {
        pending_quorum: pending,
        membership_mode: MembershipMode::Dynamic,
        ..settings(4, Role::Participant, &[1, 2, 3])
    };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), logged_state(5, 1), 0, &mut out);
    let vote = |leader| ElectionVote { leader: ServerId(leader), zxid: Zxid(5), epoch: 1 };
    elector.handle_notification(
        ServerId(3),
        &notification(&own, ServerState::Looking, vote(3), 1),
        1,
        &mut out,
    );
    out.clear();
    elector.handle_notification(
        ServerId(2),
        &notification(&own, ServerState::Looking, vote(2), 1),
        2,
        &mut out,
    );
    assert_eq!(out, []);
}

/// A server that only the proposed config makes a voter proposes itself only after a leader refused it.
#[test]
fn who_is_only_to_become_a_voter_stands_when_nobody_else_can() {
    for (members, leader) in [(MembershipMode::Dynamic, i64::MIN), (MembershipMode::DynamicAfterRefusal, 5)] {
        let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
        let own = ElectorSettings {
            pending_quorum: pending,
            membership_mode: members,
            ..settings(5, Role::Participant, &[1, 2, 3])
        };
        let mut out = Vec::new();
        Elector::new(own, logged_state(5, 1), 0, &mut out);
        let Some(ElectionEffect::Send { notification, .. }) = out.first() else { panic!("{out:?}") };
        assert_eq!(notification.leader, ServerId(leader));
    }
}

fn candidate(leader: i64, zxid: i64, epoch: i64) -> ElectionVote {
    ElectionVote { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
}

#[test]
fn epoch_then_history_then_vote_then_id() {
    let pending = Some(QuorumRule::majority([1, 4, 5].map(ServerId)));
    let own = ElectorSettings {
        pending_quorum: pending,
        membership_mode: MembershipMode::Dynamic,
        ..settings(1, Role::Participant, &[1, 2, 3])
    };
    assert!(own.prefers(&candidate(1, 1, 2), &candidate(3, 9, 1)));
    assert!(own.prefers(&candidate(1, 9, 1), &candidate(3, 1, 1)));
    assert!(own.prefers(&candidate(3, 1, 1), &candidate(1, 1, 1)));
    assert!(!own.prefers(&candidate(1, 1, 1), &candidate(1, 1, 1)));
    assert!(own.prefers(&candidate(1, -1, 0), &ElectionVote::NONE));
    assert!(own.prefers(&candidate(1, 1, 1), &candidate(5, 1, 1)), "it has no vote yet");
    assert!(own.prefers(&candidate(5, 2, 1), &candidate(1, 1, 1)), "but it may have the longer history");
}

/// The proposed config makes server 3 a voter; server 1 does not know that. Servers 2 and 3 have the same
/// history. If server 2 preferred server 3, server 1 would follow server 2, which does not lead, again and
/// again.
#[test]
fn who_has_a_vote_leads_if_the_other_has_no_longer_history() {
    let changing = |me, pending, members| ElectorSettings {
        pending_quorum: pending,
        membership_mode: members,
        ..settings(me, Role::Participant, &[1, 2])
    };
    let pending = || Some(QuorumRule::majority([1, 2, 3].map(ServerId)));
    let mut world = World::new(vec![1]);
    world.add(changing(1, None, MembershipMode::Dynamic), logged_state(4, 1));
    world.add(changing(2, pending(), MembershipMode::Dynamic), logged_state(5, 1));
    world.add(changing(3, pending(), MembershipMode::DynamicAfterRefusal), logged_state(5, 1));
    world.run();
    assert_eq!(world.leader_of(1), Some((2, ServerState::Following)));
    assert_eq!(world.leader_of(2), Some((2, ServerState::Leading)));
    assert_eq!(world.leader_of(3), Some((2, ServerState::Following)));
}

/// If all voters agreed and their leader did not lead, one of them may have received a better vote.
#[test]
fn unanimity_is_not_trusted_again_when_its_leader_did_not_lead() {
    let own = ElectorSettings {
        membership_mode: MembershipMode::Dynamic,
        ..settings(1, Role::Participant, &[1, 2])
    };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), logged_state(4, 1), 0, &mut out);
    let says = |elector: &mut Elector, leader, zxid, at_ms| {
        let round = elector.round();
        let vote = notification(&own, ServerState::Looking, candidate(leader, zxid, 1), round);
        elector.handle_notification(ServerId(2), &vote, at_ms, &mut Vec::new());
        elector.next_deadline()
    };
    assert_eq!(says(&mut elector, 2, 5, 10), Some(10), "nobody else has a vote");
    elector.timeout(10, &mut out);
    assert_eq!(elector.state(), ServerState::Following);
    elector.look_for_leader(logged_state(4, 1), None, 100, &mut out);
    assert_eq!(says(&mut elector, 2, 5, 110), Some(110 + own.finalize_ms));
    assert_eq!(says(&mut elector, 3, 6, 120), Some(120 + own.finalize_ms), "it votes for somebody better");
    out.clear();
    elector.timeout(120 + own.finalize_ms, &mut out);
    let decided =
        ElectionResult { leader: ServerId(3), state: ServerState::Following, established_epoch: None };
    assert_eq!(out, [ElectionEffect::Elected(decided)]);
    elector.set_established_epoch(2);
    elector.look_for_leader(logged_state(6, 1), None, 1000, &mut out);
    assert_eq!(says(&mut elector, 2, 9, 1010), Some(1010), "the last leader led");
}

/// The voters of an old config may be gone, and its observers may have a vote by now.
#[test]
fn who_looks_in_vain_asks_observers_too() {
    for (members, asked) in [(MembershipMode::Static, vec![2, 3]), (MembershipMode::Dynamic, vec![2, 3, 7])] {
        let observers = [ServerId(7)].into();
        let own = ElectorSettings {
            membership_mode: members,
            observers,
            ..settings(1, Role::Participant, &[1, 2, 3])
        };
        let mut out = Vec::new();
        let mut elector = Elector::new(own.clone(), logged_state(5, 1), 0, &mut out);
        assert_eq!(told(&out), [2, 3], "most elections are short");
        while let Some(at_ms) = elector.next_deadline().filter(|at_ms| *at_ms < 20_000) {
            out.clear();
            elector.timeout(at_ms, &mut out);
        }
        assert_eq!(told(&out), asked);
    }
}

/// Two servers that take each other for observers must not reply to replies for ever.
#[test]
fn who_is_asked_for_an_answer_gets_none() {
    let observers = [ServerId(7)].into();
    let own = ElectorSettings {
        membership_mode: MembershipMode::Dynamic,
        observers,
        ..settings(1, Role::Participant, &[1, 2, 3])
    };
    let mut out = Vec::new();
    let mut elector = Elector::new(own.clone(), logged_state(5, 1), 0, &mut out);
    let vote = notification(&own, ServerState::Looking, candidate(7, 5, 1), 1);
    out.clear();
    elector.handle_notification(ServerId(7), &vote, 1, &mut out);
    assert_eq!(told(&out), [7], "it asks");
    while let Some(at_ms) = elector.next_deadline().filter(|at_ms| *at_ms < 20_000) {
        elector.timeout(at_ms, &mut out);
    }
    out.clear();
    elector.handle_notification(ServerId(7), &vote, 20_000, &mut out);
    assert_eq!(told(&out), [], "it has been asked");
    elector.handle_notification(ServerId(8), &vote, 20_000, &mut out);
    assert_eq!(told(&out), [8], "a stranger asks");
}

/// A new server has all servers in its config, a later round and a better candidate. An ensemble in an
/// election and the new server correct each other; the exchange must end.
#[test]
fn a_server_that_is_only_on_its_own_list_is_not_answered_without_end() {
    let mut world = World::new(vec![1]);
    world.add(settings(1, Role::Participant, &[1, 2, 3]), logged_state(5, 1));
    world.add(settings(4, Role::Participant, &[1, 2, 3, 4]), logged_state(5, 1));
    let mut out = Vec::new();
    for round in 1..4 {
        let elector = world.electors.get_mut(&ServerId(4)).unwrap();
        elector.look_for_leader(logged_state(5, 1), None, round, &mut out);
    }
    world.act(ServerId(4), out);
    world.run_for(10_000);
    assert!(world.sent < 1_000, "{} messages in ten seconds", world.sent);
}

/// The new server starts with the longer config while the others serve: it finds their leader, whatever its
/// id.
#[test]
fn a_server_that_is_only_on_its_own_list_finds_the_leader() {
    for newcomer in [0, 4] {
        let mut world = World::new(vec![3, 1, 7]);
        for me in 1..=3 {
            world.add(settings(me, Role::Participant, &[1, 2, 3]), logged_state(5, 1));
        }
        world.run();
        for elector in world.electors.values_mut() {
            elector.set_established_epoch(2);
        }
        world.add(settings(newcomer, Role::Participant, &[newcomer, 1, 2, 3]), logged_state(0, 0));
        world.run();
        assert_eq!(world.leader_of(newcomer), Some((3, ServerState::Following)));
    }
}
