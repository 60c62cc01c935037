//! `zebu backup apply`: makes a subtree of a living ensemble, or all of it, what it was at a point. Clients
//! keep their sessions, and their watches fire.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;
use zebu_backup::core::apply_plan::{
    ApplyPlan, ApplyStep, ExtraNodes, LiveNode, SERVERS, parents, path_of, plan_apply,
};
use zebu_client::{Client, CreateMode, CreateSpec, ErrorCode, Transaction, Version};
use zebu_tree::Lifetime;

use super::access::AccessArguments;
use super::location::{Location, failure};
use super::point::{PointArguments, state_at};
use super::progress::Counted;
use crate::offline::{Failure, Output, Verdict, acl_text, count, word};
use crate::protection::ProtectionArguments;

/// Nodes that are read at the same time.
const READS_MAX: usize = 64;

/// Operations and bytes of one transaction. Servers refuse longer ones than 1 MiB.
const OPERATIONS_MAX: usize = 200;
const BYTES_MAX: usize = 512 << 10;

/// Make a subtree of a living ensemble, or all of it, what it was at a point
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup apply /backup --path /app --to-time 2026-11-18T12:00:00Z --into zk1:2181 --dry-run
  zebu backup apply /backup --path /app --to-zxid 0x100000010 --into zk1:2181
  zebu backup apply /backup --path /app --to-zxid 0x100000010 --into zk1:2181 --delete
  zebu backup apply /backup --all --to-time 2026-11-18T12:00:00Z --into zk1:2181 --dry-run

The live subtree is read, compared and changed by transactions. Each write has the version that was read as a \
condition: if a client writes meanwhile, the transaction is refused and the command stops; start it again. Nodes that \
the backup lacks stay, unless --delete is given. Missing nodes above the subtree are created as they were. --all is every \
node but those below /zookeeper, which belong to the servers. Ephemeral nodes are neither created nor deleted. Versions and \
counters of sequential nodes are those of the living ensemble.
Exit status: 0 the subtree is as it was, 1 --dry-run and something differs, 2 it was not completed.")]
pub(super) struct Apply {
    /// The place of the backup: a directory, or s3://bucket/prefix
    location: Location,

    #[command(flatten)]
    point: PointArguments,

    /// The node whose subtree is changed
    #[arg(long, value_name = "PATH", required_unless_present = "all")]
    path: Option<String>,

    /// Change all nodes but those below /zookeeper
    #[arg(long, conflicts_with = "path")]
    all: bool,

    /// The living ensemble, host:port,host:port...
    #[arg(long, value_name = "SERVERS")]
    into: String,

    /// Credentials for the ensemble, scheme:credentials; may be given several times
    #[arg(long, value_name = "AUTH")]
    auth: Vec<String>,

    /// Delete nodes that the backup lacks
    #[arg(long)]
    delete: bool,

    /// Only show what would be written
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object per write
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    protection: ProtectionArguments,

    #[command(flatten)]
    access: AccessArguments,
}

