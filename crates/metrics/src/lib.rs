//! Metrics without IO: counters, summaries and histograms, the table of all families, and the writers of
//! `mntr`, of the values of `/commands/monitor` and of the Prometheus text.
//!
//! The caller measures. Nothing here reads a clock, a file or a socket: times are arguments.

mod buckets;
mod counter;
mod delta;
mod families;
mod family;
mod histogram;
mod hot;
mod java_number;
mod keyed;
mod markdown;
mod mntr;
mod namespaces;
mod prometheus;
mod summary;
mod view;

pub use counter::Counter;
pub use delta::{LatencyDelta, RequestClass, RequestLatencies};
pub use families::{FAMILIES, find_family};
pub use family::{Exposure, Family, FamilyKind, FamilyScope, FamilySource};
pub use histogram::{DURATION_BOUNDS, Histogram, HistogramSnapshot, HistogramUnit, SIZE_BOUNDS};
pub use hot::{
    Estimate, HOT_KEYS_MAX, HotEntry, HotMeasure, HotSketches, HotSubject, HotTable, RequestClient,
    RequestSample, SpaceSaving, cut_text,
};
pub use java_number::{average, double};
pub use keyed::{KEYS_MAX, KeyedCounters, KeyedSummaries, OTHER_KEY};
pub use markdown::family_table;
pub use mntr::{escape_key, mntr_text, monitor_values};
pub use namespaces::{NamespaceId, NamespaceSnapshots, NamespaceTable, WriteRun};
pub use prometheus::prometheus_text;
pub use summary::{Runs, SampleRun, Summary, SummarySnapshot};
pub use view::{MetricValue, MetricsView, SeriesValue, ServerIdentity};
