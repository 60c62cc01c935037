//! Whether an ensemble may lose a server now, and which server is next. Pure.

use crate::monitor::roles::{Role, lag, verdict, zxid};
use crate::monitor::tree_digests::{self, TreeDigests};

/// What one look at all servers showed.
pub(super) struct EnsembleLook {
    pub(super) roles: Vec<Role>,
    /// The digests of each server's tree; empty if it tells none.
    pub(super) digests: Vec<TreeDigests>,
}

impl EnsembleLook {
    /// Whether all serve, one leads, and none is far behind. The error says what is missing.
    pub(super) fn health(&self, lag_max: u64) -> Result<(), String> {
        verdict(&self.roles)?;
        let newest = self.roles.iter().filter_map(|role| zxid(role.state.as_ref().ok()?)).max();
        for role in &self.roles {
            let Ok(sample) = &role.state else { continue };
            match lag(sample, newest) {
                Some(behind) if behind <= lag_max => {}
                // A server that has applied nothing of the new epoch yet, while no client writes.
                None if sample.epoch.is_some() && sample.epoch == self.epoch() => {}
                Some(behind) => return Err(format!("{} is {behind} transactions behind", role.address)),
                None => return Err(format!("{} is an epoch behind", role.address)),
            }
        }
        Ok(())
    }

    /// The epoch of the leader, if it tells.
    fn epoch(&self) -> Option<u64> {
        let leader = self.leader()?;
        self.roles[leader].state.as_ref().ok()?.epoch
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.roles.iter().position(|role| role.state.as_ref().is_ok_and(|sample| sample.mode == "leader"))
    }

    /// Whether the voters that are up, without the next server, are a majority. The leader's numbers count:
    /// servers that are not named here may be down. With two voters or one every restart is an outage.
    pub(super) fn may_lose(&self, server: usize) -> Result<(), String> {
        let Some(leader) = self.leader() else { return Ok(()) };
        let Ok(sample) = &self.roles[leader].state else { return Ok(()) };
        let (Some(voters), Some(followers)) = (sample.voters, sample.followers) else { return Ok(()) };
        let is_voter = self.roles[server].state.as_ref().is_ok_and(|sample| sample.mode != "observer");
        let left = (followers + 1).saturating_sub(u64::from(is_voter));
        if voters <= 2 || left > voters / 2 {
            return Ok(());
        }
        let up = followers + 1;
        Err(format!(
            "{up} of {voters} voters are up: without {} no quorum is left",
            self.roles[server].address
        ))
    }

    /// Milliseconds since the start of a server, if it serves and tells.
    pub(super) fn uptime_ms(&self, server: usize) -> Option<u64> {
        self.roles[server].state.as_ref().ok()?.uptime_ms
    }

    /// Whether any two servers have different trees after the same transaction, or a server has found that
    /// its tree differs from its leader's. Returns the number of transactions at which two servers agree.
    pub(super) fn compare_digests(&self) -> Result<usize, String> {
        let comparison = tree_digests::compare(&self.digests);
        if let Some(difference) = comparison.differences.first() {
            let addresses: Vec<String> = self.roles.iter().map(|role| role.address.clone()).collect();
            return Err(difference.describe(&addresses));
        }
        for role in &self.roles {
            let found = role.state.as_ref().ok().and_then(|sample| sample.disk.digest_mismatches);
            if let Some(count) = found.filter(|&count| count > 0) {
                return Err(format!("{} has found {count} differences to its leader's tree", role.address));
            }
        }
        Ok(comparison.compared.iter().copied().max().unwrap_or_default())
    }
}

