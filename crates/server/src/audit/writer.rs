//! The thread that writes the audit log. It may wait for a disk. No other part waits for it.

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::{error, info, warn};
use zebu_node::{AuditEvent, AuditLevel};

use super::queue::QueueLevel;
use super::{AuditLog, REPORT_PERIOD_MS, TargetState, server_user};
use crate::config::security::audit::{AuditFailurePolicy, AuditFormat, AuditTarget};
use crate::rotated_file::RotatedFile;

/// The file is looked at, and a failed write repeated, after this time.
const RECHECK_PERIOD: Duration = Duration::from_secs(1);
/// Bytes that are written at once, unless a single line is longer.
const CHUNK_BYTES: usize = 64 << 10;
/// How long a stopping server waits for the last lines.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The logger's name in ZooKeeper's lines.
const LOGGER: &str = "o.a.z.a.Slf4jAuditLogger";

/// The running thread.
#[derive(Debug)]
pub(crate) struct AuditThread {
    log: Arc<AuditLog>,
    ended: Receiver<()>,
}

impl AuditThread {
    pub(crate) fn start(log: Arc<AuditLog>) -> io::Result<AuditThread> {
        let (alive, ended) = channel();
        let writer = AuditWriter::new(log.clone(), alive);
        std::thread::Builder::new().name("zebu-audit".to_owned()).spawn(move || writer.run())?;
        Ok(AuditThread { log, ended })
    }

    /// Writes the queued lines and ends the thread. A thread that hangs in its disk is left behind.
    pub(crate) fn close(self) {
        self.log.queue.close();
        if self.ended.recv_timeout(CLOSE_TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            warn!("the last lines of the audit log are not written: its disk does not answer");
        }
    }
}

/// The target of the lines.
#[derive(Debug)]
enum OpenTarget {
    ServerLog,
    File(RotatedFile),
}

struct AuditWriter {
    log: Arc<AuditLog>,
    target: OpenTarget,
    server_user: String,
    time_zone: TimeZone,
    failure_reported: Option<Instant>,
    checked: Instant,
    /// Dropped with the writer, so that the end of the thread is seen.
    _alive: Sender<()>,
}

impl AuditWriter {
    fn new(log: Arc<AuditLog>, alive: Sender<()>) -> AuditWriter {
        let target = match &log.config.target {
            AuditTarget::ServerLog => OpenTarget::ServerLog,
            AuditTarget::File(config) => OpenTarget::File(RotatedFile::new(config.clone())),
        };
        AuditWriter {
            log,
            target,
            server_user: server_user::server_user(),
            time_zone: TimeZone::system(),
            failure_reported: None,
            checked: Instant::now(),
            _alive: alive,
        }
    }

    fn run(mut self) {
        self.open();
        loop {
            let taken = self.log.queue.take(RECHECK_PERIOD);
            self.check_file();
            self.write(&taken.events, taken.is_closed);
            if taken.level == QueueLevel::Short {
                self.log.is_congested.store(false, std::sync::atomic::Ordering::Relaxed);
            }
            if taken.is_closed {
                return;
            }
        }
    }

    fn open(&mut self) {
        let opened = match &mut self.target {
            OpenTarget::ServerLog => Ok(()),
            OpenTarget::File(file) => file.open(),
        };
        match opened {
            Ok(()) => self.log.set_target(TargetState::Usable),
            Err(error) => self.report_failure(&error),
        }
    }

    /// Looks once a second whether the file was moved, and whether a target that failed is usable again.
    fn check_file(&mut self) {
        if self.checked.elapsed() < RECHECK_PERIOD {
            return;
        }
        self.checked = Instant::now();
        if let OpenTarget::File(file) = &mut self.target {
            file.close_if_moved();
            self.open();
        }
    }

    fn write(&mut self, events: &[AuditEvent], is_closed: bool) {
        if let OpenTarget::ServerLog = self.target {
            events.iter().for_each(|event| self.write_to_server_log(event));
            return;
        }
        let mut chunk = Vec::new();
        let mut lines = 0;
        for event in events {
            let line = self.line(event);
            if !chunk.is_empty() && chunk.len() + line.len() > CHUNK_BYTES {
                self.append(&chunk, lines, is_closed);
                chunk.clear();
                lines = 0;
            }
            chunk.extend_from_slice(line.as_bytes());
            lines += 1;
        }
        if lines > 0 {
            self.append(&chunk, lines, is_closed);
        }
    }

    fn write_to_server_log(&self, event: &AuditEvent) {
        let text = match self.log.config.format {
            AuditFormat::Text => event.text(&self.server_user),
            AuditFormat::Json => event.json(&self.server_user, &utc_time(event.wall_ms)),
        };
        match event.level() {
            AuditLevel::Info => info!(target: "audit", "{text}"),
            AuditLevel::Error => error!(target: "audit", "{text}"),
        }
        self.log.counters.written.increment();
    }

    /// Appends lines to the file. The policy decides whether lines that cannot be written are lost.
    fn append(&mut self, chunk: &[u8], lines: u64, is_closed: bool) {
        loop {
            let OpenTarget::File(file) = &mut self.target else { return };
            let Err(error) = file.append(chunk) else {
                self.log.counters.written.add(lines);
                self.log.set_target(TargetState::Usable);
                return;
            };
            self.report_failure(&error);
            if self.log.config.on_failure == AuditFailurePolicy::Continue || is_closed {
                self.log.counters.failed.add(lines);
                return;
            }
            std::thread::sleep(RECHECK_PERIOD);
            if self.log.queue.is_closed() {
                self.log.counters.failed.add(lines);
                return;
            }
        }
    }

    fn report_failure(&mut self, error: &io::Error) {
        self.log.set_target(TargetState::Failing);
        let period = Duration::from_millis(REPORT_PERIOD_MS.unsigned_abs());
        if self.failure_reported.is_some_and(|reported| reported.elapsed() < period) {
            return;
        }
        self.failure_reported = Some(Instant::now());
        let OpenTarget::File(file) = &self.target else { return };
        let consequence = match self.log.config.on_failure {
            AuditFailurePolicy::Continue => {
                "its lines are lost until it can be (zebu.audit.onFailure=continue)"
            }
            AuditFailurePolicy::RefuseWrites => {
                "writes of clients are refused until it can be (zebu.audit.onFailure=refuseWrites)"
            }
        };
        let failed = self.log.counters.failed.total();
        error!(file = %file.path().display(), %error, failed, "the audit log cannot be written; {consequence}");
    }

    fn line(&self, event: &AuditEvent) -> String {
        let mut line = match self.log.config.format {
            AuditFormat::Json => event.json(&self.server_user, &utc_time(event.wall_ms)),
            AuditFormat::Text => {
                let (time, level) = (self.local_time(event.wall_ms), event.level().name());
                let mut line = String::with_capacity(240);
                // Writing to a string cannot fail.
                let _ = write!(line, "{time} {level} {LOGGER}: {}", event.text(&self.server_user));
                line
            }
        };
        line.push('\n');
        line
    }

    /// The time as ZooKeeper's logging writes it.
    fn local_time(&self, wall_ms: i64) -> String {
        let zoned = timestamp(wall_ms).to_zoned(self.time_zone.clone());
        zoned.strftime("%Y-%m-%d %H:%M:%S,%3f").to_string()
    }
}

fn timestamp(wall_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn utc_time(wall_ms: i64) -> String {
    timestamp(wall_ms).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
