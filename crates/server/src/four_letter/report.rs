//! The answers of four-letter words: plain values that the edge fills, and the exact text they become.

use std::fmt::{self, Write};

use zebu_proto::{SessionId, Zxid};

use super::connection::{ConnectionReport, Detail, write_connection};
use super::dump::{SessionDump, write_dump};
use super::metrics::{Metrics, Summary};
use super::{Word, java_text, version};

/// What the server is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Without peers.
    Standalone,
    /// Leads an ensemble.
    Leader,
    /// Votes in an ensemble.
    Follower,
    /// Listens to an ensemble.
    Observer,
    /// Cut off from its ensemble.
    ReadOnly,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Standalone => "standalone",
            Mode::Leader => "leader",
            Mode::Follower => "follower",
            Mode::Observer => "observer",
            Mode::ReadOnly => "read-only",
        })
    }
}

/// The values of one answer. Each word has one variant, so the edge gathers only what that word shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// `ruok`.
    Alive,
    /// `srvr`.
    Server(ServerReport),
    /// `stat`: the server and the connections of the listener on which the word arrived.
    ServerAndClients(ServerReport, Vec<ConnectionReport>),
    /// `cons`.
    Connections(Vec<ConnectionReport>),
    /// `conf`.
    Settings(SettingsReport),
    /// `dirs`.
    Directories(DirectorySizes),
    /// `envi`.
    Machine(MachineReport),
    /// `dump`.
    Sessions(SessionDump),
    /// `mntr`.
    Monitor(Mode, Metrics),
    /// `wchs`.
    WatchSummary(WatchSummary),
    /// `wchc`: the paths that each session watches.
    WatchesBySession(Vec<(SessionId, Vec<String>)>),
    /// `wchp`: the sessions that watch each path.
    WatchesByPath(Vec<(String, Vec<SessionId>)>),
    /// `hash`: zxid and digest of the tree, oldest first.
    Digests(Vec<(Zxid, i64)>),
    /// `isro`.
    Writable,
    /// `isro` of a read-only server.
    ReadOnly,
    /// `gtmk`, and `stmk` with the new mask.
    TraceMask(i64),
    /// `crst`, after the reset.
    ConnectionStatsReset,
    /// `srst`, after the reset.
    ServerStatsReset,
    /// `shed`, after that.
    Shed {
        /// Connections that were closed.
        closed: usize,
        /// Connections that stay.
        left: usize,
    },
    /// `shed` with something that is no percentage.
    ShedWhat,
}

/// `srvr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Latency of requests since start or reset.
    pub latency: Summary,
    /// Packets in.
    pub received: u64,
    /// Packets out.
    pub sent: u64,
    /// Open connections of all listeners.
    pub connections: u64,
    /// Requests in process.
    pub outstanding: u64,
    /// Last applied transaction.
    pub zxid: Zxid,
    /// What the server is.
    pub mode: Mode,
    /// Nodes in the tree.
    pub node_count: u64,
    /// Of a leader.
    pub proposals: Option<ProposalSizes>,
}

/// Sizes of proposals in bytes; -1 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposalSizes {
    /// Of the last one.
    pub last: i64,
    /// Of the smallest.
    pub min: i64,
    /// Of the largest.
    pub max: i64,
}

/// `conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsReport {
    /// The port that is bound.
    pub client_port: Option<u16>,
    /// The TLS port that is bound.
    pub secure_client_port: Option<u16>,
    /// Absolute, with `version-2`.
    pub data_dir: String,
    /// Bytes in it.
    pub data_dir_size: u64,
    /// Absolute, with `version-2`.
    pub data_log_dir: String,
    /// Bytes in it.
    pub data_log_size: u64,
    /// Milliseconds.
    pub tick_time_ms: u64,
    /// Connections per address; 0 = no limit.
    pub max_client_connections: u32,
    /// Milliseconds.
    pub min_session_timeout_ms: u64,
    /// Milliseconds.
    pub max_session_timeout_ms: u64,
    /// `None` = the system's choice.
    pub backlog: Option<u32>,
    /// 0 on a standalone server.
    pub server_id: i64,
    /// Of a member of an ensemble.
    pub member: Option<MemberSettings>,
}

/// What `conf` shows of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSettings {
    /// Ticks.
    pub init_limit: u32,
    /// Ticks.
    pub sync_limit: u32,
    /// Its own.
    pub election_port: u16,
    /// Its own.
    pub quorum_port: u16,
    /// Whether it only listens.
    pub is_observer: bool,
    /// All members, as they tell it each other. A read-only server does not show them.
    pub membership: Option<String>,
}

