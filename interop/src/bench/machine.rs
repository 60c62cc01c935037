//! Where and when the figures were made. Without it a figure says nothing.

use std::fmt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::versions::told;

/// The machine and how busy it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    /// Where the servers' files are.
    pub(crate) directory: String,
    pub(crate) file_system: String,
    pub(crate) day: String,
    pub(crate) unix_seconds: u64,
    /// Over one, five and fifteen minutes, before the first run.
    pub(crate) load_average: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            kernel: read("/proc/sys/kernel/osrelease"),
            directory: std::env::temp_dir().display().to_string(),
            file_system: told(Command::new("df").arg("--output=fstype").arg(std::env::temp_dir())),
            day: told(Command::new("date").args(["-u", "+%F"])),
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            load_average: load_average(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores ({}), {} MiB, Linux {}, files below {}, load average {}",
            self.cores, self.processor, self.memory_mib, self.kernel, self.directory, self.load_average
        )
    }
}

/// How many processes wanted to run, over one, five and fifteen minutes.
pub(crate) fn load_average() -> String {
    read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// How many files a process may have open, this one and those that it starts.
pub(crate) fn open_files_limit() -> usize {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}
