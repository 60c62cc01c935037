//! Reads about the session and the whole tree: whoAmI, getEphemerals, getAllChildrenNumber.

use zebu_proto::client::ClientInfo;
use zebu_proto::{Jute, OpCode};

use super::call::{ApiCall, put_path};
use super::client::Client;
use super::error::Error;
use super::retry::RepeatRule;
use super::types::Identity;
use crate::path;

impl Client {
    /// Lists the credentials of the connection (servers from 3.7).
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// for identity in client.who_am_i().await? {
    ///     println!("{}: {}", identity.scheme, identity.user);
    /// }
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn who_am_i(&self) -> Result<Vec<Identity>, Error> {
        let call = ApiCall::new("who am i", "", OpCode::WhoAmI);
        let reply =
            self.run(&call, self.start_awaited(&call), self.retry.clone(), RepeatRule::Always).await?;
        let infos = call.decode(&reply, Vec::<ClientInfo>::decode)?;
        let text = |text: zebu_proto::Text| text.unwrap_or_default().into();
        Ok(infos
            .into_iter()
            .map(|info| Identity { scheme: text(info.scheme), user: text(info.user) })
            .collect())
    }

    /// Lists this session's ephemeral nodes whose paths start with `prefix` (servers from 3.6).
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.ensure_path("/members").await?;
    /// println!("{:?}", client.ephemerals("/members").await?);
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(prefix = %prefix))]
    pub async fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let full = self.resolve("ephemerals", prefix)?;
        let call = ApiCall::new("ephemerals", prefix, OpCode::GetEphemerals)
            .body(|out| put_path(&full, out))
            .fresh(self.reads);
        let reply =
            self.run(&call, self.start_awaited(&call), self.retry.clone(), RepeatRule::Always).await?;
        let paths = call.decode(&reply, Vec::<Box<str>>::decode)?;
        Ok(paths.iter().map(|path| path::without_root(&self.root, path).to_owned()).collect())
    }

    /// Counts the descendants of a node (servers from 3.6).
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// # client.ensure_path("/apps").await?;
    /// println!("{} nodes", client.count_descendants("/apps").await?);
    /// # Ok(()) });
    /// ```
    #[tracing::instrument(level = "debug", skip_all, fields(path = %path))]
    pub async fn count_descendants(&self, path: &str) -> Result<u32, Error> {
        let full = self.resolve("count descendants", path)?;
        let op = OpCode::GetAllChildrenNumber;
        let call =
            ApiCall::new("count descendants", path, op).body(|out| put_path(&full, out)).fresh(self.reads);
        let reply =
            self.run(&call, self.start_awaited(&call), self.retry.clone(), RepeatRule::Always).await?;
        let count = call.decode(&reply, i32::decode)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }
}
