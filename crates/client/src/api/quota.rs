//! Quotas: nodes under `/zookeeper/quota` in the text format of ZooKeeper's servers and tools.

use zebu_proto::{Acl, ErrorCode};

use super::client::Client;
use super::compression::Compression;
use super::create::Parents;
use super::error::Error;
use super::types::Version;

const QUOTA_ROOT: &str = "/zookeeper/quota";

/// The limits of a subtree. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QuotaLimits {
    /// The number of nodes beyond which servers warn.
    pub count: Option<i64>,
    /// The bytes of data beyond which servers warn.
    pub bytes: Option<i64>,
    /// The number of nodes beyond which servers refuse writes, if they enforce quotas.
    pub count_hard: Option<i64>,
    /// The bytes of data beyond which servers refuse writes, if they enforce quotas.
    pub bytes_hard: Option<i64>,
}

/// The usage of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QuotaUsage {
    /// The number of nodes, including the root of the subtree.
    pub count: i64,
    /// Bytes of data.
    pub bytes: i64,
}

/// A quota and its usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The limits.
    pub limits: QuotaLimits,
    /// The usage.
    pub usage: QuotaUsage,
}

fn value(text: &str, key: &str) -> Option<i64> {
    let parts = text.split([',', ';']);
    let found = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| *name == key);
    // The byte count may be followed by a stray "=", which old parsers need.
    found.and_then(|(_, value)| value.trim_end_matches('=').parse().ok()).filter(|value| *value >= 0)
}

impl QuotaLimits {
    fn parse(text: &str) -> QuotaLimits {
        QuotaLimits {
            count: value(text, "count"),
            bytes: value(text, "bytes"),
            count_hard: value(text, "countHardLimit"),
            bytes_hard: value(text, "byteHardLimit"),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.count.unwrap_or(-1), self.bytes.unwrap_or(-1));
        let hard = [("byteHardLimit", self.bytes_hard), ("countHardLimit", self.count_hard)];
        let mut separator = "=;";
        for (key, limit) in hard {
            if let Some(limit) = limit {
                text.push_str(&format!("{separator}{key}={limit}"));
                separator = ";";
            }
        }
        text
    }
}

impl Client {
    fn quota_view(&self, path: &str) -> Result<(Client, String), Error> {
        let full = self.resolve("quota", path)?;
        if full == "/" {
            return Err(self.invalid("quota", path, "servers ignore a quota on the root"));
        }
        let outside = Client {
            root: "".into(),
            acl: Acl::open().into(),
            compression: Compression::None,
            ..self.clone()
        };
        Ok((outside, format!("{QUOTA_ROOT}{full}")))
    }

    /// Reads the quota of a node; `None` if it has none of its own.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.create("/apps").await?;
    /// use zebu_client::QuotaLimits;
    ///
    /// client.set_quota("/apps", QuotaLimits { count: Some(1000), ..QuotaLimits::default() }).await?;
    /// if let Some(quota) = client.quota("/apps").await? {
    ///     println!("{} of {:?} nodes", quota.usage.count, quota.limits.count);
    /// }
    /// client.delete_quota("/apps").await?;
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(path = %path))]
    pub async fn quota(&self, path: &str) -> Result<Option<Quota>, Error> {
        let (outside, node) = self.quota_view(path)?;
        let limits = outside.get(&format!("{node}/zookeeper_limits")).send();
        let usage = outside.get(&format!("{node}/zookeeper_stats")).send();
        let text = |data: bytes::Bytes| String::from_utf8_lossy(&data).into_owned();
        let limits = match limits.await {
            Ok(limits) => QuotaLimits::parse(&text(limits.data)),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        };
        let usage = match usage.await {
            Ok(usage) => text(usage.data),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => String::new(),
            Err(error) => return Err(error),
        };
        let usage = QuotaUsage {
            count: value(&usage, "count").unwrap_or(0),
            bytes: value(&usage, "bytes").unwrap_or(0),
        };
        Ok(Some(Quota { limits, usage }))
    }

    /// Sets the quota of a node. Servers refuse nothing unless `zookeeper.enforceQuota=true`.
    #[tracing::instrument(level = "debug", skip_all, fields(path = %path))]
    pub async fn set_quota(&self, path: &str, limits: QuotaLimits) -> Result<(), Error> {
        let (outside, node) = self.quota_view(path)?;
        let create = |name: &str, text: String| {
            let create = outside.create(&format!("{node}/{name}")).data(text);
            create.parents(Parents::Persistent).or_set(Version::Any)
        };
        create("zookeeper_limits", limits.text()).await?;
        // The server replaces it by its own counts.
        match outside.create(&format!("{node}/zookeeper_stats")).data("count=0,bytes=0").await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the quota of a node. A node without a quota is no error.
    #[tracing::instrument(level = "debug", skip_all, fields(path = %path))]
    pub async fn delete_quota(&self, path: &str) -> Result<(), Error> {
        let (outside, node) = self.quota_view(path)?;
        outside.delete(&format!("{node}/zookeeper_limits")).quiet().await?;
        outside.delete(&format!("{node}/zookeeper_stats")).quiet().await?;
        // The parents of quotas of descendants stay.
        match outside.delete(&node).quiet().await {
            Err(error) if error.code() == Some(ErrorCode::NotEmpty) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_zookeepers() {
        let limits =
            QuotaLimits { count: Some(5), bytes: None, count_hard: Some(10), bytes_hard: Some(1000) };
        assert_eq!(limits.text(), "count=5,bytes=-1=;byteHardLimit=1000;countHardLimit=10");
        assert_eq!(QuotaLimits::parse(&limits.text()), limits);
        let soft = QuotaLimits { count: None, bytes: Some(7), ..QuotaLimits::default() };
        assert_eq!(soft.text(), "count=-1,bytes=7");
        assert_eq!(QuotaLimits::parse("count=-1,bytes=7"), soft);
        assert_eq!(QuotaLimits::parse("nonsense"), QuotaLimits::default());
    }
}
