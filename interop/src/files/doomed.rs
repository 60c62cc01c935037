//! Containers and TTL nodes look like plain nodes to clients. That they still are what they were shows when
//! a server removes those that it must, and only those.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use zebu_proto::client::{DeleteRequest, WriteRequest};

use super::requests::{self, Kind};
use super::seats::exists;
use crate::client::Client;

const SWEEP_LIMIT: Duration = Duration::from_secs(40);

/// A directory of nodes, of which some are to go.
#[derive(Clone, Debug)]
pub(super) struct Doomed {
    top: String,
}

const GOING: &[&str] = &["/ttl", "/ttl-by-multi", "/container", "/container-by-multi"];
const STAYING: &[&str] = &[
    "/plain",
    "/ttl-long",
    "/ttl-parent",
    "/ttl-parent/child",
    "/container-unused",
    "/container-parent",
    "/container-parent/child",
];

impl Doomed {
    /// Makes the directory.
    pub(super) fn make(client: &mut Client, number: usize) -> Result<Doomed> {
        let top = format!("/doomed-{number}");
        let mut write = |request: WriteRequest| -> Result<()> {
            let answer = client.write(&request)?;
            ensure!(answer.error == 0, "{request:?} was answered {answer:?}");
            Ok(())
        };
        let part = |name: &str, kind, ttl_ms: Option<i64>| {
            let mut part = requests::create_part(&format!("{top}{name}"), kind);
            part.ttl_ms = ttl_ms.unwrap_or(part.ttl_ms);
            part
        };
        write(requests::create(&top, Kind::Persistent))?;
        write(requests::create(&format!("{top}/plain"), Kind::Persistent))?;
        for (name, ttl_ms) in [("/ttl", Some(1)), ("/ttl-long", None), ("/ttl-parent", Some(1))] {
            write(WriteRequest::Create(part(name, Kind::Ttl, ttl_ms)))?;
        }
        for name in ["/container", "/container-unused", "/container-parent"] {
            write(WriteRequest::Create(part(name, Kind::Container, None)))?;
        }
        write(WriteRequest::Multi(vec![
            zebu_proto::client::MultiOp::Create(part("/ttl-by-multi", Kind::Ttl, Some(1))),
            zebu_proto::client::MultiOp::Create(part("/container-by-multi", Kind::Container, None)),
        ]))?;
        for name in ["/ttl-parent", "/container-parent", "/container", "/container-by-multi"] {
            write(requests::create(&format!("{top}{name}/child"), Kind::Persistent))?;
        }
        for name in ["/container", "/container-by-multi"] {
            let path = Some(format!("{top}{name}/child").into());
            write(WriteRequest::Delete(DeleteRequest { path, version: -1 }))?;
        }
        Ok(Doomed { top })
    }

    /// Waits until a server that sweeps has removed what must go, and looks for the rest.
    pub(super) fn wait(&self, client: &mut Client) -> Result<()> {
        let deadline = Instant::now() + SWEEP_LIMIT;
        for name in GOING {
            while exists(client, &format!("{}{name}", self.top))? {
                if Instant::now() > deadline {
                    bail!("{}{name} was not removed within {SWEEP_LIMIT:?}", self.top);
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        for name in STAYING {
            ensure!(exists(client, &format!("{}{name}", self.top))?, "{}{name} was removed", self.top);
        }
        Ok(())
    }
}