/// `dirs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Bytes in the snapshot directory.
    pub data: u64,
    /// Bytes in the log directory.
    pub log: u64,
}

/// `envi`. What is unknown shows as `<NA>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineReport {
    /// Name of the machine.
    pub host_name: Option<String>,
    /// Directory for temporary files.
    pub temporary_directory: Option<String>,
    /// `Linux`.
    pub os_name: Option<String>,
    /// `amd64`.
    pub os_arch: Option<String>,
    /// Kernel release.
    pub os_version: Option<String>,
    /// User of the process.
    pub user_name: Option<String>,
    /// Home of that user.
    pub user_home: Option<String>,
    /// Working directory.
    pub working_directory: Option<String>,
    /// Free memory of the machine in MB.
    pub memory_free_mb: Option<u64>,
    /// Memory that the process may use in MB.
    pub memory_max_mb: Option<u64>,
    /// Memory that the process uses in MB.
    pub memory_total_mb: Option<u64>,
}

/// `wchs`: data and exists watches only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections that watch something.
    pub connections: u64,
    /// Paths that are watched.
    pub paths: u64,
    /// Pairs of both.
    pub watches: u64,
}

/// The text of an answer.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    match report {
        Report::Alive => out.push_str("imok"),
        Report::Server(server) => {
            write_head(&mut out, server);
            write_server(&mut out, server);
        }
        Report::ServerAndClients(server, connections) => {
            write_head(&mut out, server);
            out.push_str("Clients:\n");
            write_connections(&mut out, connections, Detail::Brief);
            write_server(&mut out, server);
        }
        Report::Connections(connections) => write_connections(&mut out, connections, Detail::Full),
        Report::Settings(settings) => write_settings(&mut out, settings),
        Report::Directories(sizes) => {
            let _ = write!(out, "datadir_size: {}\nlogdir_size: {}\n", sizes.data, sizes.log);
        }
        Report::Machine(machine) => write_machine(&mut out, machine),
        Report::Sessions(dump) => write_dump(&mut out, dump),
        Report::Monitor(mode, metrics) => write_monitor(&mut out, *mode, metrics),
        Report::WatchSummary(WatchSummary { connections, paths, watches }) => {
            let _ =
                write!(out, "{connections} connections watching {paths} paths\nTotal watches:{watches}\n");
        }
        Report::WatchesBySession(sessions) => {
            for (session, paths) in sessions {
                let _ = writeln!(out, "0x{:x}", session.0);
                write_indented(&mut out, paths);
            }
            out.push('\n');
        }
        Report::WatchesByPath(paths) => {
            for (path, sessions) in paths {
                let _ = writeln!(out, "{path}");
                write_indented(&mut out, sessions.iter().map(|session| format!("0x{:x}", session.0)));
            }
            out.push('\n');
        }
        Report::Digests(digests) => {
            for (zxid, digest) in digests {
                let _ = writeln!(out, "{:x}: {digest}", zxid.0);
            }
        }
        Report::Writable => out.push_str("rw"),
        Report::ReadOnly => out.push_str("ro"),
        Report::TraceMask(mask) => {
            let _ = write!(out, "{mask}");
        }
        Report::ConnectionStatsReset => out.push_str("Connection stats reset.\n"),
        Report::ServerStatsReset => out.push_str("Server stats reset.\n"),
        Report::Shed { closed, left } => {
            let _ = writeln!(out, "Connections shed: {closed}\nConnections left: {left}");
        }
        Report::ShedWhat => out.push_str("shed needs a percentage from 0 to 100, as in: shed 25\n"),
    }
    out
}

/// The answer to a word that is known but not in the whitelist.
pub fn render_not_allowed(word: Word) -> String {
    format!("{} is not executed because it is not in the whitelist.\n", word.name())
}

/// The answer while the server does not serve; `None` for the words that answer as always.
pub fn render_not_serving(word: Word) -> Option<String> {
    const TEXT: &str = "This ZooKeeper instance is not currently serving requests";
    match word {
        Word::Ruok | Word::Gtmk | Word::Stmk | Word::Envi | Word::TelnetClose => None,
        Word::Isro => Some("null".to_owned()),
        Word::Hash => Some(TEXT.to_owned()),
        Word::Conf
        | Word::Cons
        | Word::Crst
        | Word::Dirs
        | Word::Dump
        | Word::Mntr
        | Word::Shed
        | Word::Srst
        | Word::Srvr
        | Word::Stat
        | Word::Wchc
        | Word::Wchp
        | Word::Wchs => Some(format!("{TEXT}\n")),
    }
}

