//! Quotas: the subtrees with a quota, their usage, and whether a request would exceed it.
//!
//! Usage is stored in the data of a node next to the limits, rewritten in place without a transaction.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::{Buffer, ErrorCode};

use crate::access::{Policy, QuotaEnforcement};
use crate::data_store::NewData;
use crate::node::NodeId;
use crate::path::{self, QUOTA};
use crate::quota::text::QuotaText;
use crate::tree::Tree;

const LIMITS: &str = "zookeeper_limits";

/// Limits of the complete tree. They have no effect, but a ZooKeeper server that finds such a node exits, at
/// every start on the directory.
pub(crate) fn breaks_apache(path: &str) -> bool {
    path.strip_prefix(QUOTA).and_then(|rest| rest.strip_prefix('/')) == Some(LIMITS)
}

const STATS: &str = "zookeeper_stats";

/// Paths with a quota. Usually empty, and then there is no lookup.
#[derive(Debug, Default)]
pub(crate) struct QuotaRoots {
    paths: BTreeSet<Box<str>>,
}

impl QuotaRoots {
    /// The deepest path with a quota that contains `path`.
    fn above<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.paths.is_empty() {
            return None;
        }
        path::self_and_ancestors(path).find(|path| self.paths.contains(*path))
    }
}

/// The path whose quota a node below `/zookeeper/quota` defines, if it has this name. A quota on the root
/// does not exist.
fn subject<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let holder = path.strip_suffix(name)?.strip_suffix('/')?;
    holder.strip_prefix(QUOTA).filter(|subject| subject.starts_with('/'))
}

fn limits_path(root: &str) -> String {
    format!("{QUOTA}{root}/{LIMITS}")
}

fn stats_path(root: &str) -> String {
    format!("{QUOTA}{root}/{STATS}")
}

/// Limits and usage of a quota; -1 without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The limit of nodes, the hard one if there is one.
    pub count_limit: i64,
    /// Nodes.
    pub count: i64,
    /// The limit of bytes, the hard one if there is one.
    pub bytes_limit: i64,
    /// Bytes of data.
    pub bytes: i64,
}

impl Tree {
    /// Limits and usage by first path component. Of several quotas, the one next to the root counts.
    pub fn quota_usage(&self) -> Vec<(Box<str>, QuotaUsage)> {
        let mut quotas: Vec<(Box<str>, QuotaUsage)> = Vec::new();
        for root in &self.quotas.paths {
            let namespace = root.split('/').nth(1).unwrap_or_default();
            if quotas.last().is_some_and(|(last, _)| **last == *namespace) {
                continue;
            }
            let text_of =
                |path: String| QuotaText::parse(self.nodes.data(self.nodes.get(self.find(&path)?))?);
            let (Some(limits), Some(usage)) = (text_of(limits_path(root)), text_of(stats_path(root))) else {
                continue;
            };
            let preferred = |hard: i64, soft: i64| if hard > -1 { hard } else { soft };
            let quota = QuotaUsage {
                count_limit: preferred(limits.count_hard_limit(), limits.count()),
                count: usage.count(),
                bytes_limit: preferred(limits.byte_hard_limit(), limits.bytes()),
                bytes: usage.bytes(),
            };
            quotas.push((namespace.into(), quota));
        }
        quotas
    }

    /// A node was created.
    pub(crate) fn quota_created(&mut self, path: &str, id: NodeId) {
        if let Some(root) = subject(path, LIMITS) {
            self.quotas.paths.insert(root.into());
        }
        if let Some(root) = subject(path, STATS) {
            self.recount_usage(root, id);
        }
        if let Some(root) = self.quotas.above(path) {
            let bytes = self.nodes.get(id).data_length();
            self.adjust_usage(root, 1, bytes as i64);
        }
    }

    /// A node with this length of data was deleted.
    pub(crate) fn quota_deleted(&mut self, path: &str, data_length: usize) {
        if let Some(root) = subject(path, LIMITS) {
            self.quotas.paths.remove(root);
        }
        if let Some(root) = self.quotas.above(path) {
            self.adjust_usage(root, -1, -(data_length as i64));
        }
    }

