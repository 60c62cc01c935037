//! A server of the simulated ensemble: the shipped node, tree and storage, with a simulated edge. It owns its
//! process while it runs, and its disk always.

pub(crate) mod bit_rot;
pub(crate) mod disk;
pub(crate) mod member_files;
pub(crate) mod process;
pub(crate) mod snapshot;
pub(crate) mod start;

use zebu_storage::crash_disk::{Crash, CrashDisk};

use crate::clock::Clocks;
use crate::network::SocketId;
use crate::queue::VirtualTime;
use disk::FaultyDisk;
use process::Process;

/// Whether a server runs.
pub(crate) enum ServerLife {
    Up(Box<Process>),
    /// The process is not running; the machine may be.
    Down,
}

/// A machine with a disk and at most one process.
pub(crate) struct SimServer {
    pub(crate) life: ServerLife,
    pub(crate) disk: CrashDisk,
    /// How often it was started.
    pub(crate) incarnation: u32,
    pub(crate) clocks: Clocks,
    /// The process does nothing before this moment.
    pub(crate) paused_until: VirtualTime,
    /// Extra time of each sync.
    slow: VirtualTime,
    /// How many batches share a sync at most.
    sync_batches: usize,
    /// No sync ends before this moment.
    pub(crate) hung_until: VirtualTime,
    /// Its disk has no space before this moment.
    pub(crate) full_until: VirtualTime,
    /// The free bytes of its disk, if they are limited.
    pub(crate) free: Option<u64>,
    /// How many reads of the next process succeed before one fails.
    pub(crate) unreadable_after: Option<u64>,
    /// The server is not started before this moment.
    pub(crate) down_until: VirtualTime,
    /// Cut off in the liveness phase: the server stays down.
    pub(crate) retired: bool,
}

impl SimServer {
    pub(crate) fn new() -> SimServer {
        SimServer {
            life: ServerLife::Down,
            disk: CrashDisk::new(),
            incarnation: 0,
            clocks: Clocks::default(),
            paused_until: 0,
            slow: 0,
            sync_batches: usize::MAX,
            hung_until: 0,
            full_until: 0,
            free: None,
            unreadable_after: None,
            down_until: 0,
            retired: false,
        }
    }

    pub(crate) fn process(&mut self) -> Option<&mut Process> {
        match &mut self.life {
            ServerLife::Up(process) => Some(process),
            ServerLife::Down => None,
        }
    }

    /// Applies the disk's slowness to the next process.
    pub(crate) fn hinder(&self, process: &mut Process) {
        process.slow = self.slow;
        process.sync_batches = self.sync_batches;
    }

    pub(crate) fn slow_down(&mut self, extra: VirtualTime) {
        self.set_slow(self.slow + extra);
    }

    pub(crate) fn speed_up(&mut self, extra: VirtualTime) {
        self.set_slow(self.slow.saturating_sub(extra));
    }

    pub(crate) fn limit_syncs(&mut self, batches: usize) {
        self.sync_batches = batches;
        if let Some(process) = self.process() {
            process.sync_batches = batches;
        }
    }

    fn set_slow(&mut self, slow: VirtualTime) {
        self.slow = slow;
        if let Some(process) = self.process() {
            process.slow = slow;
        }
    }

    /// Whether its process has stopped reading a connection.
    pub(crate) fn is_reading_paused(&self, connection: SocketId) -> bool {
        matches!(&self.life, ServerLife::Up(process) if process.is_reading_paused(connection))
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.life, ServerLife::Up(_))
    }

    /// The machine is suspended: it does nothing, and one of its clocks does not advance.
    pub(crate) fn suspend(&mut self, now: VirtualTime, until: VirtualTime) {
        self.paused_until = self.paused_until.max(until);
        self.clocks.suspend(now, until);
        self.set_clocks();
    }

    /// The machine resumes before its time.
    pub(crate) fn resume(&mut self, now: VirtualTime) {
        self.paused_until = self.paused_until.min(now);
        self.clocks.resume(now);
        self.set_clocks();
    }

    pub(crate) fn shift_wall_clock(&mut self, by_ms: i64) {
        self.clocks.wall_offset_ms = self.clocks.wall_offset_ms.saturating_add(by_ms);
        self.set_clocks();
    }

    fn set_clocks(&mut self) {
        let clocks = self.clocks;
        if let Some(process) = self.process() {
            process.clocks = clocks;
        }
    }

    /// The process ends. The disk keeps the page cache, synced or not.
    pub(crate) fn end_process(&mut self) {
        self.life = ServerLife::Down;
    }

    /// The machine loses its power: a part of the unsynced data is lost.
    pub(crate) fn lose_power(&mut self, survives: u64) {
        self.life = ServerLife::Down;
        let crash = match survives % 8 {
            0 => Crash::LoseAll,
            1 => Crash::KeepAll,
            2 => Crash::KeepFirst((survives >> 8) as usize % 20),
            3 => Crash::LoseOnly((survives >> 8) as usize % 20),
            4 => Crash::KeepOnly((survives >> 8) as usize % 20),
            _ => Crash::Random(survives),
        };
        self.disk = self.disk.after(crash);
    }

    /// The disk with its faults for the next process.
    pub(crate) fn next_disk(&mut self, now: VirtualTime) -> FaultyDisk {
        let disk = FaultyDisk::new(self.disk.clone());
        disk.set_full(now < self.full_until);
        disk.limit_growth(self.free);
        if let Some(operations) = self.unreadable_after.take() {
            disk.fail_reads_after(operations);
        }
        disk
    }
}
