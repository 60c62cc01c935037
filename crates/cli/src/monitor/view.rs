//! Samples of several servers as a table or as JSON. Pure.

use serde_json::{Value, json};

use super::sample::Sample;

/// One server now, and its rate since the last look.
pub(crate) struct Row {
    pub(crate) address: String,
    pub(crate) state: Result<Sample, String>,
    /// Requests per second; unknown at the first look and after a restart.
    pub(crate) rate: Option<f64>,
}

/// Requests per second between two looks.
pub(crate) fn rate(before: &Sample, now: &Sample) -> Option<f64> {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
    let packets = now.received.checked_sub(before.received)?;
    (seconds > 0.0).then(|| packets as f64 / seconds)
}

const HEAD: [&str; 9] = [
    "SERVER",
    "MODE",
    "ZXID",
    "CONNECTIONS",
    "REQUESTS/S",
    "OUTSTANDING",
    "LATENCY ms min/avg/max",
    "NODES",
    "WATCHES",
];

/// A line of titles, then a line per server.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    for row in rows {
        lines.push(match &row.state {
            Err(reason) => vec![row.address.clone(), format!("unreachable: {reason}")],
            Ok(sample) => vec![
                row.address.clone(),
                sample.mode.clone(),
                sample.zxid.clone(),
                sample.connections.to_string(),
                row.rate.map_or("-".to_owned(), |rate| format!("{rate:.0}")),
                sample.outstanding.to_string(),
                format!("{}/{}/{}", sample.latency.0, sample.latency.1, sample.latency.2),
                sample.nodes.to_string(),
                sample.watches.map_or("-".to_owned(), |watches| watches.to_string()),
            ],
        });
    }
    align(&lines, HEAD.len())
}

/// Columns one below the other. A line with fewer cells is a remark and widens its first column only.
pub(crate) fn align(lines: &[Vec<String>], columns: usize) -> String {
    let full = |line: &&Vec<String>| line.len() == columns;
    let width = |column: usize| {
        let cells = lines.iter().filter(full).map(|line| line[column].chars().count());
        let first = lines.iter().map(|line| if column == 0 { line[0].chars().count() } else { 0 });
        cells.chain(first).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// One object for all servers.
pub(crate) fn json(rows: &[Row], time: &str) -> Value {
    let row = |row: &Row| match &row.state {
        Err(reason) => json!({ "server": row.address, "error": reason }),
        Ok(sample) => json!({
            "server": row.address,
            "mode": sample.mode,
            "version": sample.version,
            "zxid": sample.zxid,
            "connections": sample.connections,
            "requests_per_second": row.rate,
            "received": sample.received,
            "outstanding": sample.outstanding,
            "latency_ms": {
                "min": sample.latency.0.parse::<f64>().ok(),
                "avg": sample.latency.1.parse::<f64>().ok(),
                "max": sample.latency.2.parse::<f64>().ok(),
            },
            "nodes": sample.nodes,
            "watches": sample.watches,
        }),
    };
    json!({ "time": time, "servers": rows.iter().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sample(at: Instant, received: u64) -> Sample {
        Sample {
            at,
            mode: "leader".to_owned(),
            version: "3.9.5".to_owned(),
            zxid: "0x1f".to_owned(),
            connections: 3,
            outstanding: 0,
            received,
            latency: ("0".into(), "0.5".into(), "9".into()),
            nodes: 42,
            watches: None,
            followers: None,
            voters: None,
            observers: None,
            epoch: None,
            uptime_ms: None,
            disk: Default::default(),
        }
    }

    #[test]
    fn rates_need_two_looks_and_survive_a_restart() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        assert_eq!(rate(&sample(start, 100), &sample(later, 300)), Some(100.0));
        assert_eq!(rate(&sample(start, 300), &sample(later, 5)), None);
        assert_eq!(rate(&sample(start, 1), &sample(start, 2)), None);
    }

    #[test]
    fn tables_and_objects() {
        let up = Row { address: "a:1".into(), state: Ok(sample(Instant::now(), 7)), rate: Some(12.4) };
        let down = Row { address: "bb:1".into(), state: Err("refused".into()), rate: None };
        let text = table(&[up, down]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("SERVER  MODE    ZXID  CONNECTIONS"), "{text}");
        assert!(lines[1].starts_with("a:1     leader  0x1f  3            12"), "{text}");
        assert_eq!(lines[2], "bb:1    unreachable: refused");
        let up = Row { address: "a:1".into(), state: Ok(sample(Instant::now(), 7)), rate: None };
        let value = json(&[up], "now");
        assert_eq!(value["servers"][0]["latency_ms"]["avg"], 0.5);
        assert_eq!(value["servers"][0]["requests_per_second"], Value::Null);
    }
}
