//! `zebu backup run`: follows an ensemble and writes its history to a place.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use zebu_backup::core::hexadecimal;
use zebu_backup::core::learner_settings::LearnerSettings;
use zebu_backup::core::seal::Sealer;
use zebu_backup::core::segment::SegmentLimits;
use zebu_backup::encryption::Recipients;
use zebu_backup::run::{
    Ensemble, LeaderConnection, RunBegin, RunSettings, RunStatus, Verification, run, wall_ms,
};
use zebu_proto::ServerId;
use zebu_server::QuorumDialer;
use zebu_storage::Compression;

use super::access::AccessArguments;
use super::location::{Location, failure, hash_seed};
use super::spool_directory::SpoolDirectory;
use super::units::{milliseconds, parse_duration, parse_size};
use super::{leader, metrics_port, quorum};
use crate::logging::LogFormat;
use crate::offline::{Failure, Verdict};
use crate::protection::{Protection, ProtectionArguments};

/// Follow an ensemble and write its history, until the process is told to stop
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu backup run --servers zk1:2181,zk2:2181,zk3:2181 --to /backup
  zebu backup run --quorum zk1:2888,zk2:2888,zk3:2888 --to /backup --keep 30d
  zebu backup run --servers zk1:2181 --to /backup --quorum-config /etc/zookeeper/zoo.cfg
  zebu backup run --servers zk1:2181 --to s3://bucket/zk --s3-endpoint https://store:9000
  zebu backup run --servers zk1:2181 --to /backup --encrypt-to age1... --identity backup.key
  zebu backup run --servers zk1:2181 --to /backup --base-every 12h --verify-every 24h --metrics 127.0.0.1:9472

The process joins the leader's quorum port as an observer with an id of its own. It writes a whole state (a base) and \
then every committed transaction, in segments that are closed after --segment bytes or --every. With --servers it reads \
the quorum ports from /zookeeper/config and finds the leader by the word srvr; with --quorum it tries the given ports. \
If the leader changes, it joins the next one and gets what it missed. If no member has that any more, it begins a new \
history with a new base: the hole is shown by zebu backup list, and nothing within it can be restored. SIGTERM ends the \
process after the last segment was written. --tls and --sasl options are for the client ports of --servers; for \
quorum ports with TLS or SASL name the configuration of a server with --quorum-config.
Exit status: 0 it was told to stop and everything is written, 2 it cannot go on.")]
pub(super) struct Run {
    /// Client ports of the ensemble, host:port,host:port...
    #[arg(long, value_name = "SERVERS", required_unless_present = "quorum")]
    servers: Option<String>,

    /// Quorum ports of all voters, host:port,host:port..., instead of finding them by --servers
    #[arg(long, value_name = "PORTS", value_delimiter = ',', conflicts_with = "servers")]
    quorum: Option<Vec<String>>,

    /// The place of the backup: a directory, or s3://bucket/prefix
    #[arg(long, value_name = "PLACE")]
    to: Location,

    #[command(flatten)]
    access: AccessArguments,

    /// TLS and SASL of the quorum ports: the zoo.cfg of a server, or a file with only sslQuorum,
    /// ssl.quorum.* and quorum.auth.*
    #[arg(long, value_name = "FILE")]
    quorum_config: Option<PathBuf>,

    /// The id of the observer; no server may have it [default: a random number above a billion]
    #[arg(long, value_name = "NUMBER")]
    id: Option<i64>,

    /// Close a segment of the log at this size
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    segment: u64,

    /// Close a segment of the log at this age
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    every: Duration,

    /// Write another base after this time
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    base_every: Duration,

    /// Write another base after this much log
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = parse_size)]
    base_log: u64,

    /// Remove what no point within this time needs [default: everything is kept]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep: Option<Duration>,

    /// Prove the whole backup this often [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    verify_every: Option<Duration>,

    /// Memory for the log while the place cannot be written; then the process leaves the ensemble for a while
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    buffer: u64,

    /// A directory in which each base is written before it goes to its place; a private directory is created
    /// in it [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    spool: Option<PathBuf>,

    /// Encrypt bases and logs for this public key, age1...; may be given several times
    #[arg(long, value_name = "RECIPIENT", help_heading = "Encryption")]
    encrypt_to: Vec<String>,

    /// Begin a new history, although the backup could be continued
    #[arg(long)]
    new_base: bool,

    /// tickTime of the ensemble in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000, value_parser = clap::value_parser!(i64).range(1..=600_000))]
    tick_time: i64,

    /// Answer requests of HTTP at this address with metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// Print the numbers of the process as one JSON object per second
    #[arg(long)]
    json: bool,

    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,

    #[command(flatten)]
    protection: ProtectionArguments,
}

