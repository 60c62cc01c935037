//! The values of `mntr` and `/commands/monitor`, in the form of ZooKeeper's default provider. This form stays
//! the same with and without an exporter: collectors reject an answer with a line that they do not know.

use std::borrow::Cow;
use std::fmt::Write;

use crate::family::Family;
use crate::java_number::{average, double};
use crate::summary::SummarySnapshot;
use crate::view::{MetricValue, MetricsView, SeriesValue};

/// Names and values in the order of the answer, without the prefix `zk_`.
pub fn monitor_values(view: &MetricsView) -> Vec<(Cow<'static, str>, MetricValue)> {
    let identity = &view.identity;
    let mut values = vec![
        (Cow::Borrowed("version"), MetricValue::Text(identity.version.clone())),
        (Cow::Borrowed("server_state"), MetricValue::Text(identity.server_state.clone())),
    ];
    if let Some(state) = &identity.peer_state {
        values.push((Cow::Borrowed("peer_state"), MetricValue::Text(state.clone())));
    }
    // Gauges first, as in ZooKeeper: collectd reads the first 4096 bytes only.
    let (gauges, others): (Vec<_>, Vec<_>) = view
        .series()
        .partition(|(_, value)| matches!(value, SeriesValue::Integer(_) | SeriesValue::Decimal(_)));
    for (family, value) in gauges.into_iter().chain(others) {
        if let Some(name) = family.mntr_name() {
            push_values(&mut values, family, name, value);
        }
    }
    values
}

/// The text of `mntr`.
pub fn mntr_text(view: &MetricsView) -> String {
    let mut out = String::with_capacity(24 << 10);
    for (name, value) in monitor_values(view) {
        let _ = match value {
            MetricValue::Integer(value) => writeln!(out, "zk_{name}\t{value}"),
            MetricValue::Decimal(value) => writeln!(out, "zk_{name}\t{}", double(value)),
            MetricValue::Text(value) => writeln!(out, "zk_{name}\t{value}"),
        };
    }
    out
}

