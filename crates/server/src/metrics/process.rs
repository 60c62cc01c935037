//! Values of the process, as the kernel shows them below `/proc/self`.

use std::sync::LazyLock;

use zebu_metrics::{MetricsView, SeriesValue};

/// Clock ticks per second of `/proc/self/stat`; Linux fixes it for programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Bytes per kilobyte of `/proc/self/status`.
const KIB: i64 = 1024;

/// The start of the process does not change.
static START_SECONDS: LazyLock<Option<f64>> = LazyLock::new(|| {
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(21)? / TICKS_PER_SECOND)
});

/// Open files and sockets; -1 if the kernel does not tell.
pub(super) fn open_file_count() -> i64 {
    std::fs::read_dir("/proc/self/fd").map_or(-1, |entries| entries.count() as i64)
}

/// The limit of open files; -1 if the kernel does not tell.
pub(super) fn open_file_limit() -> i64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(-1)
}

/// Adds the `process_` families. A value that the kernel does not tell is left out.
pub(super) fn add_process(view: &mut MetricsView) {
    if let (Some(user), Some(system)) = (stat_field(13), stat_field(14)) {
        view.set("process_cpu_seconds_total", SeriesValue::Decimal((user + system) / TICKS_PER_SECOND));
    }
    if let Some(start) = *START_SECONDS {
        view.set("process_start_time_seconds", SeriesValue::Decimal(start));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches("kB").trim().parse::<i64>().ok()
    };
    for (name, value) in [
        ("process_resident_memory_bytes", number("VmRSS:").map(|kilobytes| kilobytes * KIB)),
        ("process_virtual_memory_bytes", number("VmSize:").map(|kilobytes| kilobytes * KIB)),
        ("process_threads", number("Threads:")),
        ("process_open_fds", Some(open_file_count())),
        ("process_max_fds", Some(open_file_limit())),
    ] {
        if let Some(value) = value {
            view.gauge(name, value);
        }
    }
}

/// A number of `/proc/self/stat`, counted from 0. The name of the process may contain blanks.
fn stat_field(index: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = text.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(index.checked_sub(2)?)?.parse().ok()
}
