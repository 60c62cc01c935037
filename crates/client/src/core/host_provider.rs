//! The choice of the next server and the pause before the attempt. It owns the order of the servers and the
//! re-balancing after a change of the list. It opens no connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::connect_string::ServerAddress;
use super::random::Random;

/// The pause before the second round over all servers; each further round doubles it.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before a round.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The effect of a changed list on the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// Keep the connection.
    Stay,
    /// Leave the connection and connect again, to spread the load over the new list.
    Move,
}

/// The re-balancing after a changed list: the candidates and the probability of a new server.
#[derive(Clone, Debug)]
struct ReconfigMode {
    old: Vec<ServerAddress>,
    new: Vec<ServerAddress>,
    new_probability: f64,
}

/// The servers in the order of connection attempts.
#[derive(Clone, Debug)]
pub struct HostProvider {
    servers: Vec<ServerAddress>,
    next: usize,
    /// Attempts since the last established session.
    attempts: usize,
    preferred: Option<ServerAddress>,
    reconfig_mode: Option<ReconfigMode>,
}

impl HostProvider {
    /// Shuffles the list, so that clients with the same list spread over it.
    pub fn new(servers: &[ServerAddress], random: &mut Random) -> HostProvider {
        let mut servers = servers.to_vec();
        random.shuffle(&mut servers);
        HostProvider { servers, next: 0, attempts: 0, preferred: None, reconfig_mode: None }
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether the list is empty. A parsed list never is.
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
        if let Some(server) = self.next_in_reconfig_mode(random) {
            return (server, pause);
        }
        let server = self.servers[self.next % self.servers.len()].clone();
        self.next = (self.next + 1) % self.servers.len();
        (server, pause)
    }

    /// The next server for a probe; it does not count as an attempt.
    pub fn next_to_probe(&mut self) -> ServerAddress {
        let server = self.servers[self.next % self.servers.len()].clone();
        self.next = (self.next + 1) % self.servers.len();
        server
    }

    /// All servers, this one last.
    pub fn others_first(&self, current: &ServerAddress) -> VecDeque<ServerAddress> {
        let turned = self.servers.iter().cycle().skip(self.next).take(self.servers.len());
        let (mut others, own): (VecDeque<_>, VecDeque<_>) =
            turned.cloned().partition(|server| server != current);
        others.extend(own);
        others
    }

    /// Makes a server the next one, because it accepts writes.
    pub fn prefer(&mut self, server: ServerAddress) {
        self.preferred = Some(server);
    }

    /// Resets the pauses: the last connection was stable.
    pub fn connection_stable(&mut self) {
        self.attempts = 0;
    }

    /// Ends the re-balancing: a session is established.
    pub fn session_established(&mut self) {
        self.reconfig_mode = None;
    }

    /// Replaces the list. `current` is the server of the live connection.
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
        self.reconfig_mode = None;
        let Some(current) = current else { return Rebalance::Stay };
        let (old, new): (Vec<_>, Vec<_>) =
            self.servers.iter().cloned().partition(|server| before.contains(server));
        let stays = self.servers.contains(current);
        let (count, count_before) = (self.servers.len() as f64, before.len() as f64);
        let new_probability = if self.servers.len() > before.len() {
            // Just enough clients move to give every server its share.
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
        self.reconfig_mode = Some(ReconfigMode { old, new, new_probability });
        Rebalance::Move
    }

    /// The first round has no pauses. Each later round starts with a longer pause, with jitter.
    fn pause(&self, random: &mut Random) -> Duration {
        let round = self.attempts / self.servers.len().max(1);
        if round == 0 || !self.attempts.is_multiple_of(self.servers.len().max(1)) {
            return Duration::ZERO;
        }
        let doublings = u32::try_from(round - 1).unwrap_or(u32::MAX).min(10);
        let pause = ROUND_PAUSE.saturating_mul(1 << doublings).min(ROUND_PAUSE_MAX);
        pause + random.duration_below(pause)
    }

    /// A server from the new or the old part; `None` when all were tried.
    fn next_in_reconfig_mode(&mut self, random: &mut Random) -> Option<ServerAddress> {
        let reconfig_mode = self.reconfig_mode.as_mut()?;
        let wants_new = random.fraction() < reconfig_mode.new_probability;
        let (first, second) = if wants_new {
            (&mut reconfig_mode.new, &mut reconfig_mode.old)
        } else {
            (&mut reconfig_mode.old, &mut reconfig_mode.new)
        };
        let drawn = first.pop().or_else(|| second.pop());
        if drawn.is_none() {
            self.reconfig_mode = None;
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
        let mut host_provider = HostProvider::new(&list, &mut random);
        let mut round = |pauses: bool| {
            let drawn: Vec<_> = (0..3).map(|_| host_provider.next(&mut random)).collect();
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

    /// Thirty thousand clients on three servers; the list grows or shrinks; the load stays even.
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
                let mut host_provider = HostProvider::new(&before, &mut random);
                let chosen = match host_provider.update(&after, Some(current), &mut random) {
                    Rebalance::Stay => current.clone(),
                    Rebalance::Move => host_provider.next(&mut random).0,
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
        let mut host_provider = HostProvider::new(&servers(&["a", "b"]), &mut random);
        (0..4).for_each(|_| drop(host_provider.next(&mut random)));
        host_provider.prefer(servers(&["b"])[0].clone());
        assert_eq!(host_provider.next(&mut random), (servers(&["b"])[0].clone(), Duration::ZERO));
    }
}
