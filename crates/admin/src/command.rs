//! The commands: names, aliases, methods, and what each needs before it runs. A table without behaviour.

/// A command of ZooKeeper's admin server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    Configuration,
    ConnectionStatReset,
    Connections,
    Dirs,
    Drain,
    Dump,
    Environment,
    GetTraceMask,
    Hash,
    InitialConfiguration,
    IsReadOnly,
    LastSnapshot,
    Leader,
    Monitor,
    ObserverConnectionStatReset,
    Observers,
    Restore,
    Ruok,
    ServerStats,
    SetTraceMask,
    ShedConnections,
    Snapshot,
    StatReset,
    Stats,
    SystemProperties,
    VotingView,
    WatchSummary,
    Watches,
    WatchesByPath,
    Zabstate,
}

/// The method that a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandMethod {
    Get,
    Post,
}

/// Whether a command needs a server that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerNeed {
    Serving,
    Any,
}

/// The right that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessNeed {
    /// Every caller.
    Open,
    /// The super user, or an identity that the ACL of `/` names with all permissions.
    WholeState,
    /// The super user only.
    SuperUser,
}

/// A row of the table.
pub(crate) struct CommandEntry {
    pub(crate) command: AdminCommand,
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) method: CommandMethod,
    pub(crate) server: ServerNeed,
    pub(crate) access: AccessNeed,
}

const fn get(
    command: AdminCommand,
    name: &'static str,
    aliases: &'static [&'static str],
    server: ServerNeed,
) -> CommandEntry {
    CommandEntry { command, name, aliases, method: CommandMethod::Get, server, access: AccessNeed::Open }
}

use ServerNeed::{Any, Serving};

/// All commands, sorted by name.
pub(crate) const COMMANDS: &[CommandEntry] = &[
    get(AdminCommand::Configuration, "configuration", &["conf", "config"], Serving),
    get(AdminCommand::ConnectionStatReset, "connection_stat_reset", &["crst"], Serving),
    get(AdminCommand::Connections, "connections", &["cons"], Serving),
    get(AdminCommand::Dirs, "dirs", &[], Serving),
    CommandEntry {
        command: AdminCommand::Drain,
        name: "drain",
        aliases: &[],
        method: CommandMethod::Post,
        server: Any,
        access: AccessNeed::SuperUser,
    },
    get(AdminCommand::Dump, "dump", &[], Serving),
    get(AdminCommand::Environment, "environment", &["env", "envi"], Any),
    get(AdminCommand::GetTraceMask, "get_trace_mask", &["gtmk"], Any),
    get(AdminCommand::Hash, "hash", &[], Serving),
    get(AdminCommand::InitialConfiguration, "initial_configuration", &["icfg"], Serving),
    get(AdminCommand::IsReadOnly, "is_read_only", &["isro"], Serving),
    get(AdminCommand::LastSnapshot, "last_snapshot", &["lsnp"], Serving),
    get(AdminCommand::Leader, "leader", &["lead"], Serving),
    get(AdminCommand::Monitor, "monitor", &["mntr"], Any),
    get(AdminCommand::ObserverConnectionStatReset, "observer_connection_stat_reset", &["orst"], Serving),
    get(AdminCommand::Observers, "observers", &["obsr"], Serving),
    CommandEntry {
        command: AdminCommand::Restore,
        name: "restore",
        aliases: &["rest"],
        method: CommandMethod::Post,
        server: Serving,
        access: AccessNeed::SuperUser,
    },
    get(AdminCommand::Ruok, "ruok", &[], Serving),
    get(AdminCommand::ServerStats, "server_stats", &["srvr"], Serving),
    get(AdminCommand::SetTraceMask, "set_trace_mask", &["stmk"], Any),
    CommandEntry {
        command: AdminCommand::ShedConnections,
        name: "shed_connections",
        aliases: &["shed"],
        method: CommandMethod::Post,
        server: Serving,
        access: AccessNeed::WholeState,
    },
    CommandEntry {
        command: AdminCommand::Snapshot,
        name: "snapshot",
        aliases: &["snap"],
        method: CommandMethod::Get,
        server: Serving,
        access: AccessNeed::WholeState,
    },
    get(AdminCommand::StatReset, "stat_reset", &["srst"], Serving),
    get(AdminCommand::Stats, "stats", &["stat"], Serving),
    get(AdminCommand::SystemProperties, "system_properties", &["sysp"], Any),
    get(AdminCommand::VotingView, "voting_view", &[], Serving),
    get(AdminCommand::WatchSummary, "watch_summary", &["wchs"], Serving),
    get(AdminCommand::Watches, "watches", &["wchc"], Serving),
    get(AdminCommand::WatchesByPath, "watches_by_path", &["wchp"], Serving),
    get(AdminCommand::Zabstate, "zabstate", &[], Any),
];

/// Finds a command by its name or an alias. Names are case-sensitive.
pub(crate) fn find_command(name: &str) -> Option<&'static CommandEntry> {
    COMMANDS.iter().find(|entry| entry.name == name || entry.aliases.contains(&name))
}

/// The page that lists all commands.
pub(crate) fn list_page(command_url: &str) -> String {
    let link = |entry: &CommandEntry| {
        let name = entry.name;
        format!("<a href=\"{command_url}/{name}\">{name}</a>\n<br/>\n")
    };
    COMMANDS.iter().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        let mut names: Vec<&str> = COMMANDS.iter().map(|entry| entry.name).collect();
        assert!(names.is_sorted());
        names.extend(COMMANDS.iter().flat_map(|entry| entry.aliases));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(find_command("srvr").is_some_and(|entry| entry.command == AdminCommand::ServerStats));
        assert!(find_command("RUOK").is_none());
    }
}