type Values = Vec<(Cow<'static, str>, MetricValue)>;

fn push_values(values: &mut Values, family: &Family, name: &'static str, value: SeriesValue) {
    match value {
        SeriesValue::Integer(value) => values.push((Cow::Borrowed(name), MetricValue::Integer(value))),
        SeriesValue::Decimal(value) => values.push((Cow::Borrowed(name), MetricValue::Decimal(value))),
        SeriesValue::Counter { since_reset, .. } => push_integer(values, Cow::Borrowed(name), since_reset),
        SeriesValue::Summary(summary) => push_summary(values, family, name, &summary),
        SeriesValue::Gauges(gauges) => {
            for (key, value) in gauges {
                let name = Cow::Owned(format!("{}_{name}", escape_key(&key)));
                values.push((name, MetricValue::Integer(value)));
            }
        }
        SeriesValue::Counters(counters) => {
            for (key, (_, since_reset)) in counters {
                push_integer(values, Cow::Owned(format!("{}_{name}", escape_key(&key))), since_reset);
            }
        }
        SeriesValue::Summaries(summaries) => {
            for (key, summary) in summaries {
                push_summary(values, family, &format!("{}_{name}", escape_key(&key)), &summary);
            }
        }
        // The default provider has no such form, and no family of this kind has a name in `mntr`.
        SeriesValue::Labelled { .. } | SeriesValue::Histogram(_) => {}
    }
}

fn push_summary(values: &mut Values, family: &Family, name: &str, summary: &SummarySnapshot) {
    let SummarySnapshot { count, sum, min, max, .. } = summary;
    let mean = average(i64::try_from(*sum).unwrap_or(i64::MAX), i64::try_from(*count).unwrap_or(i64::MAX));
    values.push((Cow::Owned(format!("avg_{name}")), MetricValue::Decimal(mean)));
    for (prefix, value) in [("min", min), ("max", max), ("cnt", count), ("sum", sum)] {
        push_integer(values, Cow::Owned(format!("{prefix}_{name}")), *value);
    }
    if !family.kind.is_advanced() {
        return;
    }
    for (prefix, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
        let value = summary.quantile(quantile).unwrap_or(0);
        push_integer(values, Cow::Owned(format!("{prefix}_{name}")), value);
    }
}

fn push_integer(values: &mut Values, name: Cow<'static, str>, value: u64) {
    values.push((name, MetricValue::Integer(i64::try_from(value).unwrap_or(i64::MAX))));
}

/// A key with letters, digits, `_`, `.` and `-` only; other bytes become `%` in hexadecimal without the sign.
/// Telegraf rejects a whole answer because of one other letter.
pub fn escape_key(key: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // The first letter of the name must not be a dot or a dash.
    let begins_plain = key.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_');
    if key.bytes().all(is_plain) && begins_plain {
        return Cow::Borrowed(key);
    }
    let mut escaped = String::from(if begins_plain { "" } else { "_" });
    for byte in key.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "x{byte:02x}");
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::find_family;
    use crate::{ServerIdentity, Summary};

    fn view() -> MetricsView {
        MetricsView::new(ServerIdentity {
            version: "3.9.5-zebu".to_owned(),
            server_state: "leader".to_owned(),
            peer_state: Some("leading - broadcast".to_owned()),
        })
    }

    #[test]
    fn the_form_of_the_default_provider() {
        let mut view = view();
        view.gauge("znode_count", 5);
        view.set("avg_latency", SeriesValue::Decimal(0.4286));
        view.set("commit_count", SeriesValue::Counter { total: 12, since_reset: 2 });
        let (basic, advanced) = (Summary::default(), Summary::default());
        [1, 3].iter().for_each(|value| basic.record(*value));
        (1..=10).for_each(|value| advanced.record(value));
        view.set("fsynctime", SeriesValue::Summary(basic.snapshot(0)));
        view.set("readlatency", SeriesValue::Summary(advanced.snapshot(0)));
        view.set("ack_latency", SeriesValue::Summaries(vec![("2".into(), basic.snapshot(0))]));
        view.set("quota_bytes_limit_per_namespace", SeriesValue::Gauges(vec![("a b".into(), -1)]));
        let text = mntr_text(&view);
        for lines in [
            "zk_version\t3.9.5-zebu\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\n",
            "zk_avg_latency\t0.4286\n",
            "zk_znode_count\t5\n",
            "zk_commit_count\t2\n",
            "zk_avg_fsynctime\t2.0\nzk_min_fsynctime\t1\nzk_max_fsynctime\t3\nzk_cnt_fsynctime\t2\n\
             zk_sum_fsynctime\t4\nzk_",
            "zk_avg_readlatency\t5.5\nzk_min_readlatency\t1\nzk_max_readlatency\t10\nzk_cnt_readlatency\t10\n\
             zk_sum_readlatency\t55\nzk_p50_readlatency\t5\nzk_p95_readlatency\t10\nzk_p99_readlatency\t10\n\
             zk_p999_readlatency\t10\n",
            "zk_avg_2_ack_latency\t2.0\n",
            "zk_p50_2_ack_latency\t1\n",
            "zk_ax20b_quota_bytes_limit_per_namespace\t-1\n",
            "zk_stale_replies\t0\n",
            "zk_cnt_commit_process_time\t0\n",
        ] {
            assert!(text.contains(lines), "{lines}\nis not in\n{text}");
        }
        assert!(!text.contains("zebu_") && !text.contains('{'), "{text}");
    }

    #[test]
    fn keys_fit_the_patterns_of_collectors() {
        for (key, escaped) in
            [("app", "app"), ("a b", "ax20b"), ("ü", "_xc3xbc"), (".x", "_.x"), ("a{b}", "ax7bbx7d")]
        {
            assert_eq!(escape_key(key), escaped);
        }
    }

    #[test]
    fn names_of_mntr_come_from_the_table() {
        assert_eq!(find_family("zebu_epoch").and_then(Family::mntr_name), Some("epoch"));
        assert_eq!(find_family("zebu_role").and_then(Family::mntr_name), None);
    }
}
