//! The values of one moment: what the writers print.

use std::collections::BTreeMap;

use crate::families::{all, find_family};
use crate::family::{Family, FamilyKind, FamilySource};
use crate::histogram::HistogramSnapshot;
use crate::summary::SummarySnapshot;

/// The first lines of `mntr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// `version`.
    pub version: String,
    /// `server_state`: standalone, leader, follower, observer or read-only.
    pub server_state: String,
    /// `peer_state` of a serving member.
    pub peer_state: Option<String>,
}

/// A value of `mntr` and `monitor`.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A whole number.
    Integer(i64),
    /// A number that Java holds as a double.
    Decimal(f64),
    /// A text.
    Text(String),
}

/// The values of one family.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesValue {
    /// A gauge.
    Integer(i64),
    /// A gauge, or a counter that is no whole number.
    Decimal(f64),
    /// A counter.
    Counter {
        /// Since the start.
        total: u64,
        /// Since the last reset.
        since_reset: u64,
    },
    /// A summary.
    Summary(SummarySnapshot),
    /// A gauge per key.
    Gauges(Vec<(Box<str>, i64)>),
    /// A counter per key: since the start, and since the last reset.
    Counters(Vec<(Box<str>, (u64, u64))>),
    /// A summary per key.
    Summaries(Vec<(Box<str>, SummarySnapshot)>),
    /// A gauge with one label.
    Labelled {
        /// The name of the label.
        label: &'static str,
        /// Its values and their gauges.
        values: Vec<(String, f64)>,
    },
    /// A histogram.
    Histogram(HistogramSnapshot),
}

impl SeriesValue {
    fn fits(&self, kind: FamilyKind) -> bool {
        match self {
            SeriesValue::Integer(_) => kind == FamilyKind::Gauge,
            SeriesValue::Decimal(_) => matches!(kind, FamilyKind::Gauge | FamilyKind::Counter),
            SeriesValue::Counter { .. } => kind == FamilyKind::Counter,
            SeriesValue::Summary(_) => {
                matches!(kind, FamilyKind::BasicSummary | FamilyKind::AdvancedSummary)
            }
            SeriesValue::Gauges(_) => kind == FamilyKind::GaugeSet,
            SeriesValue::Counters(_) => kind == FamilyKind::CounterSet,
            SeriesValue::Summaries(_) => {
                matches!(kind, FamilyKind::BasicSummarySet | FamilyKind::AdvancedSummarySet)
            }
            SeriesValue::Labelled { .. } => kind == FamilyKind::LabelledGauge,
            SeriesValue::Histogram(_) => kind == FamilyKind::Histogram,
        }
    }

    fn zero_of(kind: FamilyKind) -> Option<SeriesValue> {
        match kind {
            FamilyKind::Gauge => Some(SeriesValue::Integer(0)),
            FamilyKind::Counter => Some(SeriesValue::Counter { total: 0, since_reset: 0 }),
            FamilyKind::BasicSummary | FamilyKind::AdvancedSummary => {
                Some(SeriesValue::Summary(SummarySnapshot::default()))
            }
            FamilyKind::BasicSummarySet | FamilyKind::AdvancedSummarySet => {
                Some(SeriesValue::Summaries(Vec::new()))
            }
            FamilyKind::GaugeSet
            | FamilyKind::CounterSet
            | FamilyKind::LabelledGauge
            | FamilyKind::Histogram => None,
        }
    }
}

/// All values of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsView {
    /// Version and role.
    pub identity: ServerIdentity,
    values: BTreeMap<&'static str, SeriesValue>,
}

impl MetricsView {
    /// A view without values.
    pub fn new(identity: ServerIdentity) -> MetricsView {
        MetricsView { identity, values: BTreeMap::new() }
    }

    /// Sets the value of a family.
    ///
    /// # Panics
    /// The table has no such family, or one of another kind. A test collects every value once.
    pub fn set(&mut self, name: &str, value: SeriesValue) {
        let family = find_family(name).unwrap_or_else(|| panic!("{name} is not in the table of families"));
        assert!(value.fits(family.kind), "{name} is a {:?}, not {value:?}", family.kind);
        self.values.insert(family.name, value);
    }

    /// Sets a gauge.
    pub fn gauge(&mut self, name: &str, value: i64) {
        self.set(name, SeriesValue::Integer(value));
    }

    /// Sets a counter that has one reading.
    pub fn count(&mut self, name: &str, value: u64) {
        self.set(name, SeriesValue::Counter { total: value, since_reset: value });
    }

    /// Sets a counter.
    pub fn counter(&mut self, name: &str, counter: &crate::Counter) {
        let (total, since_reset) = (counter.total(), counter.since_reset());
        self.set(name, SeriesValue::Counter { total, since_reset });
    }

    /// Whether a family has a value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Families with values, in the order of the table. A stage that Zebu does not have shows 0.
    pub(crate) fn series(&self) -> impl Iterator<Item = (&'static Family, SeriesValue)> {
        all().filter_map(|family| match (self.values.get(family.name), family.source) {
            (Some(value), _) => Some((family, value.clone())),
            (None, FamilySource::NoCounterpart) => Some((family, SeriesValue::zero_of(family.kind)?)),
            (None, FamilySource::Measured) => None,
        })
    }
}
