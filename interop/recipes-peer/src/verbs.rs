//! What the suite can ask for.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use zebu_client::Client;
use zebu_recipes::{
    AtomicLong, Barrier, DistributedQueue, DoubleBarrier, LeaderLatch, LeaderSelector, LockLayout, Mutex,
    Party, ProviderStrategy, QueueOrder, RwLock, RwLockLayout, Semaphore, SemaphoreLayout, ServiceDiscovery,
    ServiceInstance, SharedCount,
};

use crate::Layout;
use crate::contention::{contend, endure};
use crate::handles::{Handle, Handles, Term};

pub(crate) struct Peer {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    pub(crate) handles: Handles,
}

/// Whether the command waits until the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Yes,
    No,
}

impl Peer {
    pub(crate) async fn carry_out(&self, words: &[&str]) -> anyhow::Result<String> {
        match words {
            ["acquire", handle, kind, path, rest @ ..] => {
                let held = self.take(kind, path, rest, Wait::Yes).await?;
                self.handles.put(handle, held.context("it did not wait")?);
                Ok(String::new())
            }
            ["try", handle, kind, path, rest @ ..] => match self.take(kind, path, rest, Wait::No).await? {
                Some(held) => {
                    self.handles.put(handle, held);
                    Ok("yes".to_owned())
                }
                None => Ok("no".to_owned()),
            },
            ["release", handle] => {
                self.handles.take(handle)?.release().await?;
                Ok(String::new())
            }
            ["make", path] => {
                self.client.create(path).await?;
                Ok(String::new())
            }
            ["read", path] => {
                let node = self.client.get(path).await?;
                Ok(String::from_utf8_lossy(&node.data).into_owned())
            }
            // Waits until a node has so many children.
            ["crowd", path, count] => {
                let count: usize = count.parse()?;
                while self.client.children(path).await?.names.len() < count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(String::new())
            }
            ["contend", kind, path, room, rounds, limit, name] => {
                let (rounds, limit) = (rounds.parse()?, limit.parse()?);
                contend(self, kind, path, room, rounds, limit, name).await
            }
            ["endure", kind, path, log, rounds, name] => {
                endure(self, kind, path, log, rounds.parse()?, name).await
            }
            ["latch", ..] | ["lead", ..] | ["leads", ..] | ["participants", ..] | ["candidates", ..] => {
                self.election(words).await
            }
            ["enter", ..] | ["raise", ..] | ["lower", ..] | ["wait", ..] => self.barrier(words).await,
            ["push", ..] | ["pop", ..] | ["lease", ..] => self.queue(words).await,
            ["add", ..] | ["get", ..] | ["count", ..] | ["set-count", ..] => self.value(words).await,
            ["register", ..] | ["instances", ..] | ["pick", ..] | ["join", ..] | ["members", ..] => {
                self.membership(words).await
            }
            other => bail!("no such verb: {other:?}"),
        }
    }

    /// Takes a lock or a permit.
    async fn take(
        &self,
        kind: &str,
        path: &str,
        rest: &[&str],
        wait: Wait,
    ) -> anyhow::Result<Option<Handle>> {
        Ok(match (kind, wait) {
            ("mutex", Wait::Yes) => Some(Handle::Mutex(self.mutex(path).acquire().await?)),
            ("mutex", Wait::No) => self.mutex(path).try_acquire().await?.map(Handle::Mutex),
            ("read", Wait::Yes) => Some(Handle::Read(self.rw_lock(path).read().await?)),
            ("read", Wait::No) => self.rw_lock(path).try_read().await?.map(Handle::Read),
            ("write", Wait::Yes) => Some(Handle::Write(self.rw_lock(path).write().await?)),
            ("write", Wait::No) => self.rw_lock(path).try_write().await?.map(Handle::Write),
            ("semaphore", wait) => {
                let permits = rest.first().context("a number of permits")?.parse()?;
                let semaphore = self.semaphore(path, permits);
                match wait {
                    Wait::Yes => Some(Handle::Permit(semaphore.acquire().await?)),
                    Wait::No => semaphore.try_acquire().await?.map(Handle::Permit),
                }
            }
            ("election", Wait::Yes) => {
                let id = rest.first().context("an id")?;
                Some(Handle::Term(Term::begin(self.selector(path, id)).await?))
            }
            (other, _) => bail!("no such lock: {other}"),
        })
    }

    fn selector(&self, path: &str, id: &str) -> LeaderSelector {
        let layout = match self.layout {
            Layout::Curator => LockLayout::Curator,
            Layout::Kazoo => LockLayout::Kazoo,
        };
        LeaderSelector::new(&self.client, path, id).layout(layout)
    }

    pub(crate) fn mutex(&self, path: &str) -> Mutex {
        let layout = match self.layout {
            Layout::Curator => LockLayout::Curator,
            Layout::Kazoo => LockLayout::Kazoo,
        };
        Mutex::new(&self.client, path).layout(layout)
    }

    pub(crate) fn rw_lock(&self, path: &str) -> RwLock {
        let layout = match self.layout {
            Layout::Curator => RwLockLayout::Curator,
            Layout::Kazoo => RwLockLayout::Kazoo,
        };
        RwLock::new(&self.client, path).layout(layout)
    }

    pub(crate) fn semaphore(&self, path: &str, permits: u32) -> Semaphore {
        let layout = match self.layout {
            Layout::Curator => SemaphoreLayout::Curator,
            Layout::Kazoo => SemaphoreLayout::Kazoo,
        };
        Semaphore::new(&self.client, path, permits).layout(layout)
    }

