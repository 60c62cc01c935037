//! What the brain orders, done in the order in which it is ordered.

use zebu_node::{DiskOrder, Order};
use zebu_proto::Zxid;
use zebu_storage::{
    Compression, Receiving, RecoveryOptions, Sections, TruncateError, recover, set_aside, truncate, trust,
};
use zebu_tree::{Tree, WalkProgress};
use zebu_zab::{Event as PeerEvent, IoId, Serving};

use super::inbox::Urgent;
use super::{Death, Membership, Process, Service, Work};
use crate::core::Core;
use crate::network::Host;
use crate::queue::Event;
use crate::server::start::{log_options, open_log, restore, tree_options};

fn failed(error: impl std::fmt::Display) -> Death {
    Death::Disk(error.to_string())
}

impl Process {
    /// Takes and begins everything that was ordered. True if there was anything.
    pub(super) fn take_orders(&mut self, core: &mut Core) -> Result<bool, Death> {
        if self.membership == Membership::Standalone {
            let batch = self.node.take_batch();
            let any = batch.is_some();
            self.work.extend(batch.map(Work::Batch));
            return Ok(any);
        }
        let mut orders = Vec::new();
        self.node.take_orders(&mut orders);
        let any = !orders.is_empty();
        self.turns += 1;
        for order in orders {
            self.obey(order, core)?;
        }
        Ok(any)
    }

    fn obey(&mut self, order: Order, core: &mut Core) -> Result<(), Death> {
        match order {
            Order::Notify { to, notification } => {
                let to = to.0 as usize - 1;
                let mut bytes = Vec::new();
                notification.encode(&mut bytes);
                if !self.can_tell(to) {
                    return Ok(());
                }
                let at = core.notification_due(Host(self.server), Host(to));
                core.tell(format_args!(
                    "s{} votes to s{to}: {:?} for s{} at {} in round {}",
                    self.server,
                    notification.state,
                    notification.leader.0.wrapping_sub(1),
                    notification.zxid,
                    notification.round
                ));
                if let Some(at) = at {
                    core.push(at, Event::Notification { from: self.server, to, bytes });
                }
            }
            Order::Dial { link, to, .. } => {
                let to = to.0 as usize - 1;
                if self.can_dial(to) {
                    self.dial(link, to, core);
                } else {
                    core.tell(format_args!("s{} does not know where s{to} is", self.server));
                    self.peer_event(PeerEvent::DialFailed { link });
                }
            }
            Order::Send { link, packet } => self.send_packet(link, &packet, core),
            Order::Close { link, reason } => self.close_link(link, &reason, core),
            Order::StreamSnapshot { link, zxid } => self.stream_state(link, zxid, core),
            Order::ReadLog { link, after, up_to, purpose } => self.read_log(link, after, up_to, purpose),
            Order::DiscardSnapshot { link } => {
                self.received.remove(&link);
            }
            Order::Disk(order) => {
                if let DiskOrder::Append { batch, .. } = &order
                    && self.leads.is_some()
                {
                    core.judge.leader_appends(self.server, batch.last.0, self.turns);
                }
                self.work.push_back(Work::Order(order));
            }
            Order::Serve(serving) => self.serve(serving, core),
            Order::Remember { configuration } => self.remember(configuration, core),
            Order::Report(finding) => core.tell(format_args!("s{} reports: {finding}", self.server)),
            Order::Locate { configuration } => self.locate(&configuration, core),
            Order::Activate { configuration } => self.activate(configuration, core),
            // Nobody is served without a leader in these worlds.
            Order::ServeReadOnly => {}
            Order::StopServing => {
                core.tell(format_args!("s{} stops serving", self.server));
                // A snapshot that is being written goes on: what it holds is decided.
                self.service = Service::Closed;
                self.roles += 1;
                self.leads = None;
                core.judge.quiet.disturb_server(self.server, core.now);
            }
        }
        Ok(())
    }

    fn serve(&mut self, serving: Serving, core: &mut Core) {
        core.tell(format_args!("s{} serves: {serving:?} at {}", self.server, self.replica.last_zxid()));
        self.service = Service::Open;
        self.roles += 1;
        core.judge.quiet.disturb_server(self.server, core.now);
        if let Serving::Leading { epoch } = serving {
            self.leads = Some(epoch);
            core.counts.leaders += 1;
        }
        let last = self.replica.last_zxid().0;
        core.judge.serving(self.server, self.incarnation, serving, last);
        self.observed = None;
        self.show_state(core);
    }

    /// Tells the brain that some work and all before it is done.
    pub(super) fn persisted(&mut self, io: IoId) {
        self.peer_event(PeerEvent::Persisted { io });
    }

    /// Tells the brain so, and that the disk holds another state now.
    fn replaced(&mut self, io: IoId, tree: Tree) {
        self.inbox.urgent(Urgent::Replaced { io, tree: Box::new(tree) });
    }

