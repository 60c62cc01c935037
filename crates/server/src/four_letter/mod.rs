//! Four-letter words: which exist, the values of their replies, and the exact text.
//!
//! `collect.rs`, `collect_member.rs` and `long_answers.rs` read the server. The other files only render
//! text from report structs.

pub(crate) mod collect;
pub(crate) mod collect_member;
mod connection;
mod dump;
pub(crate) mod java_text;
pub(crate) mod long_answers;
mod metrics;
mod report;
#[cfg(test)]
mod tests;
mod top;
pub mod version;
mod watches;
mod word;

pub(crate) use connection::{ConnectionDetail, ConnectionReport, SessionReport, SocketInterest, op_mnemonic};
pub(crate) use dump::{DumpedConnection, ExpiryBucket, GlobalSessions, SessionDump};
pub(crate) use metrics::SummaryReport;
pub(crate) use report::{
    DirectorySizes, EnsembleSettings, EnvironmentReport, FourLetterReport, ProposalSizes, ServerReport,
    SettingsReport, WatchSummary, render, render_not_allowed, render_not_serving,
};
pub(crate) use word::FourLetterWord;
