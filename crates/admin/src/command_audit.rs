//! Audit lines of the commands that read or replace the whole state, with the identity of their caller.

use zebu_node::{AuditOperation, AuditResult};
use zebu_server::views::ServerViews;
use zebu_tree::Credentials;

use crate::command::AdminCommand;

/// The line of one command, written when this is dropped. It says `failure` until another result is known:
/// a caller that leaves before the end ends the command, and the line must not be lost.
pub(crate) struct CommandAudit {
    views: ServerViews,
    operation: AuditOperation,
    credentials: Credentials,
    result: AuditResult,
}

impl CommandAudit {
    /// `None` for a command that gives no line.
    pub(crate) fn begin(
        views: &ServerViews,
        command: AdminCommand,
        credentials: Credentials,
    ) -> Option<CommandAudit> {
        let operation = match command {
            AdminCommand::Snapshot => AuditOperation::Snapshot,
            AdminCommand::Restore => AuditOperation::Restore,
            // Wildcard: the other commands neither hand out the whole state nor replace it.
            _ => return None,
        };
        Some(CommandAudit { views: views.clone(), operation, credentials, result: AuditResult::Failure })
    }

    /// Writes the line with this result.
    pub(crate) fn finish(mut self, result: AuditResult) {
        self.result = result;
    }
}

impl Drop for CommandAudit {
    fn drop(&mut self) {
        self.views.audit_command(self.operation, &self.credentials, self.result);
    }
}
