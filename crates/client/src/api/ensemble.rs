//! The ensemble's configuration: reading, watching and changing it. It is in one node outside of every
//! chroot.

use std::sync::Arc;

use tracing::Instrument;
use zebu_proto::client::ReconfigRequest;
use zebu_proto::{Jute, OpCode};

use super::call::{ApiCall, WhenFull, put_path_and_watch};
use super::client::Client;
use super::error::{Error, ErrorKind};
use super::get::read_node;
use super::pending::{Pending, sendable};
use super::retry::{RepeatRule, RetryPolicy};
use super::watch::{OneshotWatcher, WatcherHandle};
use crate::core::{ServerReply, WatchIntent};

const CONFIG_PATH: &str = "/zookeeper/config";

/// One member of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMember {
    /// The server id.
    pub id: i64,
    /// The text after `server.N=`: addresses, role and client address.
    pub specification: String,
}

impl ConfigMember {
    /// `host:port` of the client port, if the specification has one. The server's host replaces a wildcard
    /// address.
    pub fn client_address(&self) -> Option<String> {
        let (peer, client) = self.specification.split_once(';')?;
        // "|" separates several addresses.
        let first = peer.split('|').next().unwrap_or(peer);
        let host = match first.strip_prefix('[') {
            Some(rest) => format!("[{}]", rest.split(']').next()?),
            None => first.split(':').next()?.to_owned(),
        };
        match client.rsplit_once(':') {
            None => Some(format!("{host}:{client}")),
            Some(("0.0.0.0" | "[::]" | "", port)) => Some(format!("{host}:{port}")),
            Some((address, port)) => Some(format!("{address}:{port}")),
        }
    }
}

/// The configuration of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// The members, as the server lists them.
    pub members: Vec<ConfigMember>,
    /// The version: the zxid of the reconfig, or 0.
    pub version: i64,
    /// The stored text.
    pub text: String,
}

impl EnsembleConfig {
    fn parse(text: String) -> EnsembleConfig {
        let mut members = Vec::new();
        let mut version = 0;
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            if key.trim() == "version" {
                version = i64::from_str_radix(value.trim(), 16).unwrap_or(0);
            } else if let Some(Ok(id)) = key.trim().strip_prefix("server.").map(str::parse) {
                members.push(ConfigMember { id, specification: value.trim().to_owned() });
            }
        }
        EnsembleConfig { members, version, text }
    }

    /// A connection string of all members with a client address, for [`Client::update_servers`].
    pub fn connection_string(&self) -> Option<String> {
        let addresses: Vec<String> = self.members.iter().filter_map(ConfigMember::client_address).collect();
        (!addresses.is_empty()).then(|| addresses.join(","))
    }
}

impl Client {
    /// Reads the configuration of the ensemble. A standalone server has none.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// match client.config().await?.connection_string() {
    ///     Some(servers) => println!("clients can use {servers}"),
    ///     None => println!("a single server"),
    /// }
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn config(&self) -> Result<EnsembleConfig, Error> {
        let call = config_call(false);
        let reply =
            self.run(&call, self.start_awaited(&call), self.retry.clone(), RepeatRule::Always).await?;
        read_config(&call, &reply)
    }

    /// Reads the configuration and registers a watch that fires when it changes.
    ///
    /// ```no_run
    /// # async fn example(client: zebu_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let (config, changed) = client.watch_config().await?;
    /// changed.await;
    /// if let Some(servers) = client.config().await?.connection_string() {
    ///     client.update_servers(&servers)?;
    /// }
    /// # Ok(()) }
    /// ```
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn watch_config(&self) -> Result<(EnsembleConfig, OneshotWatcher), Error> {
        let mut call = config_call(true);
        let (end, registration) = WatcherHandle::new(self, WatchIntent::Data, CONFIG_PATH);
        call.watch = Some(registration);
        let reply =
            self.run(&call, self.start_awaited(&call), self.retry.clone(), RepeatRule::Always).await?;
        Ok((read_config(&call, &reply)?, OneshotWatcher::new(end)))
    }