impl Apply {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let top = self.top()?;
        let backup = self.location.open(&self.access)?;
        let state = state_at(&backup, self.point.point())?;
        if state.tree.node(top).is_none() {
            return Err(Failure::Text(format!("{} does not exist at that point", word(top))));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failure)?;
        runtime.block_on(async {
            let client = self.connect().await?;
            let live = read_live(&client, top).await?;
            let extra = if self.delete { ExtraNodes::Delete } else { ExtraNodes::Keep };
            let plan = plan_apply(&state.tree, top, &live, extra);
            self.show(&plan)?;
            let done = if self.dry_run { Ok(()) } else { write(&client, plan.steps.clone()).await };
            // The session holds nothing, so that its end need not be confirmed.
            let _ = client.close().await;
            done?;
            Ok(if self.dry_run && !plan.steps.is_empty() { Verdict::Bad } else { Verdict::Good })
        })
    }

    /// The node whose subtree is changed.
    fn top(&self) -> Result<&str, Failure> {
        let path = match &self.path {
            None => return Ok("/"),
            Some(path) => path,
        };
        if path == "/" {
            return Err(Failure::Text("give --all instead of --path / to change all nodes".to_owned()));
        }
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(Failure::Text("--path names a node below the root, as /app".to_owned()));
        }
        if path == SERVERS || path.strip_prefix(SERVERS).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Failure::Text("the nodes below /zookeeper belong to the servers".to_owned()));
        }
        Ok(path)
    }

    async fn connect(&self) -> Result<Client, Failure> {
        let protection = self.protection.open().map_err(failure)?;
        let mut builder = Client::builder(&self.into).map_err(failure)?;
        for auth in &self.auth {
            let (scheme, credentials) = auth.split_once(':').ok_or_else(|| {
                Failure::Text("--auth is scheme:credentials, as digest:user:password".to_owned())
            })?;
            builder = builder.auth(scheme, credentials.to_owned());
        }
        protection.apply(builder).connect().await.map_err(failure)
    }

    fn show(&self, plan: &ApplyPlan) -> Result<(), Failure> {
        let mut out = Output::new();
        for step in &plan.steps {
            if self.json {
                out.json(&as_json(step))?
            } else {
                out.line(text(step))?
            };
        }
        if !self.json {
            let verb = if self.dry_run { "would be written" } else { "are written" };
            let writes = count(plan.steps.len() as u64, "node", "nodes");
            let extra = count(plan.extra.len() as u64, "live node", "live nodes");
            let ephemeral = count(plan.ephemeral.len() as u64, "ephemeral node", "ephemeral nodes");
            out.line(format!(
                "{writes} {verb}; {extra} beyond the backup stay; {ephemeral} of the backup left out"
            ))?;
        }
        out.flush()
    }
}

/// A node with its path and the names of its children; `None` if it is missing.
type ReadNode = Option<(String, LiveNode, Vec<String>)>;

/// Reads a living subtree, and the nodes above it. Missing nodes are left out.
async fn read_live(client: &Client, top: &str) -> Result<BTreeMap<String, LiveNode>, Failure> {
    let mut live = BTreeMap::new();
    for path in parents(top) {
        if let Some((path, node, _)) = read_node(client, path.to_owned()).await.map_err(failure)? {
            live.insert(path, node);
        }
    }
    let bar = Counted::new(0);
    let mut due = vec![top.to_owned()];
    let mut reading: JoinSet<Result<ReadNode, zebu_client::Error>> = JoinSet::new();
    loop {
        while reading.len() < READS_MAX
            && let Some(path) = due.pop()
        {
            let client = client.clone();
            reading.spawn(async move { read_node(&client, path).await });
        }
        let Some(read) = reading.join_next().await else { return Ok(live) };
        if let Some((path, node, children)) = read.map_err(failure)?.map_err(failure)? {
            let parent = if path == "/" { "" } else { path.as_str() };
            let children = children.iter().map(|name| format!("{parent}/{name}"));
            due.extend(children.filter(|path| path != SERVERS));
            live.insert(path, node);
            bar.set(live.len() as u64);
        }
    }
}