    /// Does work other than an append.
    pub(super) fn perform(&mut self, order: DiskOrder, core: &mut Core) -> Result<(), Death> {
        core.tell(format_args!("s{} does {order:?}", self.server));
        match order {
            DiskOrder::Append { .. } => {}
            DiskOrder::Truncate { io, to } => return self.truncate(io, to, core),
            DiskOrder::InstallSnapshot { io, link, tail, zxid } => {
                let state = self.received.remove(&link);
                let Some((from, bytes)) = state else {
                    return Err(failed("a state was to be installed that did not come"));
                };
                let mut tree = restore(&bytes, from).map_err(failed)?;
                for entry in tail.iter().filter(|entry| entry.zxid > from) {
                    let decoded = zebu_proto::txn::TxnEntry::decode(&entry.bytes).map_err(failed)?;
                    tree.apply(&decoded.header, &decoded.txn, &mut |_| ());
                }
                self.install(io, tree, zxid, core)?;
            }
            DiskOrder::SetAside { io } => {
                core.judge.servers[self.server].replacing = true;
                self.log = None;
                set_aside(&self.disk, &self.directories).map_err(failed)?;
                let tree = Tree::new(tree_options());
                self.log = Some(open_log(&self.disk, &self.directories, &tree, &core.shape).map_err(failed)?);
                core.judge.servers[self.server].install(0);
                core.judge.servers[self.server].rotten = true;
                core.judge.servers[self.server].untrusted = true;
                self.replaced(io, tree);
            }
            DiskOrder::MarkTrusted { io } => {
                trust::settle(&self.disk, &self.directories.snapshots()).map_err(failed)?;
                core.judge.servers[self.server].untrusted = false;
                self.persisted(io);
            }
            DiskOrder::SaveAcceptedEpoch { io, epoch } => {
                if let Some(epochs) = &mut self.epochs {
                    epochs.save_accepted(&self.disk, i64::from(epoch)).map_err(failed)?;
                }
                core.judge.servers[self.server].accepted_epoch = i64::from(epoch);
                self.persisted(io);
            }
            DiskOrder::SaveCurrentEpoch { io, epoch } => {
                if let Some(epochs) = &mut self.epochs {
                    epochs.save_current(&self.disk, i64::from(epoch)).map_err(failed)?;
                }
                let view = &mut core.judge.servers[self.server];
                view.current_epoch = i64::from(epoch);
                view.joined_epoch = view.joined_epoch.max(view.current_epoch);
                view.untrusted = false;
                self.persisted(io);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, io: IoId, to: Zxid, core: &mut Core) -> Result<(), Death> {
        if let Some(log) = &mut self.log {
            log.roll().map_err(failed)?;
        }
        // A crash leaves an end somewhere between the two.
        let view = &mut core.judge.servers[self.server];
        view.durable = view.durable.min(to.0);
        match truncate(&self.disk, &self.directories, to) {
            Ok(_) => {}
            Err(TruncateError::Refused { .. }) => {
                let view = &mut core.judge.servers[self.server];
                view.durable = view.last();
                self.peer_event(PeerEvent::TruncateRefused { io });
                return Ok(());
            }
            Err(TruncateError::Io(error)) => return Err(failed(error)),
        }
        self.log = None;
        let mut reloaded = None;
        if self.replica.last_zxid() > to {
            let mut target = zebu_node::Restore::new(tree_options());
            let options = RecoveryOptions::member();
            recover(&self.disk, &self.directories, options, &mut target, &mut |_| ()).map_err(failed)?;
            reloaded = Some(target.finish());
        }
        let options = log_options(&self.directories, &core.shape);
        let tree = reloaded.as_ref().unwrap_or(self.replica.tree());
        let opened = zebu_storage::LogWriter::open(self.disk.clone(), options, to);
        self.log = Some(match opened {
            Ok(log) => log,
            Err(zebu_storage::LogError::NoSnapshot(_)) => {
                open_log(&self.disk, &self.directories, tree, &core.shape).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        });
        core.judge.servers[self.server].truncate(to.0);
        match reloaded {
            Some(tree) => self.replaced(io, tree),
            None => self.persisted(io),
        }
        Ok(())
    }

    fn install(&mut self, io: IoId, tree: Tree, zxid: Zxid, core: &mut Core) -> Result<(), Death> {
        core.judge.servers[self.server].replacing = true;
        self.log = None;
        let mut receiving = Receiving::begin(self.disk.clone(), &self.directories, zxid, Compression::Plain)
            .map_err(failed)?;
        tree.sessions().iter().for_each(|(&id, &timeout_ms)| receiving.session(id, timeout_ms));
        tree.acl_table().for_each(|(id, acl)| receiving.acl(id, acl.to_vec()));
        let mut walker = tree.walker();
        let mut result = Ok(());
        while walker.next_slice(&tree, usize::MAX, &mut |path, data, acl, stat| {
            if result.is_ok() {
                result = receiving.node(path, data, acl, stat);
            }
        }) == WalkProgress::More
        {}
        result.map_err(failed)?;
        let sections = Sections::DigestAndLastZxid { zxid, digest: tree.digest(), last_zxid: zxid };
        receiving.finish(sections).map_err(failed)?.commit().map_err(failed)?;
        let options = log_options(&self.directories, &core.shape);
        self.log = Some(zebu_storage::LogWriter::open(self.disk.clone(), options, zxid).map_err(failed)?);
        core.judge.installed(self.server, zxid.0);
        self.replaced(io, tree);
        Ok(())
    }
}
