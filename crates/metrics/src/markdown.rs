//! The table of all families for the documentation.

use std::fmt::Write;

use crate::families::all;
use crate::family::{Exposure, Family, FamilyKind, FamilySource};

/// The table in Markdown, sorted by name. A test compares it with `docs/metrics.md`.
pub fn family_table() -> String {
    let mut families: Vec<&Family> = all().collect();
    families.sort_by_key(|family| family.name);
    let mut out = String::from("| Name | Kind | On | In | Meaning |\n|---|---|---|---|---|\n");
    for family in families {
        let place = match family.exposure {
            Exposure::Everywhere => "all".to_owned(),
            Exposure::MntrAs(name) => format!("all; `mntr`: `{name}`"),
            Exposure::MntrOnly => "`mntr`".to_owned(),
            Exposure::PrometheusOnly => "`/metrics`".to_owned(),
        };
        let zero = match family.source {
            FamilySource::Measured => "",
            FamilySource::NoCounterpart => "Always 0. ",
        };
        let (name, kind) = (family.name, kind_name(family.kind));
        let _ = writeln!(
            out,
            "| `{name}` | {kind} | {} | {place} | {zero}{} |",
            family.scope.name(),
            family.help
        );
    }
    out
}

fn kind_name(kind: FamilyKind) -> &'static str {
    match kind {
        FamilyKind::Gauge => "gauge",
        FamilyKind::GaugeSet => "gauge by key",
        FamilyKind::LabelledGauge => "gauge by label",
        FamilyKind::Counter => "counter",
        FamilyKind::CounterSet => "counter by key",
        FamilyKind::BasicSummary => "summary (0.5)",
        FamilyKind::BasicSummarySet => "summary (0.5) by key",
        FamilyKind::AdvancedSummary => "summary",
        FamilyKind::AdvancedSummarySet => "summary by key",
        FamilyKind::Histogram => "histogram",
    }
}
