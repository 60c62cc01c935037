//! Whole ensembles of peers in a small world of their own: random delays, crashes, partitions, slow disks.
//! Every transaction that one of them delivers must be delivered by all, in one order, for ever.

mod node;
mod world;

use world::{Plan, World};

fn run(seed: u64, plan: Plan) -> usize {
    let mut world = World::new(seed, plan);
    world.disturb();
    world.heal();
    world.decided()
}

#[test]
fn one_server_decides_alone() {
    assert!(run(1, Plan { voters: 1, ..Plan::quiet() }) > 50);
}

#[test]
fn three_servers_without_faults_lose_nothing() {
    for seed in 0..20 {
        assert!(run(seed, Plan::quiet()) > 50, "seed {seed}");
    }
}

#[test]
fn crashes_partitions_and_slow_disks() {
    let mut decided = 0;
    for seed in 0..400 {
        let voters = [1, 2, 3, 3, 3, 5, 5, 7][seed as usize % 8];
        let observers = [0, 0, 1, 2][seed as usize / 8 % 4];
        decided += run(seed, Plan { voters, observers, ..Plan::rough() });
    }
    assert!(decided > 10_000, "the world does something: {decided}");
}
