//! Ensembles of peers in a small simulator: random delays, crashes, partitions, slow disks. All servers must
//! deliver the same transactions in the same order.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test says by panicking that it failed")]

mod changes;
mod node;
mod world;

use world::{Counting, Plan, World};
use zebu_zab::{ObserverLog, ObserverMasters, ObserverSettings};

fn run(seed: u64, plan: Plan) -> usize {
    live(seed, plan).decided()
}

fn live(seed: u64, plan: Plan) -> World {
    let mut world = World::new(seed, plan);
    world.disturb();
    world.heal();
    world
}

/// SEEDS=a..b runs other seeds; TRACE=1 prints every event.
fn seeds(count: u64) -> std::ops::Range<u64> {
    std::env::var("SEEDS").ok().map_or(0..count, |seeds| {
        let (first, end) = seeds.split_once("..").expect("SEEDS is a..b");
        first.parse().expect("a number")..end.parse().expect("a number")
    })
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
    let seeds = seeds(48);
    let (mut decided, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        println!("seed {seed}");
        let voters = [1, 2, 3, 3, 3, 5, 5, 7][seed as usize % 8];
        let observers = [0, 0, 1, 2][seed as usize / 8 % 4];
        decided += run(seed, Plan { voters, observers, ..Plan::rough() });
    }
    assert!(decided as u64 > 25 * count, "the world does something: {decided}");
}

#[test]
fn members_change_without_faults() {
    for seed in 0..20 {
        println!("seed {seed}");
        let plan = Plan { voters: 3, places: 5, changes: 20, ..Plan::quiet() };
        assert!(run(seed, plan) > 50, "seed {seed}");
    }
}

#[test]
fn members_change_in_a_rough_world() {
    let seeds = seeds(24);
    let (mut decided, mut changes, count) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        println!("seed {seed}");
        let voters = [1, 2, 3, 3, 5][seed as usize % 5];
        let world = live(seed, Plan { voters, places: 6, changes: 60, ..Plan::rough() });
        decided += world.decided();
        changes += world.changes();
    }
    println!("{decided} transactions and {changes} changes of members in {count} worlds");
    assert!(decided as u64 > 10 * count, "the world does something: {decided}");
    assert!(changes as u64 > 4 * count, "members change: {changes}");
}

const WITHOUT_LOG: ObserverSettings = ObserverSettings {
    log: ObserverLog::InMemory,
    masters: ObserverMasters::LeaderOnly,
    election_delay_ms: 0,
    reconnect_delay_ms: 0,
    seed: 1,
};

#[test]
fn observers_without_a_log() {
    for seed in seeds(12) {
        println!("seed {seed}");
        let voters = [1, 3, 3, 5][seed as usize % 4];
        run(seed, Plan { voters, observers: 2, observing: WITHOUT_LOG, ..Plan::rough() });
    }
}

/// An observer that becomes a voter must not claim transactions that only its memory had.
#[test]
fn observers_without_a_log_become_voters_and_voters_observers() {
    let mut changes = 0;
    for seed in seeds(16) {
        println!("seed {seed}");
        let voters = [1, 2, 3, 3, 5][seed as usize % 5];
        let plan = Plan { voters, places: 6, changes: 60, observing: WITHOUT_LOG, ..Plan::rough() };
        changes += live(seed, plan).changes();
    }
    println!("{changes} changes of members");
}

#[test]
fn groups_and_weights_change_in_a_rough_world() {
    let (mut changes, mut count) = (0, 0);
    for seed in seeds(16) {
        println!("seed {seed}");
        let voters = [1, 2, 3, 3, 5][seed as usize % 5];
        let plan = Plan { voters, places: 6, changes: 60, counting: Counting::Any, ..Plan::rough() };
        changes += live(seed, plan).changes();
        count += 1;
    }
    println!("{changes} changes of members in {count} worlds");
    assert!(changes > 2 * count, "members change: {changes}");
}

#[test]
fn followers_serve_observers() {
    let mut served = 0;
    for seed in seeds(16) {
        println!("seed {seed}");
        let voters = [2, 3, 3, 5][seed as usize % 4];
        let log = [ObserverLog::OnDisk, ObserverLog::InMemory][seed as usize % 2];
        let observing = ObserverSettings { log, masters: ObserverMasters::Followers, seed, ..WITHOUT_LOG };
        let world = live(seed, Plan { voters, observers: 3, observing, ..Plan::rough() });
        served += world.served_by_followers();
    }
    println!("{served} observers served by followers at the end");
    assert!(served > 32, "{served} of 48");
}

#[test]
fn followers_serve_observers_while_members_change() {
    for seed in seeds(16) {
        println!("seed {seed}");
        let log = [ObserverLog::OnDisk, ObserverLog::InMemory][seed as usize % 2];
        let observing = ObserverSettings { log, masters: ObserverMasters::Followers, seed, ..WITHOUT_LOG };
        let counting = [Counting::Heads, Counting::Any][seed as usize / 2 % 2];
        live(seed, Plan { places: 7, changes: 60, observing, counting, ..Plan::rough() });
    }
}
