//! The replies of four-letter words: the values that the caller fills, and their exact text.

use std::fmt::Write;

use zebu_metrics::{MetricsView, mntr_text};
use zebu_node::ServingMode;
use zebu_proto::Zxid;

use super::metrics::SummaryReport;
use super::{FourLetterWord, version};

/// The values of one reply. Each word has its own variant, so the caller collects only the values
/// of that word.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FourLetterReport {
    /// `ruok`.
    Alive,
    /// `srvr`.
    Server(ServerReport),
    /// `conf`.
    Settings(SettingsReport),
    /// `dirs`.
    Directories(DirectorySizes),
    /// `envi`.
    Environment(EnvironmentReport),
    /// `mntr`.
    Monitor(Box<MetricsView>),
    /// `wchs`.
    WatchSummary(WatchSummary),
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
    /// `shed`, after the connections were closed.
    Shed {
        /// Closed connections.
        closed: usize,
        /// Remaining connections.
        remaining: usize,
    },
    /// `shed` without a valid percentage.
    ShedUsage,
}

/// `srvr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerReport {
    /// Latency of requests since start or reset.
    pub(crate) latency: SummaryReport,
    /// Received packets.
    pub(crate) received: u64,
    /// Sent packets.
    pub(crate) sent: u64,
    /// Open connections of all listeners.
    pub(crate) connections: u64,
    /// Requests without a reply.
    pub(crate) outstanding: u64,
    /// Last applied transaction.
    pub(crate) zxid: Zxid,
    /// Mode of the server.
    pub(crate) mode: ServingMode,
    /// Nodes in the tree.
    pub(crate) node_count: u64,
    /// Only a leader has them.
    pub(crate) proposals: Option<ProposalSizes>,
}

/// Sizes of proposals in bytes; -1 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProposalSizes {
    /// Last proposal.
    pub(crate) last: i64,
    /// Smallest proposal.
    pub(crate) min: i64,
    /// Largest proposal.
    pub(crate) max: i64,
}

/// `conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsReport {
    /// The bound port.
    pub(crate) client_port: Option<u16>,
    /// The bound TLS port.
    pub(crate) secure_client_port: Option<u16>,
    /// Absolute, with `version-2`.
    pub(crate) data_dir: String,
    /// Bytes of its files.
    pub(crate) data_dir_size: u64,
    /// Absolute, with `version-2`.
    pub(crate) data_log_dir: String,
    /// Bytes of its files.
    pub(crate) data_log_size: u64,
    /// Milliseconds.
    pub(crate) tick_time_ms: u64,
    /// Connections per address; 0 = no limit.
    pub(crate) max_client_connections: u32,
    /// Milliseconds.
    pub(crate) min_session_timeout_ms: u64,
    /// Milliseconds.
    pub(crate) max_session_timeout_ms: u64,
    /// `None` uses the system's default.
    pub(crate) backlog: Option<u32>,
    /// 0 on a standalone server.
    pub(crate) server_id: i64,
    /// `None` for a standalone server.
    pub(crate) ensemble: Option<EnsembleSettings>,
}

/// The values of `conf` that only a member has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnsembleSettings {
    /// Ticks.
    pub(crate) init_limit: u32,
    /// Ticks.
    pub(crate) sync_limit: u32,
    /// Port of this server.
    pub(crate) election_port: u16,
    /// Port of this server.
    pub(crate) quorum_port: u16,
    /// Whether this server has no vote.
    pub(crate) is_observer: bool,
    /// The config as the servers exchange it. A read-only server does not show it.
    pub(crate) config: Option<String>,
}

/// `dirs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectorySizes {
    /// Bytes in the snapshot directory.
    pub(crate) data: u64,
    /// Bytes in the log directory.
    pub(crate) log: u64,
}

/// `envi`. An unknown value shows as `<NA>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EnvironmentReport {
    /// Name of the machine.
    pub(crate) host_name: Option<String>,
    /// Directory for temporary files.
    pub(crate) temporary_directory: Option<String>,
    /// `Linux`.
    pub(crate) os_name: Option<String>,
    /// `amd64`.
    pub(crate) os_arch: Option<String>,
    /// Kernel release.
    pub(crate) os_version: Option<String>,
    /// User of the process.
    pub(crate) user_name: Option<String>,
    /// Home of that user.
    pub(crate) user_home: Option<String>,
    /// Working directory.
    pub(crate) working_directory: Option<String>,
    /// Free memory of the machine in MB.
    pub(crate) memory_free_mb: Option<u64>,
    /// Memory that the process may use in MB.
    pub(crate) memory_max_mb: Option<u64>,
    /// Memory that the process uses in MB.
    pub(crate) memory_total_mb: Option<u64>,
}

