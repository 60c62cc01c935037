//! A network of hosts in namespaces of their own: each has an IPv4 and an IPv6 address on one bridge, and
//! names that resolve to either or both. Links can be cut in one direction, made slow or lossy, and made to
//! forget connections. It owns no process and refuses to run outside of a namespace that the command made:
//! everything ends with it.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The last part of the address of this program.
const OPERATOR: u8 = 254;

/// Bytes that a slow link sends at once.
const BURST: &str = "64kb";

/// How long a packet may wait for a slow link before it is dropped.
const QUEUE: &str = "2s";

/// Which kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The word of nftables for its addresses.
    fn word(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// The hosts, numbered from 1.
#[derive(Debug)]
pub(crate) struct Lab {
    hosts: u8,
}

impl Lab {
    /// Makes the hosts, and names for them: `zkN` has both addresses, `zkN-v4` and `zkN-v6` have one.
    pub(crate) fn new(hosts: u8, home: &Path) -> Result<Lab> {
        ensure!(hosts < OPERATOR, "too many hosts");
        // Names of namespaces are files in this directory; these are not to stay.
        run(&["mkdir", "-p", "/run/netns"])?;
        run(&["mount", "-t", "tmpfs", "tmpfs", "/run/netns"])?;
        run(&["ip", "link", "set", "lo", "up"])?;
        run(&["ip", "link", "add", "lab", "type", "bridge"])?;
        set_addresses(&[], "lab", OPERATOR)?;
        for host in 1..=hosts {
            let (space, inside, outside) = (space(host), "eth0".to_owned(), format!("port{host}"));
            run(&["ip", "netns", "add", &space])?;
            run(&["ip", "link", "add", &outside, "type", "veth", "peer", "name", &inside, "netns", &space])?;
            run(&["ip", "link", "set", &outside, "master", "lab", "up"])?;
            run(&["ip", "-n", &space, "link", "set", "lo", "up"])?;
            set_addresses(&["-n", &space], &inside, host)?;
            nft(host, "add table inet lab")?;
            nft(host, "add chain inet lab in { type filter hook input priority 0; }")?;
            nft(host, "add chain inet lab out { type filter hook output priority 0; }")?;
        }
        let lab = Lab { hosts };
        lab.write_names(home)?;
        Ok(lab)
    }

    fn write_names(&self, home: &Path) -> Result<()> {
        let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for host in 1..=self.hosts {
            let (four, six) = (address(host, Family::V4), address(host, Family::V6));
            text += &format!("{six} zk{host} zk{host}-v6\n{four} zk{host} zk{host}-v4\n");
        }
        let file = home.join("hosts");
        fs::write(&file, text)?;
        let file = file.to_str().context("the directory has a name that is no text")?;
        run(&["mount", "--bind", file, "/etc/hosts"])
    }

    /// Drops what `from` sends to `to`, without a word to either.
    pub(crate) fn silence(&self, from: u8, to: u8) -> Result<()> {
        for family in [Family::V4, Family::V6] {
            let source = address(from, family);
            nft(to, &format!("add rule inet lab in {} saddr {source} drop", family.word()))?;
        }
        Ok(())
    }

    /// Drops what `from` and all others send each other, in both directions.
    pub(crate) fn isolate(&self, host: u8) -> Result<()> {
        for other in (1..=self.hosts).filter(|other| *other != host) {
            self.silence(host, other)?;
            self.silence(other, host)?;
        }
        Ok(())
    }

    /// Drops every packet of one kind of address between the hosts.
    pub(crate) fn without(&self, family: Family) -> Result<()> {
        for host in 1..=self.hosts {
            for other in (1..=self.hosts).filter(|other| *other != host) {
                let source = address(other, family);
                nft(host, &format!("add rule inet lab in {} saddr {source} drop", family.word()))?;
            }
        }
        Ok(())
    }

    /// Loses some packets of a host at random.
    pub(crate) fn lossy(&self, host: u8, percent: u8) -> Result<()> {
        nft(host, &format!("add rule inet lab out numgen random mod 100 < {percent} drop"))
    }

    /// Sends no faster than this.
    pub(crate) fn slow(&self, host: u8, megabits: u32) -> Result<()> {
        let (space, rate) = (space(host), format!("{megabits}mbit"));
        let words = ["tc", "-n", &space, "qdisc", "replace", "dev", "eth0", "root", "tbf"];
        run(&[&words[..], &["rate", &rate, "burst", BURST, "latency", QUEUE]].concat())?;
        let port = format!("port{host}");
        let words = ["tc", "qdisc", "replace", "dev", &port, "root", "tbf"];
        run(&[&words[..], &["rate", &rate, "burst", BURST, "latency", QUEUE]].concat())
    }

    /// Drops the packets of every connection from or to this port that exists now, as a firewall does whose
    /// table has lost them; new connections pass. Returns how many there are.
    pub(crate) fn forget_connections(&self, port: u16) -> Result<usize> {
        let mut forgotten = 0;
        for host in 1..=self.hosts {
            let filter = format!("( sport = :{port} or dport = :{port} )");
            let words = ["ip", "netns", "exec", &space(host), "ss", "-tnH", "state", "established", &filter];
            for line in output(&words)?.lines() {
                let Some((local, remote)) = ends(line) else { continue };
                let (family, peer) = match remote.0 {
                    IpAddr::V4(peer) => ("ip", peer.to_string()),
                    IpAddr::V6(peer) => ("ip6", peer.to_string()),
                };
                let ports = format!("tcp sport {} tcp dport {}", remote.1, local.1);
                nft(host, &format!("add rule inet lab in {family} saddr {peer} {ports} drop"))?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Takes all of it back.
    pub(crate) fn heal(&self) -> Result<()> {
        for host in 1..=self.hosts {
            nft(host, "flush chain inet lab in")?;
            nft(host, "flush chain inet lab out")?;
            // An error says that the link was not slow.
            let _ = run(&["tc", "-n", &space(host), "qdisc", "del", "dev", "eth0", "root"]);
            let _ = run(&["tc", "qdisc", "del", "dev", &format!("port{host}"), "root"]);
        }
        Ok(())
    }
}

/// The namespace of a host.
fn space(host: u8) -> String {
    format!("host{host}")
}

/// A command that runs on a host.
pub(crate) fn on(host: u8) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &space(host)]);
    command
}

/// The address of a host.
pub(crate) fn address(host: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 0, host).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

fn set_addresses(place: &[&str], device: &str, host: u8) -> Result<()> {
    let four = format!("{}/24", address(host, Family::V4));
    let six = format!("{}/64", address(host, Family::V6));
    run(&[&["ip"], place, &["addr", "add", &four, "dev", device]].concat())?;
    // Without the search for duplicates, which takes a second.
    run(&[&["ip"], place, &["-6", "addr", "add", &six, "dev", device, "nodad"]].concat())?;
    run(&[&["ip"], place, &["link", "set", device, "up"]].concat())
}

fn nft(host: u8, rule: &str) -> Result<()> {
    run(&["ip", "netns", "exec", &space(host), "nft", rule])
}

/// The two ends of a connection in a line of `ss`: queues, the local end, the remote end.
fn ends(line: &str) -> Option<((IpAddr, u16), (IpAddr, u16))> {
    let mut words = line.split_whitespace().skip(2);
    let mut end = || {
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        Some((host.to_canonical(), port.parse().ok()?))
    };
    Some((end()?, end()?))
}

/// Runs a program to its end.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    output(words).map(drop)
}

fn output(words: &[&str]) -> Result<String> {
    let (program, rest) = words.split_first().context("an empty command")?;
    let done = Command::new(program).args(rest).output().with_context(|| {
        format!("cannot run {program}; the packages iproute2 and nftables have what is needed")
    })?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{}: {}", words.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_connection_are_read() {
        let four = ends("0      0          10.77.0.1:3888     10.77.0.2:41000 ").expect("two ends");
        assert_eq!(four, (("10.77.0.1".parse().unwrap(), 3888), ("10.77.0.2".parse().unwrap(), 41000)));
        let six = ends("0 0 [::ffff:10.77.0.1]:3888 [fd77::2]:41000").expect("two ends");
        assert_eq!(six, (("10.77.0.1".parse().unwrap(), 3888), ("fd77::2".parse().unwrap(), 41000)));
        assert_eq!(ends("nothing"), None);
    }
}
