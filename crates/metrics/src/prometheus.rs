//! The Prometheus text, version 0.0.4, as ZooKeeper 3.9 writes it: HELP repeats the name, numbers are Java's
//! doubles, and a comma follows each label. Families are sorted by name.

use std::fmt::Write;

use crate::family::{Family, FamilyKind};
use crate::java_number::double;
use crate::summary::SummarySnapshot;
use crate::view::{MetricsView, SeriesValue};

const BASIC_QUANTILES: &[f64] = &[0.5];
const ADVANCED_QUANTILES: &[f64] = &[0.5, 0.9, 0.99];

/// The text of all families, or of the samples that `names` lists if it lists any (`?name[]=`).
pub fn prometheus_text(view: &MetricsView, names: &[&str]) -> String {
    let mut families: Vec<_> = view.series().filter(|(family, _)| family.is_exported()).collect();
    families.sort_by_key(|(family, _)| family.name);
    let mut out = String::with_capacity(64 << 10);
    for (family, value) in families {
        let mut samples = Samples { names, text: String::new() };
        samples.write(family, &value);
        if names.is_empty() || !samples.text.is_empty() {
            let name = family.name;
            let help = if family.is_of_zookeeper() { name } else { family.help };
            let _ = writeln!(out, "# HELP {name} {help}");
            let _ = writeln!(out, "# TYPE {name} {}", family.kind.prometheus_type());
            out.push_str(&samples.text);
        }
    }
    out
}

struct Samples<'a> {
    names: &'a [&'a str],
    text: String,
}

impl Samples<'_> {
    fn write(&mut self, family: &Family, value: &SeriesValue) {
        let name = family.name;
        match value {
            SeriesValue::Integer(value) => self.sample(name, &[], *value as f64),
            SeriesValue::Decimal(value) => self.sample(name, &[], *value),
            SeriesValue::Counter { total, .. } => self.sample(name, &[], *total as f64),
            SeriesValue::Summary(summary) => self.summary(family, None, summary),
            SeriesValue::Gauges(gauges) => {
                gauges.iter().for_each(|(key, value)| self.sample(name, &[("key", key)], *value as f64));
            }
            SeriesValue::Counters(counters) => {
                for (key, (total, _)) in counters {
                    self.sample(name, &[("key", key)], *total as f64);
                }
            }
            SeriesValue::Summaries(summaries) => {
                summaries.iter().for_each(|(key, summary)| self.summary(family, Some(key), summary));
            }
            SeriesValue::Labelled { label, values } => {
                values.iter().for_each(|(key, value)| self.sample(name, &[(label, key)], *value));
            }
            SeriesValue::Histogram(histogram) => {
                let bucket = format!("{name}_bucket");
                for (bound, count) in histogram.buckets() {
                    let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
                    self.sample(&bucket, &[("le", &bound)], count as f64);
                }
                self.sample(&format!("{name}_count"), &[], histogram.count() as f64);
                self.sample(&format!("{name}_sum"), &[], histogram.sum());
            }
        }
    }

    fn summary(&mut self, family: &Family, key: Option<&str>, summary: &SummarySnapshot) {
        let is_advanced = matches!(family.kind, FamilyKind::AdvancedSummary | FamilyKind::AdvancedSummarySet);
        let quantiles = if is_advanced { ADVANCED_QUANTILES } else { BASIC_QUANTILES };
        let key: Vec<_> = key.iter().map(|key| ("key", *key)).collect();
        for quantile in quantiles {
            let text = quantile.to_string();
            let labels = [key.as_slice(), &[("quantile", text.as_str())]].concat();
            let value = summary.quantile(*quantile).map_or(f64::NAN, |value| value as f64);
            self.sample(family.name, &labels, value);
        }
        self.sample(&format!("{}_count", family.name), &key, summary.total_count as f64);
        self.sample(&format!("{}_sum", family.name), &key, summary.total_sum as f64);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if !self.names.is_empty() && !self.names.contains(&name) {
            return;
        }
        self.text.push_str(name);
        if !labels.is_empty() {
            self.text.push('{');
            for (label, value) in labels {
                let _ = write!(self.text, "{label}=\"");
                escape_label(&mut self.text, value);
                self.text.push_str("\",");
            }
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", double(value));
    }
}

fn escape_label(out: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, ServerIdentity, Summary};

    fn view() -> MetricsView {
        let mut view = MetricsView::new(ServerIdentity::default());
        let summary = Summary::default();
        [1, 3].iter().for_each(|value| summary.record(*value));
        summary.reset();
        summary.record(25);
        view.gauge("znode_count", 14);
        view.set("commit_count", SeriesValue::Counter { total: 12, since_reset: 2 });
        view.set("fsynctime", SeriesValue::Summary(SummarySnapshot::default()));
        view.set("readlatency", SeriesValue::Summary(summary.snapshot(0)));
        view.set("write_per_namespace", SeriesValue::Summaries(vec![("a\"b".into(), summary.snapshot(0))]));
        view.set("ack_latency", SeriesValue::Summaries(vec![]));
        let histogram = Histogram::durations();
        histogram.record(70);
        view.set("zebu_fsync_duration_seconds", SeriesValue::Histogram(histogram.snapshot()));
        view
    }

    #[test]
    fn the_form_of_zookeeper_3_9() {
        let text = prometheus_text(&view(), &[]);
        for lines in [
            "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 14.0\n",
            "# TYPE commit_count counter\ncommit_count 12.0\n",
            "# TYPE fsynctime summary\nfsynctime{quantile=\"0.5\",} NaN\nfsynctime_count 0.0\nfsynctime_sum 0.0\n",
            "readlatency{quantile=\"0.5\",} 25.0\nreadlatency{quantile=\"0.9\",} 25.0\n\
             readlatency{quantile=\"0.99\",} 25.0\nreadlatency_count 3.0\nreadlatency_sum 29.0\n",
            "write_per_namespace{key=\"a\\\"b\",quantile=\"0.5\",} 25.0\n\
             write_per_namespace_count{key=\"a\\\"b\",} 3.0\nwrite_per_namespace_sum{key=\"a\\\"b\",} 29.0\n",
            "# HELP ack_latency ack_latency\n# TYPE ack_latency summary\n# HELP ",
            "# HELP zebu_fsync_duration_seconds One fsync of the transaction log.\n\
             # TYPE zebu_fsync_duration_seconds histogram\n\
             zebu_fsync_duration_seconds_bucket{le=\"0.00005\",} 0.0\n\
             zebu_fsync_duration_seconds_bucket{le=\"0.0001\",} 1.0\n",
            "zebu_fsync_duration_seconds_bucket{le=\"+Inf\",} 1.0\nzebu_fsync_duration_seconds_count 1.0\n\
             zebu_fsync_duration_seconds_sum 7.0E-5\n",
            "# TYPE stale_replies counter\nstale_replies 0.0\n",
        ] {
            assert!(text.contains(lines), "{lines}\nis not in\n{text}");
        }
    }

    #[test]
    fn samples_are_filtered_by_name() {
        let text = prometheus_text(&view(), &["znode_count", "readlatency_sum"]);
        assert_eq!(
            text,
            "# HELP readlatency readlatency\n# TYPE readlatency summary\nreadlatency_sum 29.0\n\
             # HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 14.0\n"
        );
    }
}
