//! One of the two servers with a session of each identity. It plays a case and says what every request was
//! answered, as texts that are equal if and only if the decisions are.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use zebu_client::{Acl, Client, Error, Identity, Version};
use zebu_testing::port::free_address;
use zebu_testing::{Launch, ServerProcess};

use super::Case;
use super::certificates::{Certificates, SUPER_SUBJECT};
use super::identities::{ANY_SASL_USER, IDENTITIES, SASL_SUPER, SASL_USERS, SCENE, password};
use crate::differential::SUPER_DIGEST;

/// How long the answers of one case may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server.
pub(super) struct Side {
    server: ServerProcess,
    secure: SocketAddr,
}

/// A server with its sessions, in the order of [`IDENTITIES`].
pub(super) struct ConnectedSide {
    clients: Vec<Client>,
    _server: ServerProcess,
}

impl Side {
    pub(super) fn start(launch: Launch, certificates: &Certificates) -> Result<Side> {
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        let users: String =
            SASL_USERS.iter().map(|user| format!(" \"user_{user}\"=\"{}\"", password(user))).collect();
        let login = certificates.path("jaas.conf");
        fs::write(&login, format!("Server {{ {module}{users}; }};\n"))?;
        let secure = free_address()?;
        let file = |name: &str| certificates.path(name).display().to_string();
        let server = ServerProcess::launch(launch)
            .property("java.security.auth.login.config", login.display().to_string())
            .property("zookeeper.fips-mode", "false")
            .property("zookeeper.forceSync", "no")
            .property("zookeeper.4lw.commands.whitelist", "*")
            .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
            .property("zookeeper.X509AuthenticationProvider.superUser", SUPER_SUBJECT)
            .property("zookeeper.superUser", SASL_SUPER)
            .property("zookeeper.letAnySaslUserDoX", ANY_SASL_USER)
            .line(format!("secureClientPort={}", secure.port()))
            .line("secureClientPortAddress=127.0.0.1")
            .line("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
            .line("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
            .line(format!("ssl.keyStore.location={}", file("server.pem")))
            .line(format!("ssl.trustStore.location={}", file("ca.pem")))
            .start()?;
        Ok(Side { server, secure })
    }

    pub(super) async fn connect(self, certificates: &Certificates) -> Result<ConnectedSide> {
        let mut clients = Vec::new();
        for identity in &IDENTITIES {
            let connected = identity.connect(self.server.address(), self.secure, certificates).await;
            clients.push(connected.with_context(|| self.server.output())?);
        }
        Ok(ConnectedSide { clients, _server: self.server })
    }
}

impl ConnectedSide {
    /// The ids of a connection; they have no order.
    pub(super) async fn who_am_i(&self, index: usize) -> Result<Vec<Identity>> {
        let mut ids = self.clients[index].who_am_i().await?;
        ids.sort_by(|one, two| (&one.scheme, &one.user).cmp(&(&two.scheme, &two.user)));
        Ok(ids)
    }

    /// All answers of a case, in a fixed order.
    pub(super) async fn play(&self, case: &Case) -> Result<Vec<String>> {
        tokio::time::timeout(PATIENCE, self.play_patiently(case)).await.context("a case takes too long")?
    }

    async fn play_patiently(&self, case: &Case) -> Result<Vec<String>> {
        let path = format!("/list{}", case.number);
        let name = IDENTITIES[case.creator].name;
        let created = self.clients[case.creator].create(&path).acl(case.list.clone()).await;
        let mut seen = vec![format!("create by {name}: {}", word(&created)?)];
        let scene = &self.clients[SCENE];
        if created.is_err() {
            scene.create(&path).await?;
        }
        if let Some((by, list)) = &case.change {
            let changed = self.clients[*by].set_acl(&path, list.clone()).await;
            seen.push(format!("setACL by {}: {}", IDENTITIES[*by].name, word(&changed)?));
        }
        let effective = scene.get_acl(&path).await?.entries;
        seen.push(format!("the list: {}", text(&effective)));
        let children: Vec<_> =
            (0..IDENTITIES.len()).map(|index| scene.create(&format!("{path}/d{index}")).send()).collect();
        for child in children {
            child.await?;
        }
        seen.extend(self.try_all(&path).await?);
        // Last, because it may change the list: duplicates go.
        for (client, identity) in self.clients.iter().zip(&IDENTITIES) {
            let set = client.set_acl(&path, effective.clone()).await;
            seen.push(format!("{}: setACL {}", identity.name, word(&set)?));
        }
        seen.push(format!("the list at the end: {}", text(&scene.get_acl(&path).await?.entries)));
        Ok(seen)
    }

    /// Every identity tries every operation; the lines are in the order of the identities.
    async fn try_all(&self, path: &str) -> Result<Vec<String>> {
        let mut tasks = JoinSet::new();
        for (index, client) in self.clients.iter().enumerate() {
            let (client, path) = (client.clone(), path.to_owned());
            tasks.spawn(async move { (index, try_each(&client, &path, index).await) });
        }
        let mut lines = vec![Vec::new(); self.clients.len()];
        while let Some(done) = tasks.join_next().await {
            let (index, seen) = done?;
            let name = IDENTITIES[index].name;
            lines[index] = seen?.into_iter().map(|line| format!("{name}: {line}")).collect();
        }
        Ok(lines.concat())
    }
}

/// One identity tries every operation but setACL. The requests are on their way together.
async fn try_each(client: &Client, path: &str, index: usize) -> Result<Vec<String>> {
    let mut check = client.transaction();
    check.check(path, Version::Any);
    check.set(path, "checked", Version::Any);
    let mut remove = client.transaction();
    remove.create(&format!("{path}/t{index}"), zebu_client::CreateSpec::new());
    remove.delete(&format!("{path}/t{index}"), Version::Any);
    let mut reads = client.multi_read();
    let (data, names) = (reads.get(path), reads.children(path));
    let (get, exists, children) =
        (client.get(path).send(), client.exists(path).send(), client.children(path).send());
    let set = client.set(path, "data").send();
    let create = client.create(&format!("{path}/c{index}")).send();
    let delete = client.delete(&format!("{path}/d{index}")).send();
    let (check, remove, reads) = (check.send(), remove.send(), reads.send());
    let get_acl = client.get_acl(path).send();
    let mut lines = vec![
        format!("getData {}", word(&get.await)?),
        format!("exists {}", word(&exists.await)?),
        format!("getChildren {}", word(&children.await)?),
        format!("setData {}", word(&set.await)?),
        format!("create {}", word(&create.await)?),
        format!("delete {}", word(&delete.await)?),
        format!("multi with check and setData {}", word(&check.await)?),
        format!("multi with create and delete {}", word(&remove.await)?),
    ];
    let reads = reads.await?;
    lines.push(format!("multiRead getData {}", word(&reads.data(data))?));
    lines.push(format!("multiRead getChildren {}", word(&reads.children(names))?));
    let count = client.count_descendants(path).await;
    lines.push(format!("getAllChildrenNumber {}", word(&count)?));
    let list = get_acl.await;
    let shown = list.as_ref().map(|list| text(&list.entries)).unwrap_or_default();
    lines.push(format!("getACL {shown} {}", word(&list)?));
    Ok(lines)
}

/// `Ok` or the name of the error. An error that no server sent is a fault of the run.
fn word<T>(result: &Result<T, Error>) -> Result<String> {
    match result {
        Ok(_) => Ok("Ok".to_owned()),
        Err(error) => match error.code() {
            Some(code) => Ok(format!("{code:?}")),
            None => Err(anyhow::anyhow!("{error}")),
        },
    }
}

/// A list whose entries have no order: those of scheme `auth` become the ids of a connection.
fn text(list: &[Acl]) -> String {
    let entry = |acl: &Acl| {
        let part = |text: &Option<Box<str>>| text.as_deref().unwrap_or("null").to_owned();
        format!("{}:{}:{}", part(&acl.id.scheme), part(&acl.id.id), acl.perms)
    };
    let mut entries: Vec<String> = list.iter().map(entry).collect();
    entries.sort();
    format!("{entries:?}")
}