    /// Changes the configuration of the ensemble (servers from 3.5 with `reconfigEnabled=true`).
    ///
    /// ```no_run
    /// # async fn example(client: zebu_client::Client) -> Result<(), zebu_client::Error> {
    /// let config = client.config().await?;
    /// let changed = client
    ///     .reconfigure()
    ///     .join("server.4=zk4:2888:3888:participant;2181")
    ///     .leave(2)
    ///     .from_version(config.version)
    ///     .await?;
    /// println!("{}", changed.text);
    /// # Ok(()) }
    /// ```
    pub fn reconfigure(&self) -> Reconfigure {
        Reconfigure {
            client: self.clone(),
            joining: Vec::new(),
            leaving: Vec::new(),
            members: Vec::new(),
            version: -1,
            retry: self.retry.clone(),
        }
    }
}

fn config_call(watch: bool) -> ApiCall {
    ApiCall::new("get config", CONFIG_PATH, OpCode::GetData)
        .body(|out| put_path_and_watch(CONFIG_PATH, watch, out))
}

fn read_config(call: &ApiCall, reply: &ServerReply) -> Result<EnsembleConfig, Error> {
    let node = call.decode(reply, |reader| read_node(reader, reply))?;
    Ok(EnsembleConfig::parse(String::from_utf8_lossy(&node.data).into_owned()))
}

/// A change of the configuration; see [`Client::reconfigure`].
#[must_use = "nothing is sent before send or await"]
pub struct Reconfigure {
    client: Client,
    joining: Vec<String>,
    leaving: Vec<String>,
    members: Vec<String>,
    version: i64,
    retry: Arc<dyn RetryPolicy>,
}

impl Reconfigure {
    /// A member that joins or changes: `server.N=host:port:port:role;address:port`.
    pub fn join(mut self, member: &str) -> Reconfigure {
        self.joining.push(member.to_owned());
        self
    }

    /// A member that leaves.
    pub fn leave(mut self, id: i64) -> Reconfigure {
        self.leaving.push(id.to_string());
        self
    }

    /// A member of a complete new configuration; it excludes joining and leaving members.
    pub fn member(mut self, member: &str) -> Reconfigure {
        self.members.push(member.to_owned());
        self
    }

    /// Only if this is the current version.
    pub fn from_version(mut self, version: i64) -> Reconfigure {
        self.version = version;
        self
    }

    fn begin(self, when_full: WhenFull) -> Pending<EnsembleConfig> {
        const OPERATION: &str = "reconfigure";
        let span = tracing::debug_span!("reconfigure");
        if !(self.members.is_empty() || self.joining.is_empty() && self.leaving.is_empty()) {
            let reason = "a complete list of members excludes joining and leaving members";
            let error = Error::new(ErrorKind::InvalidOptions(reason), OPERATION, CONFIG_PATH);
            return Box::pin(async { Err(error) });
        }
        let list = |items: &[String]| (!items.is_empty()).then(|| items.join(",").into_boxed_str());
        let request = ReconfigRequest {
            joining: list(&self.joining),
            leaving: list(&self.leaving),
            new_members: list(&self.members),
            current_config_id: self.version,
        };
        let call = ApiCall::new(OPERATION, CONFIG_PATH, OpCode::Reconfig).body(|out| request.encode(out));
        let first = self.client.start(&call, when_full);
        let run = async move {
            let reply = self.client.run(&call, first, self.retry, RepeatRule::IfNotSent).await?;
            read_config(&call, &reply)
        };
        Box::pin(run.instrument(span))
    }
}

sendable!(Reconfigure => EnsembleConfig);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_their_client_addresses() {
        let text = "server.1=a:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=[::1]:2888:3888:observer;2182\n\
                    server.3=c:1:2|d:1:2;10.0.0.3:2183\nserver.4=e:1:2:participant\nversion=1f";
        let config = EnsembleConfig::parse(text.to_owned());
        assert_eq!(config.version, 31);
        assert_eq!(config.members.len(), 4);
        assert_eq!(config.connection_string().as_deref(), Some("a:2181,[::1]:2182,10.0.0.3:2183"));
        assert_eq!(EnsembleConfig::parse(String::new()).connection_string(), None);
    }
}