    async fn election(&self, words: &[&str]) -> anyhow::Result<String> {
        match words {
            ["latch", handle, path, id] => {
                let latch = LeaderLatch::join(&self.client, path, *id);
                self.handles.put(handle, Handle::Latch(Arc::new(latch)));
                Ok(String::new())
            }
            ["lead", handle] => {
                self.handles.latch(handle)?.lead().await?;
                Ok(String::new())
            }
            ["leads", handle] => {
                Ok(if self.handles.latch(handle)?.is_leader() { "yes" } else { "no" }.to_owned())
            }
            ["participants", handle] => {
                let participants = self.handles.latch(handle)?.participants().await?;
                Ok(participants.into_iter().map(|one| one.id).collect::<Vec<_>>().join(","))
            }
            ["candidates", path] => {
                let candidates = self.selector(path, "").participants().await?;
                Ok(candidates.into_iter().map(|one| one.id).collect::<Vec<_>>().join(","))
            }
            other => bail!("{other:?}"),
        }
    }

    async fn barrier(&self, words: &[&str]) -> anyhow::Result<String> {
        match words {
            ["enter", handle, path, members] => {
                let members: NonZeroU32 = members.parse()?;
                let entered = DoubleBarrier::new(&self.client, path, members).enter().await?;
                self.handles.put(handle, Handle::EnteredBarrier(entered));
            }
            ["raise", path] => Barrier::new(&self.client, path).set().await?,
            ["lower", path] => Barrier::new(&self.client, path).remove().await?,
            ["wait", path] => Barrier::new(&self.client, path).wait().await?,
            other => bail!("{other:?}"),
        }
        Ok(String::new())
    }

    fn queue_at(&self, order: &str, path: &str) -> anyhow::Result<DistributedQueue> {
        let order = match order {
            "simple" => QueueOrder::Simple,
            "fifo" => QueueOrder::Fifo,
            "priority" => QueueOrder::Priority,
            "kazoo" => QueueOrder::Kazoo,
            "locking" => QueueOrder::KazooLocking,
            other => bail!("no such queue: {other}"),
        };
        Ok(DistributedQueue::new(&self.client, path, order))
    }

    async fn queue(&self, words: &[&str]) -> anyhow::Result<String> {
        let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        match words {
            ["push", order, path, item] => {
                self.queue_at(order, path)?.push((*item).to_owned()).await?;
                Ok(String::new())
            }
            ["push", order, path, item, priority] => {
                let queue = self.queue_at(order, path)?;
                queue.push_with_priority((*item).to_owned(), priority.parse()?).await?;
                Ok(String::new())
            }
            ["pop", order, path] => Ok(text(&self.queue_at(order, path)?.pop().await?.data())),
            ["lease", order, path] => {
                let delivery = self.queue_at(order, path)?.lease().await?;
                let item = text(&delivery.item().data());
                delivery.finish().await?;
                Ok(item)
            }
            other => bail!("{other:?}"),
        }
    }

    async fn value(&self, words: &[&str]) -> anyhow::Result<String> {
        match words {
            ["add", path, times] => {
                let counter = AtomicLong::new(&self.client, path).attempts(100);
                for _ in 0..times.parse::<u32>()? {
                    counter.increment().await?;
                }
                Ok(String::new())
            }
            ["get", path] => Ok(AtomicLong::new(&self.client, path).get().await?.to_string()),
            ["count", path] => {
                Ok(SharedCount::start(&self.client, path, 0).await?.current()?.value.to_string())
            }
            ["set-count", path, number] => {
                SharedCount::start(&self.client, path, 0).await?.set(number.parse()?).await?;
                Ok(String::new())
            }
            other => bail!("{other:?}"),
        }
    }

    async fn membership(&self, words: &[&str]) -> anyhow::Result<String> {
        match words {
            ["register", handle, base, name, id, port, payload] => {
                let instance = ServiceInstance::new(*name).id(*id).at("127.0.0.1", port.parse()?);
                let instance = instance.payload((*payload).to_owned());
                let registered = ServiceDiscovery::new(&self.client, base).register(instance).await?;
                self.handles.put(handle, Handle::ServiceRegistration(registered));
                Ok(String::new())
            }
            ["instances", base, name] => {
                let found = ServiceDiscovery::<String>::new(&self.client, base).instances(name).await?;
                let show = |one: ServiceInstance<String>| {
                    let (port, payload) = (one.port.unwrap_or_default(), one.payload.unwrap_or_default());
                    format!("{}:{port}:{payload}", one.id)
                };
                Ok(found.into_iter().map(show).collect::<Vec<_>>().join(","))
            }
            ["pick", base, name, times] => {
                let discovery = ServiceDiscovery::<String>::new(&self.client, base);
                let provider = discovery.provider(name, ProviderStrategy::RoundRobin).await?;
                let mut ids = Vec::new();
                for _ in 0..times.parse::<u32>()? {
                    ids.push(provider.pick().context("nobody is there")?.id.clone());
                }
                ids.sort();
                Ok(ids.join(","))
            }
            ["join", handle, path, id] => {
                let member = Party::new(&self.client, path).join(id).await?;
                self.handles.put(handle, Handle::Party(member));
                Ok(String::new())
            }
            ["members", path] => {
                let mut members = Party::new(&self.client, path).members().await?;
                members.sort();
                Ok(members.join(","))
            }
            other => bail!("{other:?}"),
        }
    }
}
