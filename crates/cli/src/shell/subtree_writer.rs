//! Writes a saved subtree below a node. ACLs that would keep the writer itself out are set at the end, leaves
//! first, and the counters for sequential nodes are raised behind the names that were written.

use zebu_client::{Acl, Client, CreateSpec, Error, Pending, Permissions, Version, path};

use super::failure::{Failure, error_text};
use super::reply::Tally;
use super::subtree::{BATCH, next_sequence, progress, sequence_of};
use super::subtree_file::{SavedNode, SavedTree};

/// A counter is raised by so much at most: each step is a create and a delete.
const RAISE_MAX: i32 = 100_000;
/// Steps in one transaction.
const RAISE_BATCH: i32 = 500;
/// The name of a temporary node.
const STEP_NAME: &str = ".zebu-import";

/// The treatment of existing nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// No node is written if one of them exists.
    Refuse,
    /// Their data and ACL are replaced.
    Overwrite,
}

/// One node to write.
struct Plan<'t> {
    node: &'t SavedNode,
    path: String,
    is_there: bool,
    /// Whether its own ACL is set after its descendants are written.
    is_deferred: bool,
    /// The lowest sequence number of its next sequential child.
    next_sequence: i32,
}

/// Warnings beside the result.
#[derive(Debug, Default)]
pub(crate) struct Warnings(pub(crate) Vec<String>);

/// Writes a subtree below a node. The ancestors of the node must exist.
pub(crate) async fn write(
    client: &Client,
    tree: &SavedTree,
    target: &str,
    existing: Existing,
    is_dry_run: bool,
) -> Result<(Tally, Warnings), Failure> {
    let mut plans = plan(tree, target);
    look_for_present(client, &mut plans).await?;
    // The root is always there and is no reason to refuse.
    let mut in_the_way = plans.iter().filter(|plan| plan.is_there && plan.path != "/").peekable();
    if let (Existing::Refuse, Some(first)) = (existing, in_the_way.peek()) {
        let first = first.path.clone();
        let number = in_the_way.count();
        let text =
            format!("{number} of the nodes are there already, the first is {first}; nothing was written");
        return Err(Failure::text(text));
    }
    let mut tally = Tally::default();
    for plan in &plans {
        tally.bytes += plan.node.data.as_ref().map_or(0, Vec::len) as u64;
        if plan.is_there {
            tally.overwritten += 1;
        } else {
            tally.created += 1;
        }
    }
    let mut warnings = Warnings::default();
    if !is_dry_run {
        let outcome = write_all(client, &plans, &mut warnings).await;
        // Also after a failure: no node may keep the ACL that was meant for the time of writing.
        let restored = set_deferred(client, &plans).await;
        outcome.and(restored)?;
    }
    Ok((tally, warnings))
}

fn plan<'t>(tree: &'t SavedTree, target: &str) -> Vec<Plan<'t>> {
    let prefix = if target == "/" { "" } else { target };
    let mut plans: Vec<Plan<'t>> = Vec::with_capacity(tree.nodes.len());
    // Parents stand before their children: those from the root of the tree to the node before.
    let mut branch: Vec<usize> = Vec::new();
    for node in &tree.nodes {
        while branch.last().is_some_and(|&above| !is_below(&node.path, &plans[above].node.path)) {
            branch.pop();
        }
        if let Some(&parent) = branch.last() {
            let parent = &mut plans[parent];
            parent.is_deferred = !is_open_to_all(&parent.node.acl);
            if let Some(number) = sequence_of(&node.path)
                && parent.node.next_sequence.is_none_or(|next| number < next)
            {
                parent.next_sequence = parent.next_sequence.max(number.saturating_add(1));
            }
        }
        let path = match format!("{prefix}{}", node.path) {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        };
        branch.push(plans.len());
        plans.push(Plan { node, path, is_there: false, is_deferred: false, next_sequence: 0 });
    }
    plans
}

