//! Groups and weights: the same file on all, the same text from all, the loss of a group, other groups.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use zebu_client::{Client, ErrorCode};

use super::Launches;
use super::seats::{Digests, Kind, Seats, Vote};

/// The numbers show the order of ZooKeeper's lists, as far as they show one: those that differ by 16 come as
/// it happens. The last voter leads the first epoch.
const VOTERS: [u8; 6] = [2, 3, 5, 16, 17, 20];

const OBSERVER: u8 = 7;

const GROUPS: &str = "group.1=2:3\ngroup.20=5:16\ngroup.3=17:20\nweight.3=0\nweight.16=3\n";

/// Six voters, every group with one of each kind, and an observer.
fn seats(home: &Path, launches: &Launches, kinds: [Kind; 2], lines: &str) -> Result<Seats> {
    let voters = VOTERS.iter().enumerate().map(|(index, &id)| (id, kinds[index % 2], Vote::Participant));
    let members: Vec<_> = voters.chain([(OBSERVER, kinds[0], Vote::Observer)]).collect();
    let mut seats = Seats::new(home, launches, &members, &format!("{lines}{GROUPS}"))?;
    // Slow servers start first: they are no quorum, so all servers take part in the first election.
    let (slow, quick): (Vec<u8>, Vec<u8>) =
        seats.ids().into_iter().partition(|&id| seats.kind(id).is_ok_and(|kind| kind == Kind::Apache));
    seats.start_all(&slow)?;
    for id in slow {
        seats.until("a server that answers", || seats.answers(id).then_some(()))?;
    }
    seats.start_all(&quick)?;
    let leader = seats.await_leader(&seats.ids())?;
    ensure!(seats.kind(leader)? == kinds[1], "server {leader} leads");
    Ok(seats)
}

fn block_on<T>(test: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

/// What a server shows of the members.
fn text(seats: &Seats, id: u8) -> Result<String> {
    block_on(async {
        let client = Client::connect(&seats.address(id)?.to_string()).await?;
        client.sync("/").await?;
        let config = client.config().await?;
        client.close().await?;
        Ok(config.text)
    })
}

fn same_text_everywhere(seats: &Seats, ids: &[u8]) -> Result<String> {
    let first = text(seats, ids[0])?;
    for &id in &ids[1..] {
        let other = text(seats, id)?;
        ensure!(other == first, "servers {} and {id} show different members:\n{first}\n\n{other}", ids[0]);
    }
    Ok(first)
}

fn write(seats: &Seats, ids: &[u8], path: &str) -> Result<()> {
    block_on(async {
        let client = Client::connect(&seats.addresses(ids)?).await?;
        client.create(path).await?;
        client.close().await?;
        Ok(())
    })
}

/// Takes a group away that the leader is not in, and gives it back.
fn lose_a_group(seats: &mut Seats) -> Result<()> {
    let leader = seats.await_leader(&seats.ids())?;
    let group = if [17, 20].contains(&leader) { [5, 16] } else { [17, 20] };
    group.iter().try_for_each(|&id| seats.kill(id))?;
    let left: Vec<u8> = seats.ids().into_iter().filter(|id| !group.contains(id)).collect();
    write(seats, &left, "/without-a-group")?;
    seats.start_all(&group)?;
    seats.await_leader(&seats.ids())?;
    Ok(())
}

/// Every server shows the list of its own file.
pub(super) fn fixed(home: &Path, launches: &Launches, kinds: [Kind; 2]) -> Result<()> {
    let mut seats = seats(home, launches, kinds, "")?;
    let text = same_text_everywhere(&seats, &seats.ids())?;
    ensure!(text.contains("group.3=17:20\ngroup.20=16:5\n") && text.ends_with("version=0"), "{text}");
    ensure!(!text.contains("weight.7="), "an observer has no weight:\n{text}");
    write(&seats, &VOTERS, "/in-groups")?;
    lose_a_group(&mut seats)?;
    let leader = seats.await_leader(&seats.ids())?;
    seats.kill(leader)?;
    let left: Vec<u8> = seats.ids().into_iter().filter(|&id| id != leader).collect();
    seats.await_leader(&left)?;
    write(&seats, &left, "/next-leader")?;
    seats.start(leader)?;
    seats.await_leader(&seats.ids())?;
    seats.compare(&seats.ids(), Digests::OfAll)
}

/// The list has versions, is in files, and is replaced as a whole.
pub(super) fn changing(home: &Path, launches: &Launches, kinds: [Kind; 2]) -> Result<()> {
    let mut seats = seats(home, launches, kinds, "reconfigEnabled=true\n")?;
    same_text_everywhere(&seats, &seats.ids())?;
    same_files_everywhere(&seats, "group.3=17:20")?;
    block_on(async {
        let client = Client::connect(&seats.addresses(&VOTERS)?).await?;
        let refused = client.reconfigure().leave(2).await;
        let code = refused.err().and_then(|error| error.code());
        ensure!(code == Some(ErrorCode::BadArguments), "a change of one member was answered {code:?}");
        let mut change = client.reconfigure();
        for line in seats.lines() {
            change = change.member(&line);
        }
        for line in ["group.18=2:5:17", "group.2=3:16:20", "weight.2=2", "weight.5=0"] {
            change = change.member(line);
        }
        let config = change.await.context("the whole list anew")?;
        ensure!(config.text.contains("\ngroup.2=16:3:20\ngroup.18=17:2:5\n"), "{}", config.text);
        ensure!(config.text.contains("weight.5=0"), "{}", config.text);
        client.create("/in-other-groups").await?;
        client.close().await?;
        Ok(())
    })?;
    seats.await_leader(&seats.ids())?;
    same_text_everywhere(&seats, &seats.ids())?;
    same_files_everywhere(&seats, "group.18=")?;
    for id in seats.ids() {
        seats.kill(id)?;
    }
    seats.start_all(&seats.ids())?;
    seats.await_leader(&seats.ids())?;
    write(&seats, &VOTERS, "/after-a-restart")?;
    same_text_everywhere(&seats, &seats.ids())?;
    seats.compare(&seats.ids(), Digests::OfAll)
}

/// The lists that the servers keep are the same, byte by byte.
fn same_files_everywhere(seats: &Seats, wanted: &str) -> Result<()> {
    let file = |id: u8| {
        let text = fs::read_to_string(seats.config(id)).ok()?;
        let path = text.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="))?.to_owned();
        let version = path.rsplit_once('.')?.1.to_owned();
        let list = fs::read(&path).ok()?;
        String::from_utf8_lossy(&list).contains(wanted).then_some((version, list))
    };
    let first = seats.until("a list with the groups in a file", || file(VOTERS[0]))?;
    for id in seats.ids() {
        let other = seats.until(&format!("a list with the groups in a file of server {id}"), || file(id))?;
        ensure!(
            first == other,
            "servers 1 and {id} keep different lists:\n{}\n\n{}",
            String::from_utf8_lossy(&first.1),
            String::from_utf8_lossy(&other.1)
        );
    }
    Ok(())
}
