//! Whole ensembles of peers in a small world of their own: random delays, crashes, partitions, slow disks.
//! Every transaction that one of them delivers must be delivered by all, in one order, for ever.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test says by panicking that it failed")]

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
    // SEEDS=a..b runs others; TRACE=1 shows everything.
    let seeds = std::env::var("SEEDS").ok().map_or(0..48, |seeds| {
        let (first, end) = seeds.split_once("..").expect("SEEDS is a..b");
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    let (mut decided, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        println!("seed {seed}");
        let voters = [1, 2, 3, 3, 3, 5, 5, 7][seed as usize % 8];
        let observers = [0, 0, 1, 2][seed as usize / 8 % 4];
        decided += run(seed, Plan { voters, observers, ..Plan::rough() });
    }
    assert!(decided as u64 > 25 * count, "the world does something: {decided}");
}