/// `wchs`: data and exists watches only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchSummary {
    /// Connections with watches.
    pub(crate) connections: u64,
    /// Watched paths.
    pub(crate) paths: u64,
    /// Pairs of a connection and a path.
    pub(crate) watches: u64,
}

/// Renders a reply.
pub(crate) fn render(report: &FourLetterReport) -> String {
    let mut out = String::new();
    match report {
        FourLetterReport::Alive => out.push_str("imok"),
        FourLetterReport::Server(server) => {
            write_header(&mut out, server);
            write_server(&mut out, server);
        }
        FourLetterReport::Settings(settings) => write_settings(&mut out, settings),
        FourLetterReport::Directories(sizes) => {
            let _ = write!(out, "datadir_size: {}\nlogdir_size: {}\n", sizes.data, sizes.log);
        }
        FourLetterReport::Environment(machine) => write_environment(&mut out, machine),
        FourLetterReport::Monitor(view) => out = mntr_text(view),
        FourLetterReport::WatchSummary(WatchSummary { connections, paths, watches }) => {
            let _ =
                write!(out, "{connections} connections watching {paths} paths\nTotal watches:{watches}\n");
        }
        FourLetterReport::Digests(digests) => {
            for (zxid, digest) in digests {
                let _ = writeln!(out, "{:x}: {digest}", zxid.0);
            }
        }
        FourLetterReport::Writable => out.push_str("rw"),
        FourLetterReport::ReadOnly => out.push_str("ro"),
        FourLetterReport::TraceMask(mask) => {
            let _ = write!(out, "{mask}");
        }
        FourLetterReport::ConnectionStatsReset => out.push_str("Connection stats reset.\n"),
        FourLetterReport::ServerStatsReset => out.push_str("Server stats reset.\n"),
        FourLetterReport::Shed { closed, remaining: left } => {
            let _ = writeln!(out, "Connections shed: {closed}\nConnections left: {left}");
        }
        FourLetterReport::ShedUsage => {
            out.push_str("shed needs a percentage from 0 to 100, as in: shed 25\n")
        }
    }
    out
}

/// The reply to a known word that is not in the whitelist.
pub(crate) fn render_not_allowed(word: FourLetterWord) -> String {
    format!("{} is not executed because it is not in the whitelist.\n", word.name())
}

/// The reply while the server does not serve; `None` for words that are answered as usual.
pub(crate) fn render_not_serving(word: FourLetterWord) -> Option<String> {
    const TEXT: &str = "This ZooKeeper instance is not currently serving requests";
    match word {
        FourLetterWord::Ruok
        | FourLetterWord::Gtmk
        | FourLetterWord::Stmk
        | FourLetterWord::Envi
        | FourLetterWord::TelnetClose => None,
        FourLetterWord::Isro => Some("null".to_owned()),
        FourLetterWord::Hash => Some(TEXT.to_owned()),
        FourLetterWord::Conf
        | FourLetterWord::Cons
        | FourLetterWord::Crst
        | FourLetterWord::Dirs
        | FourLetterWord::Dump
        | FourLetterWord::Mntr
        | FourLetterWord::Shed
        | FourLetterWord::Srst
        | FourLetterWord::Srvr
        | FourLetterWord::Stat
        | FourLetterWord::Topn
        | FourLetterWord::Topp
        | FourLetterWord::Wchc
        | FourLetterWord::Wchp
        | FourLetterWord::Wchs => Some(format!("{TEXT}\n")),
    }
}

pub(super) fn write_header(out: &mut String, server: &ServerReport) {
    let _ = writeln!(out, "Zookeeper version: {}", version::full_version());
    if server.mode == ServingMode::ReadOnly {
        out.push_str("READ-ONLY mode; serving only read-only clients\n");
    }
}

pub(super) fn write_server(out: &mut String, server: &ServerReport) {
    let SummaryReport { min, max, .. } = server.latency;
    let average = zebu_metrics::double(server.latency.average());
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
    if let Some(member) = &settings.ensemble {
        let _ = write!(
            out,
            "initLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort={}\nquorumPort={}\npeerType={}\n",
            member.init_limit,
            member.sync_limit,
            member.election_port,
            member.quorum_port,
            i32::from(member.is_observer)
        );
        if let Some(members) = &member.config {
            let _ = write!(out, "membership: \n{members}");
        }
    }
}

fn write_environment(out: &mut String, machine: &EnvironmentReport) {
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