fn write_head(out: &mut String, server: &ServerReport) {
    let _ = writeln!(out, "Zookeeper version: {}", version::full_version());
    if server.mode == Mode::ReadOnly {
        out.push_str("READ-ONLY mode; serving only read-only clients\n");
    }
}

fn write_server(out: &mut String, server: &ServerReport) {
    let Summary { min, max, .. } = server.latency;
    let average = java_text::double(server.latency.average());
    let _ = write!(
        out,
        "Latency min/avg/max: {min}/{average}/{max}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: 0x{:x}\nMode: {}\nNode count: {}\n",
        server.received,
        server.sent,
        server.connections,
        server.outstanding,
        server.zxid.0,
        server.mode,
        server.node_count
    );
    if let Some(ProposalSizes { last, min, max }) = server.proposals {
        let _ = writeln!(out, "Proposal sizes last/min/max: {last}/{min}/{max}");
    }
}

fn write_connections(out: &mut String, connections: &[ConnectionReport], detail: Detail) {
    for connection in connections {
        write_connection(out, connection, detail);
    }
    out.push('\n');
}

fn write_settings(out: &mut String, settings: &SettingsReport) {
    let port = |port: Option<u16>| port.map_or(-1, i32::from);
    let backlog = settings.backlog.map_or(-1, i64::from);
    let _ = write!(
        out,
        "clientPort={}\nsecureClientPort={}\ndataDir={}\ndataDirSize={}\ndataLogDir={}\ndataLogSize={}\n\
         tickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\nmaxSessionTimeout={}\n\
         clientPortListenBacklog={backlog}\nserverId={}\n",
        port(settings.client_port),
        port(settings.secure_client_port),
        settings.data_dir,
        settings.data_dir_size,
        settings.data_log_dir,
        settings.data_log_size,
        settings.tick_time_ms,
        settings.max_client_connections,
        settings.min_session_timeout_ms,
        settings.max_session_timeout_ms,
        settings.server_id
    );
    if let Some(member) = &settings.member {
        let _ = write!(
            out,
            "initLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort={}\nquorumPort={}\npeerType={}\n",
            member.init_limit,
            member.sync_limit,
            member.election_port,
            member.quorum_port,
            i32::from(member.is_observer)
        );
        if let Some(members) = &member.membership {
            let _ = write!(out, "membership: \n{members}");
        }
    }
}

fn write_machine(out: &mut String, machine: &MachineReport) {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "<NA>".to_owned());
    let memory = |value: Option<u64>| value.map_or_else(|| "<NA>".to_owned(), |mb| format!("{mb}MB"));
    let unknown = || "<NA>".to_owned();
    out.push_str("Environment:\n");
    for (key, value) in [
        ("zookeeper.version", version::full_version()),
        ("host.name", text(&machine.host_name)),
        ("java.version", unknown()),
        ("java.vendor", unknown()),
        ("java.home", unknown()),
        ("java.class.path", unknown()),
        ("java.library.path", unknown()),
        ("java.io.tmpdir", text(&machine.temporary_directory)),
        ("java.compiler", unknown()),
        ("os.name", text(&machine.os_name)),
        ("os.arch", text(&machine.os_arch)),
        ("os.version", text(&machine.os_version)),
        ("user.name", text(&machine.user_name)),
        ("user.home", text(&machine.user_home)),
        ("user.dir", text(&machine.working_directory)),
        ("jvm.memory.free", memory(machine.memory_free_mb)),
        ("jvm.memory.max", memory(machine.memory_max_mb)),
        ("jvm.memory.total", memory(machine.memory_total_mb)),
    ] {
        let _ = writeln!(out, "{key}={value}");
    }
}

pub(super) fn write_indented(out: &mut String, lines: impl IntoIterator<Item = impl fmt::Display>) {
    for line in lines {
        let _ = writeln!(out, "\t{line}");
    }
}

fn write_monitor(out: &mut String, mode: Mode, metrics: &Metrics) {
    let _ = write!(out, "zk_version\t{}\nzk_server_state\t{mode}\n", version::full_version());
    if let Some(doing) = peer_state(mode) {
        let _ = writeln!(out, "zk_peer_state\t{doing} - broadcast");
    }
    for (name, value) in &metrics.values {
        let _ = writeln!(out, "zk_{name}\t{}", value.text());
    }
}

/// What a member does in its ensemble. One that serves clients is in the broadcast.
fn peer_state(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Leader => Some("leading"),
        Mode::Follower => Some("following"),
        Mode::Observer => Some("observing"),
        Mode::Standalone | Mode::ReadOnly => None,
    }
}