/// Whether a relative path is below another one.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether everyone may create and delete below a node with this ACL.
fn is_open_to_all(acl: &[Acl]) -> bool {
    let wanted = Permissions::CREATE | Permissions::DELETE;
    let of_world = |entry: &&Acl| entry.id.scheme.as_deref() == Some("world");
    acl.is_empty() || acl.iter().filter(of_world).any(|entry| entry.perms & wanted == wanted)
}

async fn look_for_present(client: &Client, plans: &mut [Plan<'_>]) -> Result<(), Failure> {
    for batch in plans.chunks_mut(BATCH) {
        let asked: Vec<_> = batch.iter().map(|plan| client.exists(&plan.path).send()).collect();
        for (plan, answer) in batch.iter_mut().zip(asked) {
            plan.is_there = answer.await?.is_some();
        }
    }
    Ok(())
}

async fn write_all(client: &Client, plans: &[Plan<'_>], warnings: &mut Warnings) -> Result<(), Failure> {
    let own = match plans.iter().any(|plan| plan.is_deferred) {
        true => own_acl(client).await,
        false => Vec::new(),
    };
    let bar = progress(plans.len());
    for batch in plans.chunks(BATCH) {
        let mut sent: Vec<(&str, Vec<Pending<()>>)> = Vec::new();
        for plan in batch {
            let calls =
                if plan.is_there { overwrite(client, plan, &own) } else { create(client, plan, &own) };
            sent.push((&plan.path, calls));
            bar.inc(1);
        }
        for (path, calls) in sent {
            for call in calls {
                call.await.map_err(|error| half_done(&error, path))?;
            }
        }
    }
    bar.finish_and_clear();
    for plan in plans.iter().filter(|plan| plan.next_sequence > 0) {
        raise_counter(client, plan, warnings).await?;
    }
    Ok(())
}

fn half_done(error: &Error, path: &str) -> Failure {
    Failure::text(format!("{}; other nodes may have been written", error_text(error, Some(path))))
}

/// The ACL during the write: the credentials of this session, else its address. If the server reports
/// neither, every client may write and none may read.
async fn own_acl(client: &Client) -> Vec<Acl> {
    let identities = client.who_am_i().await.unwrap_or_default();
    if identities.iter().any(|identity| !matches!(identity.scheme.as_str(), "ip" | "world")) {
        return vec![Acl::new(Permissions::ALL, "auth", "")];
    }
    match identities.iter().find(|identity| identity.scheme == "ip") {
        Some(ip) => vec![Acl::new(Permissions::ALL, "ip", ip.user.as_str())],
        None => vec![Acl::new(Permissions::ALL & !Permissions::READ, "world", "anyone")],
    }
}

/// Entries whose scheme is `auth` never come back from a server; everything else is written as it was.
fn final_acl(node: &SavedNode) -> Vec<Acl> {
    if node.acl.is_empty() { Acl::open() } else { node.acl.clone() }
}

fn create(client: &Client, plan: &Plan<'_>, own: &[Acl]) -> Vec<Pending<()>> {
    let acl = if plan.is_deferred { own.to_vec() } else { final_acl(plan.node) };
    let mut create = client.create(&plan.path).acl(acl);
    create = match &plan.node.data {
        Some(data) => create.data(data.clone()),
        None => create.null_data(),
    };
    let sent = create.send();
    vec![Box::pin(async move { sent.await.map(drop) })]
}

fn overwrite(client: &Client, plan: &Plan<'_>, own: &[Acl]) -> Vec<Pending<()>> {
    let mut calls: Vec<Pending<()>> = Vec::new();
    if plan.is_deferred {
        let opened = client.set_acl(&plan.path, own.to_vec()).send();
        calls.push(Box::pin(async move { opened.await.map(drop) }));
    }
    let set = client.set(&plan.path, plan.node.data.clone().unwrap_or_default()).version(Version::Any).send();
    calls.push(Box::pin(async move { set.await.map(drop) }));
    if !plan.is_deferred {
        let acl = client.set_acl(&plan.path, final_acl(plan.node)).send();
        calls.push(Box::pin(async move { acl.await.map(drop) }));
    }
    calls
}

/// Sets the ACLs that had to wait, leaves first. All are tried; the first failure is told.
async fn set_deferred(client: &Client, plans: &[Plan<'_>]) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let deferred: Vec<&Plan<'_>> = plans.iter().rev().filter(|plan| plan.is_deferred).collect();
    for batch in deferred.chunks(BATCH) {
        let sent: Vec<_> =
            batch.iter().map(|plan| client.set_acl(&plan.path, final_acl(plan.node)).send()).collect();
        for (plan, call) in batch.iter().zip(sent) {
            let set = call.await.map(drop).map_err(|error| half_done(&error, &plan.path));
            outcome = outcome.and(set);
        }
    }
    outcome
}

/// Creates and deletes a node below the parent until its counter has passed the names that were written.
async fn raise_counter(client: &Client, plan: &Plan<'_>, warnings: &mut Warnings) -> Result<(), Failure> {
    let failed = |error: Error| half_done(&error, &plan.path);
    let Some(stat) = client.exists(&plan.path).await.map_err(failed)? else { return Ok(()) };
    let next = next_sequence(&stat);
    let mut missing = plan.next_sequence.saturating_sub(next);
    if missing > RAISE_MAX {
        warnings.0.push(format!(
            "{}: the next sequential node gets the number {next}, but numbers up to {} are in use below it: creates will \
             collide until then",
            plan.path,
            plan.next_sequence - 1
        ));
        return Ok(());
    }
    let step = path::join(&plan.path, STEP_NAME);
    while missing > 0 {
        let steps = missing.min(RAISE_BATCH);
        let mut transaction = client.transaction();
        for _ in 0..steps {
            transaction.create(&step, CreateSpec::new());
            transaction.delete(&step, Version::Any);
        }
        transaction.send().await.map_err(failed)?;
        missing -= steps;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, acl: Vec<Acl>, next_sequence: Option<i32>) -> SavedNode {
        SavedNode { path: path.to_owned(), data: None, acl, next_sequence }
    }

    #[test]
    fn parents_that_keep_the_writer_out_wait() {
        let read_only = || vec![Acl::new(Permissions::READ, "world", "anyone")];
        let tree = SavedTree {
            root: "/x".to_owned(),
            nodes: vec![
                node("", Acl::open(), None),
                node("/ro", read_only(), None),
                node("/ro/leaf", read_only(), None),
                node("/row", read_only(), None),
            ],
        };
        let planned: Vec<(String, bool)> =
            plan(&tree, "/y").into_iter().map(|plan| (plan.path, plan.is_deferred)).collect();
        let expected = [("/y", false), ("/y/ro", true), ("/y/ro/leaf", false), ("/y/row", false)]
            .map(|(path, is)| (path.to_owned(), is));
        assert_eq!(planned, expected);
    }

    #[test]
    fn counters_pass_the_names_that_a_server_gave() {
        let next = |counter: Option<i32>, names: &[&str]| {
            let mut nodes = vec![node("", Acl::open(), counter)];
            nodes.extend(names.iter().map(|name| node(&format!("/{name}"), Acl::open(), None)));
            plan(&SavedTree { root: "/q".to_owned(), nodes }, "/q")[0].next_sequence
        };
        assert_eq!(next(None, &["q-0000000002", "plain"]), 3);
        assert_eq!(next(Some(9), &["q-0000000002", "q-0000000005"]), 6);
        // A telephone number was not given by a server whose counter is small.
        assert_eq!(next(Some(1), &["0301234567"]), 0);
        assert_eq!(next(None, &["short-1", "q-9999999999"]), 0);
        assert_eq!(sequence_of("/ä000000001"), None);
    }
}
