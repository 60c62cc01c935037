//! Which server is tried next, and after which pause. Owns the order of the servers and the re-balancing
//! after the list has changed. It opens nothing.

use std::time::Duration;

use super::connect_string::ServerAddress;
use super::random::Random;

/// Pause before the second round over all servers; each further round doubles it.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before a round.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a change of the list asks of the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// Keep it.
    Stay,
    /// Give it up and connect again, so that the load spreads over the new list.
    Move,
}

/// While the list is being re-balanced: who is tried, and how likely a new server is.
#[derive(Clone, Debug)]
struct Drawing {
    old: Vec<ServerAddress>,
    new: Vec<ServerAddress>,
    new_probability: f64,
}

/// The servers in the order in which this client tries them.
#[derive(Clone, Debug)]
pub struct Hosts {
    servers: Vec<ServerAddress>,
    next: usize,
    /// Attempts since a session was established last.
    attempts: usize,
    preferred: Option<ServerAddress>,
    drawing: Option<Drawing>,
}

impl Hosts {
    /// Shuffles the list, so that many clients with the same list spread over it.
    pub fn new(servers: &[ServerAddress], random: &mut Random) -> Hosts {
        let mut servers = servers.to_vec();
        random.shuffle(&mut servers);
        Hosts { servers, next: 0, attempts: 0, preferred: None, drawing: None }
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is none. A parsed list always has one.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The next server to try and the pause before the attempt.
    pub fn next(&mut self, random: &mut Random) -> (ServerAddress, Duration) {
        let pause = self.pause(random);
        self.attempts += 1;
        if let Some(server) = self.preferred.take() {
            return (server, Duration::ZERO);
        }
        if let Some(server) = self.draw(random) {
            return (server, pause);
        }
        let server = self.servers[self.next % self.servers.len()].clone();
        self.next = (self.next + 1) % self.servers.len();
        (server, pause)
    }

    /// The next server in turn, for a look at it; attempts are not counted.
    pub fn look(&mut self) -> ServerAddress {
        let server = self.servers[self.next % self.servers.len()].clone();
        self.next = (self.next + 1) % self.servers.len();
        server
    }

    /// The next attempt goes to this server: it has said that it serves writes.
    pub fn prefer(&mut self, server: ServerAddress) {
        self.preferred = Some(server);
    }

    /// A session lives on a connection that has lasted: the next loss starts without a pause.
    pub fn settled(&mut self) {
        self.attempts = 0;
    }

    /// A session was established: re-balancing is over.
    pub fn established(&mut self) {
        self.drawing = None;
    }

    /// Takes a new list. `current` is the server of the live connection, if there is one.
    pub fn update(
        &mut self,
        servers: &[ServerAddress],
        current: Option<&ServerAddress>,
        random: &mut Random,
    ) -> Rebalance {
        let before = std::mem::replace(&mut self.servers, servers.to_vec());
        random.shuffle(&mut self.servers);
        self.next = 0;
        self.attempts = 0;
        self.preferred = None;
        self.drawing = None;
        let Some(current) = current else { return Rebalance::Stay };
        let (old, new): (Vec<_>, Vec<_>) =
            self.servers.iter().cloned().partition(|server| before.contains(server));
        let stays = self.servers.contains(current);
        let (count, count_before) = (self.servers.len() as f64, before.len() as f64);
        let new_probability = if self.servers.len() > before.len() {
            // Enough clients move for every server to get its share; the others stay.
            if stays && random.fraction() >= 1.0 - count_before / count {
                return Rebalance::Stay;
            }
            1.0
        } else if stays {
            return Rebalance::Stay;
        } else {
            let gone = count_before - old.len() as f64;
            let old_probability = old.len() as f64 * (count_before - count) / (count * gone.max(1.0));
            1.0 - old_probability
        };
        self.drawing = Some(Drawing { old, new, new_probability });
        Rebalance::Move
    }

    /// The first round goes without pauses; each later one starts with a longer one, spread by chance.
    fn pause(&self, random: &mut Random) -> Duration {
        let round = self.attempts / self.servers.len().max(1);
        if round == 0 || !self.attempts.is_multiple_of(self.servers.len().max(1)) {
            return Duration::ZERO;
        }
        let doublings = u32::try_from(round - 1).unwrap_or(u32::MAX).min(10);
        let pause = ROUND_PAUSE.saturating_mul(1 << doublings).min(ROUND_PAUSE_MAX);
        pause + random.duration_below(pause)
    }

    /// A server of the new or of the old part; `None` when all were tried.
    fn draw(&mut self, random: &mut Random) -> Option<ServerAddress> {
        let drawing = self.drawing.as_mut()?;
        let wants_new = random.fraction() < drawing.new_probability;
        let (first, second) = if wants_new {
            (&mut drawing.new, &mut drawing.old)
        } else {
            (&mut drawing.old, &mut drawing.new)
        };
        let drawn = first.pop().or_else(|| second.pop());
        if drawn.is_none() {
            self.drawing = None;
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(names: &[&str]) -> Vec<ServerAddress> {
        names.iter().map(|name| ServerAddress { host: (*name).into(), port: 1 }).collect()
    }

    #[test]
    fn every_server_is_tried_before_a_pause() {
        let mut random = Random::new(1);
        let list = servers(&["a", "b", "c"]);
        let mut hosts = Hosts::new(&list, &mut random);
        let mut round = |pauses: bool| {
            let drawn: Vec<_> = (0..3).map(|_| hosts.next(&mut random)).collect();
            let mut names: Vec<_> = drawn.iter().map(|(server, _)| server.clone()).collect();
            names.sort();
            assert_eq!(names, list);
            assert_eq!(drawn[0].1 > Duration::ZERO, pauses);
            assert!(drawn[1..].iter().all(|(_, pause)| pause.is_zero()));
            drawn[0].1
        };
        round(false);
        let second = round(true);
        assert!(second >= ROUND_PAUSE && second < ROUND_PAUSE * 2);
        for _ in 0..20 {
            assert!(round(true) < ROUND_PAUSE_MAX * 2);
        }
    }

    /// Thirty thousand clients on three servers; the list grows or shrinks; nobody is overloaded.
    #[test]
    fn a_changed_list_spreads_the_clients() {
        for (before, after) in [
            (&["a", "b", "c"][..], &["a", "b", "c", "d", "e"][..]),
            (&["a", "b", "c"], &["b", "c"]),
            (&["a", "b", "c", "d"], &["a", "e"]),
            (&["a", "b"], &["c", "d", "e"]),
            (&["a", "b", "c"], &["a", "b", "d"]),
        ] {
            let (before, after) = (servers(before), servers(after));
            let mut random = Random::new(5);
            let mut load = vec![0u32; after.len()];
            const CLIENTS: u32 = 30_000;
            for client in 0..CLIENTS {
                let current = &before[client as usize % before.len()];
                let mut hosts = Hosts::new(&before, &mut random);
                let chosen = match hosts.update(&after, Some(current), &mut random) {
                    Rebalance::Stay => current.clone(),
                    Rebalance::Move => hosts.next(&mut random).0,
                };
                load[after.iter().position(|server| *server == chosen).unwrap()] += 1;
            }
            let share = CLIENTS / after.len() as u32;
            let fair = |count: &u32| count.abs_diff(share) < share / 10;
            assert!(load.iter().all(fair), "{before:?} -> {after:?}: {load:?}");
        }
    }

    #[test]
    fn a_preferred_server_is_next_at_once() {
        let mut random = Random::new(1);
        let mut hosts = Hosts::new(&servers(&["a", "b"]), &mut random);
        (0..4).for_each(|_| drop(hosts.next(&mut random)));
        hosts.prefer(servers(&["b"])[0].clone());
        assert_eq!(hosts.next(&mut random), (servers(&["b"])[0].clone(), Duration::ZERO));
    }
}
