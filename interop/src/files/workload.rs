//! Random writes of every kind, one after the other: what they leave behind is what the next server gets.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;
use zebu_proto::client::{
    CheckRequest, CreateOp, DeleteRequest, MultiOp, SetAclRequest, SetDataRequest, WriteRequest,
};

use super::requests::{self, Kind};
use super::seats::Seats;
use crate::client::Answer;
use crate::differential::Random;

const NAMES: &[&str] = &["a", "b", "c", "d e", "é", "日本", "Ωmega", "x-1", "y.z", "{}"];

/// Nodes that may carry a quota.
const QUOTA_TOPS: &[&str] = &["a", "b"];

const QUOTA_TEXTS: &[&str] =
    &["count=5,bytes=-1", "count=-1,bytes=100", "count=2,bytes=20=;byteHardLimit=1000;countHardLimit=10"];

const BAD_PATHS: &[&str] = &["", "a", "/a/", "//", "/a/../b", "/a\0"];

/// Deeper trees add nothing.
const DEPTH_MAX: usize = 4;

/// Draws the writes of a whole round and remembers which nodes they made.
#[derive(Debug)]
pub(super) struct Workload {
    known: BTreeMap<String, Kind>,
    /// Makes names that were never there.
    serial: usize,
    /// How often each request succeeded and failed.
    pub(super) counts: BTreeMap<String, (usize, usize)>,
    pub(super) last_zxid: i64,
}

impl Workload {
    pub(super) fn new() -> Workload {
        Workload { known: BTreeMap::new(), serial: 0, counts: BTreeMap::new(), last_zxid: 0 }
    }

    /// Sends `count` writes.
    pub(super) fn run(
        &mut self,
        seats: &mut Seats,
        address: SocketAddr,
        count: usize,
        random: &mut Random,
    ) -> Result<()> {
        for _ in 0..count {
            if random.percent(2) {
                let parent = self.any(random);
                seats.come_and_go(address, &parent)?;
                continue;
            }
            let request = self.draw(random);
            let clients = seats.clients();
            let seat = random.below(clients.len());
            let answer = clients[seat].write(&request)?;
            self.learn(&request, &answer);
        }
        Ok(())
    }

    /// Whether a node at `path` was made that a server may remove by itself.
    pub(super) fn may_be_swept(&self, path: &str) -> bool {
        self.known.get(path).is_some_and(|kind| kind.is_swept())
    }

