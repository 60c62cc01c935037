//! The values of each command, in ZooKeeper's order. Nothing here knows HTTP.

mod ensemble;
mod process;
mod server;
mod sessions;
pub(crate) mod top;

use zebu_server::views::ServerViews;

use crate::command::AdminCommand;
use crate::json::Json;
use crate::metrics_text;

/// Longest answer that is built in memory.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The entries of an answer, in order.
pub(crate) type Entries = Vec<(String, Json)>;

/// Why a command has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerError {
    /// The command ran and reports an error of its own. The status stays 200, and the text comes first.
    Reported(String),
    /// The server cannot answer now.
    Unavailable(String),
    /// The core has ended.
    NotServing,
}

/// One entry.
fn entry(name: &str, value: Json) -> (String, Json) {
    (name.to_owned(), value)
}

/// Runs a command that reads values or resets counters. `restore`, `shed_connections` and `snapshot` are not
/// among them.
pub(crate) async fn answer(
    command: AdminCommand,
    views: Option<&ServerViews>,
    query: Option<&str>,
) -> Result<Entries, AnswerError> {
    match command {
        AdminCommand::Environment => return Ok(process::environment()),
        AdminCommand::Zabstate => return ensemble::zabstate(views).await,
        _ => {}
    }
    let views = views.ok_or(AnswerError::NotServing)?;
    Ok(match command {
        AdminCommand::Configuration => server::configuration(views),
        AdminCommand::ConnectionStatReset => {
            views.reset_connection_stats();
            Vec::new()
        }
        AdminCommand::Connections => server::connections(views, server::Detail::Full),
        AdminCommand::Dirs => server::dirs(views),
        AdminCommand::Dump => sessions::dump(views).await?,
        AdminCommand::GetTraceMask => process::trace_mask(views),
        AdminCommand::Hash => server::hash(views),
        AdminCommand::InitialConfiguration => process::initial_configuration(views),
        AdminCommand::IsReadOnly => server::is_read_only(views),
        AdminCommand::LastSnapshot => server::last_snapshot(views),
        AdminCommand::Leader => ensemble::leader(views).await?,
        AdminCommand::Monitor => metrics_text::monitor_values(views).await.ok_or(AnswerError::NotServing)?,
        AdminCommand::Observers => ensemble::observers(views).await?,
        AdminCommand::ServerStats => server::server_stats(views),
        AdminCommand::SetTraceMask => process::set_trace_mask(views, query)?,
        AdminCommand::StatReset => {
            views.reset_server_stats();
            Vec::new()
        }
        AdminCommand::Stats => {
            let mut entries = server::server_stats(views);
            entries.extend(server::connections(views, server::Detail::Brief));
            entries
        }
        AdminCommand::SystemProperties => process::system_properties(views),
        AdminCommand::VotingView => ensemble::voting_view(views),
        AdminCommand::WatchSummary => sessions::watch_summary(views),
        AdminCommand::Watches => sessions::watches(views)?,
        AdminCommand::WatchesByPath => sessions::watches_by_path(views)?,
        AdminCommand::ObserverConnectionStatReset => {
            views.reset_learner_connection_stats();
            Vec::new()
        }
        AdminCommand::Ruok
        | AdminCommand::Environment
        | AdminCommand::Zabstate
        | AdminCommand::Drain
        | AdminCommand::Restore
        | AdminCommand::ShedConnections
        | AdminCommand::Snapshot => Vec::new(),
    })
}

/// Whether the answer grows with clients or nodes. Such answers are built one at a time.
pub(crate) fn is_long(command: AdminCommand) -> bool {
    matches!(
        command,
        AdminCommand::Connections
            | AdminCommand::Dump
            | AdminCommand::Stats
            | AdminCommand::Watches
            | AdminCommand::WatchesByPath
    )
}
