//! Reconfig as the edge of the real server sees it: reachable peers, client ports, config files, and the
//! config node outside the history.

use std::collections::{BTreeSet, VecDeque};

use zebu_runtime::config_to_show;
use zebu_zab::Configuration;

use super::Process;
use crate::check::startable_configurations::check_written;
use crate::context::SimContext;
use crate::members::{CLIENT_PORTS, EnsembleConfig};
use crate::queue::{MS, SimEvent};
use crate::server::member_files::FileWork;

/// The state of the edge for reconfig.
#[derive(Debug)]
pub(crate) struct MembersEdge {
    pub(crate) configuration: Configuration,
    /// The servers of the config, and those of a proposed config.
    members: BTreeSet<usize>,
    proposed: BTreeSet<usize>,
    /// Unknown servers that have connected to the election port.
    met: BTreeSet<usize>,
    client_port: u16,
    work: VecDeque<FileWork>,
}

fn numbers(configuration: &Configuration) -> BTreeSet<usize> {
    configuration.members.keys().map(|id| id.0 as usize - 1).collect()
}

impl MembersEdge {
    pub(crate) fn new(
        server: usize,
        configuration: Configuration,
        seen: Option<&Configuration>,
    ) -> MembersEdge {
        let mut edge = MembersEdge {
            members: numbers(&configuration),
            proposed: seen.map(numbers).unwrap_or_default(),
            met: BTreeSet::new(),
            client_port: CLIENT_PORTS[0],
            work: VecDeque::new(),
            configuration,
        };
        edge.listen(server);
        edge
    }

    fn listen(&mut self, server: usize) {
        let id = zebu_proto::ServerId(crate::members::id_of(server));
        let own = self.configuration.members.get(&id);
        if let Some(client) = own.and_then(|own| own.client.as_ref()) {
            self.client_port = client.port;
        }
    }

    fn knows(&self, server: usize) -> bool {
        self.members.contains(&server) || self.proposed.contains(&server)
    }
}

impl Process {
    /// Whether a server can be dialled.
    pub(super) fn can_dial(&self, server: usize) -> bool {
        self.members_edge.as_ref().is_none_or(|edge| edge.knows(server))
    }

    /// Whether a server can get a notification: it can if it has connected itself.
    pub(super) fn can_tell(&self, server: usize) -> bool {
        self.members_edge.as_ref().is_none_or(|edge| edge.knows(server) || edge.met.contains(&server))
    }

    /// A notification of a server was received.
    pub(super) fn meet(&mut self, server: usize) {
        if let Some(edge) = &mut self.members_edge {
            edge.met.insert(server);
        }
    }

    /// The port for clients.
    pub(crate) fn client_port(&self) -> u16 {
        self.members_edge.as_ref().map_or(CLIENT_PORTS[0], |edge| edge.client_port)
    }

    /// The version of the config in effect.
    pub(crate) fn list_version(&self) -> Option<i64> {
        self.members_edge.as_ref().map(|edge| edge.configuration.version)
    }

    /// All servers of the configs that it knows.
    pub(crate) fn known_members(&self) -> BTreeSet<usize> {
        let edge = self.members_edge.iter();
        edge.flat_map(|edge| edge.members.union(&edge.proposed).copied()).collect()
    }

    pub(super) fn remember(&mut self, configuration: Box<Configuration>, core: &mut SimContext) {
        core.trace_line(format_args!("s{} sees list {:#x}", self.server, configuration.version));
        core.checker.report(check_written(self.server, &configuration));
        if let Some(list) = EnsembleConfig::read(&configuration.to_string()) {
            core.checker.config_proposed(self.server, &list);
        }
        if let Some(edge) = &mut self.members_edge {
            edge.proposed = numbers(&configuration);
            edge.work.push_back(FileWork::Remember(configuration));
        }
        self.schedule_files(core);
    }

    pub(super) fn locate(&mut self, configuration: &Configuration, core: &mut SimContext) {
        core.trace_line(format_args!("s{} hears of list {:#x}", self.server, configuration.version));
        if let Some(edge) = &mut self.members_edge {
            edge.proposed = numbers(configuration);
        }
    }

    pub(super) fn activate(&mut self, configuration: Box<Configuration>, core: &mut SimContext) {
        let list = EnsembleConfig::read(&configuration.to_string()).unwrap_or_default();
        core.trace_line(format_args!(
            "s{} activates list {:#x}: {:?}",
            self.server, list.version, list.servers
        ));
        core.mix(list.version as u64);
        core.counts.activations += 1;
        let leads = self.leads.is_some().then_some(self.turns);
        core.checker.config_activated(self.server, &list, leads);
        let wall_ms = self.moment(core).wall_ms;
        if let Some(edge) = &mut self.members_edge {
            edge.configuration = (*configuration).clone();
            edge.members = numbers(&configuration);
            edge.proposed.clear();
            edge.met.clear();
            edge.listen(self.server);
            edge.work.push_back(FileWork::Activate(configuration.clone()));
        }
        if configuration.zxid().counter() == 0
            && let Some(text) = config_to_show(self.replica.tree(), &configuration)
        {
            self.replica.set_config(text, configuration.zxid(), wall_ms);
        }
        self.schedule_files(core);
    }

    /// The files are written in the background, one after the other.
    fn schedule_files(&mut self, core: &mut SimContext) {
        let Some(edge) = &mut self.members_edge else { return };
        if edge.work.len() == 1 {
            let pause = core.disk_random.skewed(MS / 10, core.parameters.tick() / 2);
            let (server, incarnation) = (self.server, self.incarnation);
            core.push(core.now + pause, SimEvent::FilesWritten { server, incarnation });
        }
    }

    /// The time to write a file has come.
    pub(crate) fn write_files(&mut self, core: &mut SimContext) {
        let Some(edge) = &mut self.members_edge else { return };
        let Some(work) = edge.work.pop_front() else { return };
        // A directory that cannot be written has no effect on the ensemble.
        if let Ok(in_effect) = work.perform(&self.disk) {
            if let Some(version) = in_effect {
                let view = &mut core.checker.servers[self.server];
                view.list_saved = view.list_saved.max(version);
            }
            let _ = work.tidy(&self.disk);
        }
        if let Some(edge) = &mut self.members_edge
            && !edge.work.is_empty()
        {
            let pause = core.disk_random.skewed(MS / 10, core.parameters.tick() / 2);
            let (server, incarnation) = (self.server, self.incarnation);
            core.push(core.now + pause, SimEvent::FilesWritten { server, incarnation });
        }
    }
}