/// Reads one node. A node that a client deletes meanwhile is missing.
async fn read_node(client: &Client, path: String) -> Result<ReadNode, zebu_client::Error> {
    let read = async {
        let node = client.get(&path).await?;
        let acl = client.get_acl(&path).await?;
        let children = client.children(&path).await?;
        Ok::<_, zebu_client::Error>((node, acl, children))
    };
    match read.await {
        Ok((node, acl, children)) => {
            let live = LiveNode {
                data: (!node.is_null).then(|| node.data.to_vec()),
                acl: acl.entries,
                version: node.stat.version,
                aversion: acl.stat.aversion,
                is_ephemeral: matches!(
                    Lifetime::of_owner(node.stat.ephemeral_owner, zebu_tree::TtlNodes::Enabled),
                    Lifetime::Session(_)
                ),
            };
            Ok(Some((path, live, children.names)))
        }
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the steps: ACLs one by one, because no transaction has them, all others in transactions.
async fn write(client: &Client, steps: Vec<ApplyStep>) -> Result<(), Failure> {
    let mut transaction = client.transaction();
    let mut bytes = 0;
    let mut first = String::new();
    let bar = Counted::new(steps.len() as u64);
    for (done, step) in (0..).zip(steps) {
        bar.set(done);
        let path = path_of(&step).to_owned();
        if let ApplyStep::SetAcl { path, acl, aversion } = step {
            let full = std::mem::replace(&mut transaction, client.transaction());
            commit(full, &first).await?;
            bytes = 0;
            let set = client.set_acl(&path, acl.to_vec()).version(Version::Exactly(aversion)).await;
            set.map_err(|error| stopped(&path, &error))?;
            continue;
        }
        if transaction.is_empty() {
            first.clone_from(&path);
        }
        bytes += add(&mut transaction, step);
        if transaction.len() >= OPERATIONS_MAX || bytes >= BYTES_MAX {
            let full = std::mem::replace(&mut transaction, client.transaction());
            commit(full, &first).await?;
            bytes = 0;
        }
    }
    commit(transaction, &first).await
}

async fn commit(transaction: Transaction, first: &str) -> Result<(), Failure> {
    if transaction.is_empty() {
        return Ok(());
    }
    transaction.await.map(drop).map_err(|error| stopped(first, &error))
}

fn stopped(path: &str, error: &zebu_client::Error) -> Failure {
    Failure::Text(format!(
        "the transaction that begins with {} was refused: {error}; what stands before it is written; \
         start the command again",
        word(path)
    ))
}

/// Adds a step to a transaction and returns about its bytes.
fn add(transaction: &mut Transaction, step: ApplyStep) -> usize {
    match step {
        ApplyStep::Create { path, data, acl, lifetime } => {
            let bytes = path.len() + data.as_ref().map_or(0, Vec::len);
            let spec = CreateSpec::new().acl(acl.to_vec());
            let spec = match data {
                Some(data) => spec.data(data),
                None => spec.null_data(),
            };
            let spec = match lifetime {
                Lifetime::Container => spec.mode(CreateMode::Container),
                Lifetime::Ttl(ttl_ms) if ttl_ms > 0 => {
                    let ttl = Duration::from_millis(ttl_ms.unsigned_abs());
                    spec.mode(CreateMode::PersistentWithTtl).ttl(ttl)
                }
                Lifetime::Persistent | Lifetime::Session(_) | Lifetime::Ttl(_) | Lifetime::Unknown => spec,
            };
            transaction.create(&path, spec);
            bytes
        }
        ApplyStep::Set { path, data, version } => {
            let bytes = path.len() + data.as_ref().map_or(0, Vec::len);
            match data {
                Some(data) => transaction.set(&path, data, Version::Exactly(version)),
                None => transaction.set_null(&path, Version::Exactly(version)),
            };
            bytes
        }
        ApplyStep::Delete { path, version } => {
            transaction.delete(&path, Version::Exactly(version));
            path.len()
        }
        // The caller writes ACLs itself.
        ApplyStep::SetAcl { .. } => 0,
    }
}

fn text(step: &ApplyStep) -> String {
    let path = word(path_of(step)).into_owned();
    let length = |data: &Option<Vec<u8>>| count(data.as_ref().map_or(0, Vec::len) as u64, "byte", "bytes");
    match step {
        ApplyStep::Create { data, .. } => format!("+ {path} {}", length(data)),
        ApplyStep::Set { data, version, .. } => format!("~ {path} {}, if version {version}", length(data)),
        ApplyStep::SetAcl { acl, aversion, .. } => {
            format!("~ {path} acl {}, if acl version {aversion}", acl_text(Some(acl)))
        }
        ApplyStep::Delete { version, .. } => format!("- {path} if version {version}"),
    }
}

fn as_json(step: &ApplyStep) -> serde_json::Value {
    let (write, version) = match step {
        ApplyStep::Create { .. } => ("create", None),
        ApplyStep::Set { version, .. } => ("set", Some(*version)),
        ApplyStep::SetAcl { aversion, .. } => ("set acl", Some(*aversion)),
        ApplyStep::Delete { version, .. } => ("delete", Some(*version)),
    };
    json!({ "write": write, "path": path_of(step), "if_version": version })
}
