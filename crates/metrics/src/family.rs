//! One family of metrics: its name, kind, meaning, and the servers and texts that show it.

/// A row of the table of families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name in the Prometheus text; ZooKeeper's, or with the prefix `zebu_` or `process_`.
    pub name: &'static str,
    /// The kind.
    pub kind: FamilyKind,
    /// The servers that have it.
    pub scope: FamilyScope,
    /// The texts that show it.
    pub exposure: Exposure,
    /// Whether it is measured.
    pub source: FamilySource,
    /// The meaning, in one sentence.
    pub help: &'static str,
}

/// The kind of a family. The label of a set is `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A value that rises and falls.
    Gauge,
    /// A gauge per key.
    GaugeSet,
    /// A gauge with labels of its own.
    LabelledGauge,
    /// A count.
    Counter,
    /// A count per key.
    CounterSet,
    /// A summary with the quantile 0.5.
    BasicSummary,
    /// A basic summary per key.
    BasicSummarySet,
    /// A summary with the quantiles 0.5, 0.9 and 0.99.
    AdvancedSummary,
    /// An advanced summary per key.
    AdvancedSummarySet,
    /// A Prometheus histogram.
    Histogram,
}

impl FamilyKind {
    /// The word of the TYPE line.
    pub fn prometheus_type(self) -> &'static str {
        match self {
            FamilyKind::Gauge | FamilyKind::GaugeSet | FamilyKind::LabelledGauge => "gauge",
            FamilyKind::Counter | FamilyKind::CounterSet => "counter",
            FamilyKind::BasicSummary
            | FamilyKind::BasicSummarySet
            | FamilyKind::AdvancedSummary
            | FamilyKind::AdvancedSummarySet => "summary",
            FamilyKind::Histogram => "histogram",
        }
    }

    /// Whether it is a summary, alone or per key, with all quantiles.
    pub(crate) fn is_advanced(self) -> bool {
        matches!(self, FamilyKind::AdvancedSummary | FamilyKind::AdvancedSummarySet)
    }
}

/// The servers that have a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyScope {
    /// Every server.
    Every,
    /// Servers of an ensemble.
    Member,
    /// Leaders, and followers with an observer master port.
    LearnerMaster,
    /// Leaders.
    Leader,
    /// Observers.
    Observer,
    /// Servers with an audit log.
    Audit,
    /// Servers with TLS for clients.
    ClientTls,
    /// Members with TLS between servers.
    QuorumTls,
}

impl FamilyScope {
    /// The word of the documentation.
    pub fn name(self) -> &'static str {
        match self {
            FamilyScope::Every => "every server",
            FamilyScope::Member => "members",
            FamilyScope::LearnerMaster => "learner masters",
            FamilyScope::Leader => "leader",
            FamilyScope::Observer => "observers",
            FamilyScope::Audit => "with an audit log",
            FamilyScope::ClientTls => "with TLS for clients",
            FamilyScope::QuorumTls => "with TLS between servers",
        }
    }
}

/// The texts that show a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// `mntr`, `monitor` and Prometheus.
    Everywhere,
    /// Everywhere; `mntr` and `monitor` use this name.
    MntrAs(&'static str),
    /// `mntr` and `monitor`.
    MntrOnly,
    /// Prometheus.
    PrometheusOnly,
}

/// Whether a family is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilySource {
    /// The server measures it.
    Measured,
    /// Zebu has no such stage. The value is 0, so that panels and rules find their series.
    NoCounterpart,
}

impl Family {
    /// The name in `mntr` and `monitor`; `None` if they do not show it.
    pub fn mntr_name(&self) -> Option<&'static str> {
        match self.exposure {
            Exposure::Everywhere | Exposure::MntrOnly => Some(self.name),
            Exposure::MntrAs(name) => Some(name),
            Exposure::PrometheusOnly => None,
        }
    }

    /// Whether Prometheus gets it.
    pub fn is_exported(&self) -> bool {
        self.exposure != Exposure::MntrOnly
    }

    /// Whether ZooKeeper has it, so that its HELP line repeats the name as ZooKeeper's does.
    pub(crate) fn is_of_zookeeper(&self) -> bool {
        !self.name.starts_with("zebu_") && !self.name.starts_with("process_")
    }
}
