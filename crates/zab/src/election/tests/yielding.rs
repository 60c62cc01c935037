//! Servers whose disks are full or slow let another server lead, if one has their history.

use super::*;

fn yielding(zxid: i64) -> LoggedState {
    LoggedState { candidacy: Candidacy::Yields, ..logged_state(zxid, 1) }
}

fn elect(states: [LoggedState; 3], delays: Vec<i64>) -> World {
    let mut world = World::new(delays);
    for (me, state) in (1..=3).zip(states) {
        world.add(settings(me, Role::Participant, &[1, 2, 3]), state);
    }
    world.run();
    world
}

fn leaders(world: &World) -> [Option<i64>; 3] {
    [1, 2, 3].map(|server| world.leader_of(server).map(|(leader, _)| leader))
}

#[test]
fn a_server_with_the_same_history_leads_instead() {
    for delays in [vec![0], vec![3, 1, 7], vec![9, 2]] {
        let world = elect([logged_state(5, 1), logged_state(5, 1), yielding(5)], delays);
        assert_eq!(leaders(&world), [Some(2); 3]);
        assert!(world.now_ms < 100, "nobody waits for the server that yields");
    }
}

#[test]
fn the_only_one_with_room_leads() {
    let world = elect([logged_state(5, 1), yielding(5), yielding(5)], vec![4, 1]);
    assert_eq!(leaders(&world), [Some(1); 3]);
}

#[test]
fn the_longest_history_leads_in_any_case() {
    let world = elect([logged_state(5, 1), logged_state(4, 1), yielding(6)], vec![3, 1, 7]);
    assert_eq!(leaders(&world), [Some(3); 3]);
}

#[test]
fn without_another_candidate_a_server_proposes_itself() {
    let world = elect([yielding(5), yielding(5), yielding(5)], vec![3, 1, 7]);
    assert_eq!(leaders(&world), [Some(3); 3]);
}

proptest! {
    #[test]
    fn all_agree_on_a_longest_history(
        zxids in prop::array::uniform3(0i64..3),
        yields in prop::array::uniform3(any::<bool>()),
        delays in prop::collection::vec(0i64..50, 1..8),
    ) {
        let of = |index: usize| if yields[index] { yielding(zxids[index]) } else { logged_state(zxids[index], 1) };
        let world = elect([of(0), of(1), of(2)], delays);
        let [first, second, third] = leaders(&world);
        prop_assert!(first.is_some() && first == second && second == third, "{:?}", leaders(&world));
        let longest = zxids.into_iter().max();
        let led = first.and_then(|leader| zxids.get(leader as usize - 1)).copied();
        prop_assert_eq!(led, longest, "server {:?} leads", first);
    }
}