    fn learn(&mut self, request: &WriteRequest, answer: &Answer) {
        self.last_zxid = self.last_zxid.max(answer.zxid);
        let mut names = vec![requests::name(request)];
        if let WriteRequest::Multi(parts) = request {
            names.extend(parts.iter().map(requests::part_name));
        }
        for name in names {
            let (good, bad) = self.counts.entry(name).or_default();
            *(if answer.error == 0 { good } else { bad }) += 1;
        }
        if answer.error != 0 {
            return;
        }
        let parts = match request {
            WriteRequest::Create(create) => vec![MultiOp::Create(create.clone())],
            WriteRequest::Multi(parts) => parts.clone(),
            WriteRequest::Delete(delete) => vec![MultiOp::Delete(delete.clone())],
            _ => Vec::new(),
        };
        let mut created = answer.created.iter();
        for part in parts {
            match part {
                MultiOp::Create(create) => {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.flags() == create.flags);
                    // Other writes than those of `quota` on its nodes make Apache fail while it applies them.
                    if let (Some(path), Some(kind)) = (created.next(), kind)
                        && !path.starts_with("/zookeeper")
                    {
                        self.known.insert(path.clone(), kind);
                    }
                }
                MultiOp::Delete(delete) => {
                    self.known.remove(delete.path.as_deref().unwrap_or_default());
                }
                MultiOp::SetData(_) | MultiOp::Check(_) | MultiOp::Keeper(_) => {}
            }
        }
    }

    fn draw(&mut self, random: &mut Random) -> WriteRequest {
        match random.below(100) {
            0..40 => WriteRequest::Create(self.create(random)),
            40..52 => WriteRequest::Delete(self.delete(random)),
            52..68 => WriteRequest::SetData(self.set_data(random)),
            68..76 => WriteRequest::SetAcl(SetAclRequest {
                path: Some(self.any(random).into()),
                acl: Some(requests::acl(random).into()),
                version: version(random),
            }),
            76..92 => self.multi(random),
            92..97 => self.quota(random),
            _ => {
                let path = *random.pick(BAD_PATHS);
                requests::create(path, Kind::Persistent)
            }
        }
    }

    /// A node that is there, or was.
    fn any(&self, random: &mut Random) -> String {
        if self.known.is_empty() || random.percent(5) {
            return "/missing".to_owned();
        }
        let index = random.below(self.known.len());
        self.known.keys().nth(index).cloned().unwrap_or_default()
    }

    fn new_path(&self, random: &mut Random) -> String {
        let parent = if random.percent(40) { String::new() } else { self.any(random) };
        let parent = if parent.matches('/').count() >= DEPTH_MAX { String::new() } else { parent };
        let number = if random.percent(50) { random.below(10).to_string() } else { String::new() };
        format!("{parent}/{}{number}", random.pick(NAMES))
    }

    fn create(&self, random: &mut Random) -> zebu_proto::client::CreateRequest {
        let kind = *random.pick(&Kind::ALL);
        let mut create = requests::create_part(&self.new_path(random), kind);
        create.data = requests::data(random);
        create.acl = Some(requests::acl(random).into());
        match create.op {
            CreateOp::Create2 if random.percent(50) => create.op = CreateOp::Create,
            CreateOp::Ttl if random.percent(30) => create.ttl_ms = *random.pick(&[1, 0xff_ffff_ffff, 0]),
            _ => {}
        }
        create
    }

    fn delete(&self, random: &mut Random) -> DeleteRequest {
        DeleteRequest { path: Some(self.any(random).into()), version: version(random) }
    }

    fn set_data(&self, random: &mut Random) -> SetDataRequest {
        SetDataRequest {
            path: Some(self.any(random).into()),
            data: requests::data(random),
            version: version(random),
        }
    }

    /// Parts that mostly succeed together; in a third of all cases one that fails is put among them.
    fn multi(&mut self, random: &mut Random) -> WriteRequest {
        let mut parts = Vec::new();
        for _ in 0..1 + random.below(4) {
            self.serial += 1;
            let parent = if random.percent(80) { String::new() } else { self.any(random) };
            let path = format!("{parent}/{}m{}", random.pick(NAMES), self.serial);
            let mut create = self.create(random);
            create.path = Some(path.clone().into());
            create.acl = Some(zebu_proto::Acl::open().into());
            // One large value is enough for a frame.
            if !parts.is_empty() {
                create.data = requests::small_data(random);
            }
            if create.op == CreateOp::Ttl {
                create.ttl_ms = create.ttl_ms.max(1);
            }
            let sequential = matches!(create.flags, 2 | 3 | 6);
            parts.push(MultiOp::Create(create));
            if sequential {
                continue;
            }
            if random.percent(40) {
                let data = requests::small_data(random);
                parts.push(MultiOp::SetData(SetDataRequest {
                    path: Some(path.clone().into()),
                    data,
                    version: 0,
                }));
            }
            if random.percent(30) {
                parts.push(MultiOp::Check(CheckRequest { path: Some(path.clone().into()), version: -1 }));
            }
            if random.percent(20) {
                parts.push(MultiOp::Delete(DeleteRequest { path: Some(path.into()), version: -1 }));
            }
        }
        if random.percent(33) {
            let failing = match random.below(3) {
                0 => MultiOp::Check(CheckRequest { path: Some("/missing".into()), version: 0 }),
                1 => MultiOp::Delete(DeleteRequest { path: Some("/zookeeper".into()), version: 7 }),
                _ => MultiOp::Create(requests::create_part("/zookeeper", Kind::Persistent)),
            };
            parts.insert(random.below(parts.len() + 1), failing);
        }
        WriteRequest::Multi(parts)
    }

    /// Quotas come, change and go.
    fn quota(&self, random: &mut Random) -> WriteRequest {
        let top = format!("/zookeeper/quota/{}", random.pick(QUOTA_TOPS));
        let limits = format!("{top}/zookeeper_limits");
        let stats = format!("{top}/zookeeper_stats");
        let text = Some(random.pick(QUOTA_TEXTS).as_bytes().into());
        let create = |path: &str| {
            let mut create = requests::create_part(path, Kind::Persistent);
            create.data = text.clone();
            create
        };
        match random.below(10) {
            0..5 => WriteRequest::Multi(vec![
                MultiOp::Create(create(&top)),
                MultiOp::Create(create(&limits)),
                MultiOp::Create(create(&stats)),
            ]),
            5..9 => {
                WriteRequest::SetData(SetDataRequest { path: Some(limits.into()), data: text, version: -1 })
            }
            _ => WriteRequest::Multi(
                [stats, limits, top]
                    .map(|path| MultiOp::Delete(DeleteRequest { path: Some(path.into()), version: -1 }))
                    .into(),
            ),
        }
    }
}

fn version(random: &mut Random) -> i32 {
    random.weighted(&[(70, -1), (15, 0), (10, 1), (5, 2)])
}