    /// Data was replaced.
    pub(crate) fn quota_data_set(&mut self, path: &str, before: usize, after: usize) {
        if let Some(root) = self.quotas.above(path) {
            self.adjust_usage(root, 0, after as i64 - before as i64);
        }
    }

    /// After loading: finds all quotas and counts their usage.
    pub(crate) fn rebuild_quotas(&mut self) {
        self.quotas.paths.clear();
        let Some(top) = self.find(QUOTA) else {
            return;
        };
        let nodes: Vec<NodeId> = self.descendants(top).collect();
        for id in nodes {
            match self.nodes.get(id).name.as_str() {
                LIMITS => {
                    let path = self.path_of(id);
                    self.quotas.paths.extend(subject(&path, LIMITS).map(Box::from));
                }
                STATS => {
                    let path = self.path_of(id);
                    if let Some(root) = subject(&path, STATS) {
                        self.recount_usage(root, id);
                    }
                }
                _ => {}
            }
        }
    }

    /// Counts the subtree, its root included.
    fn recount_usage(&mut self, root: &str, stats: NodeId) {
        let (mut count, mut bytes) = (0_i64, 0_i64);
        if let Some(top) = self.find(root) {
            for id in self.descendants(top).chain([top]) {
                count += 1;
                bytes += self.nodes.get(id).data_length() as i64;
            }
        }
        self.write_usage(stats, &QuotaText::usage(count, bytes));
    }

    fn adjust_usage(&mut self, root: &str, count: i64, bytes: i64) {
        let Some(stats) = self.find(&stats_path(root)) else {
            return;
        };
        match QuotaText::parse(self.nodes.data(self.nodes.get(stats)).unwrap_or_default()) {
            Some(mut usage) => {
                usage.adjust(count, bytes);
                self.write_usage(stats, &usage);
            }
            // A client wrote invalid text to it.
            None => self.recount_usage(root, stats),
        }
    }

    /// No version, no zxid, no watch: the change is not requested by a client.
    fn write_usage(&mut self, stats: NodeId, usage: &QuotaText) {
        let data: Arc<[u8]> = usage.to_string().into_bytes().into();
        let before = self.nodes.get(stats).data_length();
        self.data_size = self.data_size.saturating_sub(before) + data.len();
        self.nodes.set_data(stats, NewData::Borrowed(Some(&data)));
    }

    /// Whether a new node is within the quota.
    pub(crate) fn check_create_quota(
        &self,
        path: &str,
        data: &Buffer,
        policy: &Policy,
    ) -> Result<(), ErrorCode> {
        self.check_quota(path, 1, data.as_ref().map_or(0, |data| data.len()) as i64, policy)
    }

    /// Whether new data is within the quota.
    pub(crate) fn check_set_data_quota(
        &self,
        path: &str,
        before: usize,
        data: &Buffer,
        policy: &Policy,
    ) -> Result<(), ErrorCode> {
        let after = data.as_ref().map_or(0, |data| data.len());
        self.check_quota(path, 0, after as i64 - before as i64, policy)
    }

    /// Only hard limits refuse; usage is the applied one.
    fn check_quota(&self, path: &str, count: i64, bytes: i64, policy: &Policy) -> Result<(), ErrorCode> {
        if policy.quota == QuotaEnforcement::Off {
            return Ok(());
        }
        let Some(root) = self.quotas.above(path) else {
            return Ok(());
        };
        let text_of = |path: String| QuotaText::parse(self.nodes.data(self.nodes.get(self.find(&path)?))?);
        let (Some(limits), Some(usage)) = (text_of(limits_path(root)), text_of(stats_path(root))) else {
            return Ok(());
        };
        let exceeds = |difference: i64, used: i64, limit: i64| {
            difference != 0 && limit > -1 && used.saturating_add(difference) > limit
        };
        if exceeds(count, usage.count(), limits.count_hard_limit())
            || exceeds(bytes, usage.bytes(), limits.byte_hard_limit())
        {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }
}
