//! The end of this server's leadership: because it stops, or because an operator asks for it.

use zebu_zab::HandOverRefusal;

use super::Node;
use crate::connection::Connections;
use crate::context::ServeContext;

impl Node {
    /// Resigns leadership, for a server that stops: outstanding proposals are finished, then the ensemble
    /// elects another leader.
    pub fn resign(&mut self, context: &mut ServeContext<'_, impl Connections>) {
        if let Some(member) = self.state.member_mut() {
            member.peer.resign(context.now.monotonic_ms, &mut member.pending_actions);
            self.process_effects(context);
            if self.has_resigned() {
                // A server without a leader has no role that could end.
                self.close_kept(context.connections);
            }
        }
    }

    /// Hands over the leadership, and goes on as a follower.
    ///
    /// # Errors
    /// See [`HandOverRefusal`]. A standalone server does not lead.
    pub fn hand_over(
        &mut self,
        context: &mut ServeContext<'_, impl Connections>,
    ) -> Result<(), HandOverRefusal> {
        let Some(member) = self.state.member_mut() else { return Err(HandOverRefusal::NotLeader) };
        let begun = member.peer.hand_over(context.now.monotonic_ms, &mut member.pending_actions);
        self.process_effects(context);
        begun
    }
}
