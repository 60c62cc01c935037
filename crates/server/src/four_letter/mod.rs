//! Four-letter words: which exist, and the exact text of their answers. Pure text: the edge fills the report
//! structs, decides nothing about layout, and sends what comes back.

pub mod connection;
pub mod dump;
pub mod java_text;
pub mod metrics;
pub mod report;
#[cfg(test)]
mod tests;
pub mod version;
pub mod word;

pub use connection::{ConnectionReport, Interest, SessionReport};
pub use dump::{ConnectionOfSession, ExpiryBucket, GlobalSessions, SessionDump};
pub use metrics::{Gauges, MetricValue, Metrics, Percentiles, ResponseSize, Summary};
pub use report::{
    DirectorySizes, MachineReport, MemberSettings, Mode, ProposalSizes, Report, ServerReport, SettingsReport,
    WatchSummary, render, render_not_allowed, render_not_serving,
};
pub use word::Word;
