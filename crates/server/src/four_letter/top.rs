//! `topp` and `topn`: the hottest paths and clients, and the largest nodes. ZooKeeper has no such words.
//!
//! Lines have tabs between their fields, and the key is last. Control characters of a key are escaped.

use std::fmt::Write as _;

use zebu_metrics::{HotMeasure, HotTable};

use crate::core::context::ServerContext;
use crate::traffic::largest_nodes::{LISTED_MAX, LargestNodes};

/// Writes `topp`: the sampling, then measure, subject, amount per second, its error and the key.
pub(super) fn write_hot(out: &mut String, shared: &ServerContext) {
    let traffic = &shared.traffic;
    let tables = traffic.tables(&HotMeasure::ALL, LISTED_MAX, shared.clock.monotonic_ms());
    write_tables(out, traffic.sample_every(), &tables);
}

fn write_tables(out: &mut String, sample_every: u32, tables: &[HotTable]) {
    let _ = writeln!(out, "sampling\t{sample_every}");
    for table in tables {
        for entry in &table.entries {
            let _ = writeln!(
                out,
                "{}\t{}\t{:.1}\t{:.1}\t{}",
                table.measure.name(),
                table.subject.name(),
                entry.per_second,
                entry.error_per_second,
                entry.key.escape_debug()
            );
        }
    }
}

/// Writes `topn`: the number of visited nodes, then the measure, the number and the path.
pub(super) fn write_largest(out: &mut String, nodes: &LargestNodes) {
    let extent = if nodes.is_complete { "complete" } else { "partial" };
    let _ = writeln!(out, "nodes\t{}\t{extent}", nodes.visited);
    for (measure, list) in [("size", &nodes.by_bytes), ("children", &nodes.by_children)] {
        for (number, path) in list {
            let _ = writeln!(out, "{measure}\t{number}\t{}", path.escape_debug());
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_metrics::{HotEntry, HotSubject};

    use super::*;

    #[test]
    fn keys_cannot_break_lines() {
        let entry = HotEntry { key: "/a\n\tb".to_owned(), per_second: 12.34, error_per_second: 0.0 };
        let table = HotTable { measure: HotMeasure::Reads, subject: HotSubject::Path, entries: vec![entry] };
        let mut out = String::new();
        write_tables(&mut out, 64, &[table]);
        assert_eq!(out, "sampling\t64\nreads\tpath\t12.3\t0.0\t/a\\n\\tb\n");
    }

    #[test]
    fn the_largest_nodes_have_a_line_each() {
        let nodes = LargestNodes {
            is_complete: true,
            visited: 3,
            by_bytes: vec![(9, "/a".to_owned())],
            by_children: vec![(2, "/".to_owned())],
        };
        let mut out = String::new();
        write_largest(&mut out, &nodes);
        assert_eq!(out, "nodes\t3\tcomplete\nsize\t9\t/a\nchildren\t2\t/\n");
    }
}
