//! Four-letter words: which exist, and the exact text of their replies. Pure text: the caller fills
//! the report structs and sends the rendered text.

pub mod connection;
pub mod dump;
pub mod java_text;
pub mod metrics;
pub mod report;
#[cfg(test)]
mod tests;
pub mod version;
pub mod watches;
pub mod word;

pub use connection::{ConnectionDetail, ConnectionReport, SessionReport, SocketInterest};
pub use dump::{DumpedConnection, ExpiryBucket, GlobalSessions, SessionDump};
pub use metrics::{Gauges, MetricValue, MetricsReport, Percentiles, ResponseSize, SummaryReport};
pub use report::{
    DirectorySizes, EnsembleSettings, EnvironmentReport, FourLetterReport, ProposalSizes, ServerReport,
    SettingsReport, WatchSummary, render, render_not_allowed, render_not_serving,
};
pub use word::FourLetterWord;