impl Run {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        crate::logging::start_tool(self.log_format).map_err(Failure::Text)?;
        let protection = self.protection.open().map_err(failure)?;
        let dialer = match &self.quorum_config {
            Some(file) => Arc::new(quorum::open_dialer(file)?),
            None => Arc::new(QuorumDialer::plain()),
        };
        let recipients = Recipients::parse(&self.encrypt_to).map_err(failure)?;
        if recipients.is_some() && self.access.identity.is_none() && self.verify_every.is_some() {
            let text = "--verify-every reads the backup; name the file of its key with --identity";
            return Err(Failure::Text(text.to_owned()));
        }
        let target = self.access.with_key(self.to.open_to_write(&self.access)?)?;
        let spool = self.spool.clone().unwrap_or_else(std::env::temp_dir);
        let spool = SpoolDirectory::create(&spool)?;
        let settings = self.settings(&spool, recipients)?;
        let ensemble = self.ensemble(protection, dialer);
        let status = Arc::new(RunStatus::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Text(format!("cannot start threads: {error}")))?;
        runtime.block_on(async {
            let (stop, stopped) = watch::channel(false);
            if let Some(address) = &self.metrics {
                tokio::spawn(metrics_port::serve(metrics_port::open(address).await?, status.clone()));
            }
            if self.json {
                tokio::spawn(print_numbers(status.clone()));
            }
            let mut terminate = signal(SignalKind::terminate()).map_err(failure)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failure)?;
            tokio::spawn(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                let _ = stop.send(true);
            });
            run(settings, target, ensemble, status, stopped).await.map_err(failure)
        })?;
        Ok(Verdict::Good)
    }

    fn settings(&self, spool: &SpoolDirectory, keys: Option<Recipients>) -> Result<RunSettings, Failure> {
        let random = hash_seed()?;
        let id = self.id.unwrap_or(1_000_000_000 + (random >> 34) as i64);
        let mut learner = LearnerSettings::new(ServerId(id));
        learner.tick_ms = self.tick_time;
        Ok(RunSettings {
            run: hexadecimal(&hash_seed()?.to_be_bytes()),
            learner,
            segments: SegmentLimits { bytes: self.segment, age_ms: milliseconds(self.every) },
            buffer_bytes: self.buffer.max(self.segment.saturating_mul(2)),
            base_every_ms: milliseconds(self.base_every),
            base_log_bytes: self.base_log,
            keep_ms: self.keep.map(milliseconds),
            verification: self.verification(),
            spool: spool.path().to_owned(),
            compression: Compression::Snappy,
            sealer: keys.map(|keys| Arc::new(keys) as Arc<dyn Sealer>),
            hash_seed: random,
            begin: if self.new_base { RunBegin::NewBase } else { RunBegin::Continue },
        })
    }

    /// A verification opens the place itself, so that it does not wait for the upload, nor the upload for it.
    fn verification(&self) -> Option<Verification> {
        let every_ms = milliseconds(self.verify_every?);
        let (place, access) = (self.to.clone(), self.access.clone());
        let open = Arc::new(move || {
            place.open_for_reader(&access).map_err(|failure| match failure {
                Failure::Text(text) => text,
                Failure::ReaderLeft => String::new(),
            })
        });
        Some(Verification { every_ms, open })
    }

    fn ensemble(&self, protection: Protection, dialer: Arc<QuorumDialer>) -> Ensemble {
        let (servers, quorum) = (self.servers.clone(), self.quorum.clone());
        Ensemble {
            find: Arc::new(move || match (&quorum, &servers) {
                (Some(ports), _) => Ok(ports.clone()),
                (None, Some(servers)) => leader::find(servers, &protection),
                (None, None) => Err("neither --servers nor --quorum is given".to_owned()),
            }),
            connect: Arc::new(move |address| {
                let dialer = dialer.clone();
                Box::pin(async move {
                    let connection = dialer.dial(&address).await?;
                    Ok(Box::new(connection) as Box<dyn LeaderConnection>)
                })
            }),
        }
    }
}

async fn print_numbers(status: Arc<RunStatus>) {
    loop {
        if let Ok(line) = serde_json::to_string(&status.view(wall_ms())) {
            crate::console::print_line(line);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