/// The next server to restart: the leader last, the others in their order.
pub(super) fn next_server(remaining: &[usize], leader: Option<usize>) -> Option<usize> {
    remaining.iter().copied().find(|&server| Some(server) != leader).or_else(|| remaining.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::sample::Sample;
    use crate::monitor::sample::tests::sample;
    use crate::monitor::tree_digests::parse_digests;

    fn role(address: &str, mode: &str, zxid: &str, epoch: u64) -> Role {
        let state = Sample { mode: mode.into(), zxid: zxid.into(), epoch: Some(epoch), ..sample() };
        Role { address: address.into(), state: Ok(state) }
    }

    fn look(roles: Vec<Role>, digests: &[&str]) -> EnsembleLook {
        EnsembleLook { roles, digests: digests.iter().map(|text| parse_digests(text).unwrap()).collect() }
    }

    #[test]
    fn an_ensemble_is_healthy_when_nobody_is_far_behind() {
        let healthy = |zxid: &str, epoch| {
            look(vec![role("a:1", "leader", "0x200000064", 2), role("b:1", "follower", zxid, epoch)], &[])
                .health(10)
        };
        assert_eq!(healthy("0x20000005a", 2), Ok(()));
        assert_eq!(healthy("0x200000059", 2), Err("b:1 is 11 transactions behind".into()));
        assert_eq!(healthy("0x100000064", 2), Ok(()), "it follows and has nothing of the epoch yet");
        assert_eq!(healthy("0x100000064", 1), Err("b:1 is an epoch behind".into()));
        let silent = Role { address: "b:1".into(), state: Err("not serving".into()) };
        let one = look(vec![role("a:1", "leader", "0x1", 0), silent], &[]);
        assert_eq!(one.health(10), Err("1 of 2 servers do not serve".into()));
    }

    #[test]
    fn differences_of_trees_stop_a_restart() {
        let roles = || vec![role("a:1", "leader", "0x2", 0), role("b:1", "follower", "0x2", 0)];
        assert_eq!(look(roles(), &["80: 5\n100: -7\n", "100: -7\n180: 9\n"]).compare_digests(), Ok(1));
        assert_eq!(look(roles(), &["80: 5\n", "100: 7\n"]).compare_digests(), Ok(0));
        let differs = look(roles(), &["80: 5\n", "80: 6\n"]).compare_digests();
        assert_eq!(differs, Err("different trees after 0x80: a:1 | b:1".into()));
        let mut found = roles();
        if let Ok(sample) = &mut found[1].state {
            sample.disk.digest_mismatches = Some(1);
        }
        assert!(look(found, &["", ""]).compare_digests().unwrap_err().starts_with("b:1 has found 1"));
    }

    #[test]
    fn servers_that_are_not_named_count_for_the_quorum() {
        let may_lose = |voters, followers, mode: &str| {
            let mut roles = vec![role("a:1", "leader", "0x2", 0), role("b:1", mode, "0x2", 0)];
            if let Ok(sample) = &mut roles[0].state {
                (sample.voters, sample.followers) = (voters, followers);
            }
            look(roles, &[]).may_lose(1)
        };
        assert_eq!(may_lose(Some(3), Some(2), "follower"), Ok(()));
        let refused = Err("2 of 3 voters are up: without b:1 no quorum is left".into());
        assert_eq!(may_lose(Some(3), Some(1), "follower"), refused);
        assert_eq!(may_lose(Some(3), Some(1), "observer"), Ok(()), "observers have no vote");
        assert_eq!(may_lose(Some(5), Some(3), "follower"), Ok(()));
        assert!(may_lose(Some(4), Some(2), "follower").is_err());
        assert_eq!(may_lose(Some(2), Some(1), "follower"), Ok(()), "an outage in any case");
        assert_eq!(may_lose(None, Some(1), "follower"), Ok(()), "a leader that does not tell");
    }

    #[test]
    fn the_leader_is_last() {
        assert_eq!(next_server(&[0, 1, 2], Some(0)), Some(1));
        assert_eq!(next_server(&[0, 2], Some(0)), Some(2));
        assert_eq!(next_server(&[0], Some(0)), Some(0));
        assert_eq!(next_server(&[], Some(0)), None);
        assert_eq!(next_server(&[1, 2], None), Some(1));
    }
}
