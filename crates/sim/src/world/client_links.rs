//! The connections of clients: the current one, and the one to the server to which a client moves.

use zebu_client::core::{LinkId, ServerAddress};

use super::World;
use crate::client::{ClientLink, FrameObserver, server_of};
use crate::coverage::CoveredPath;
use crate::network::{Host, Port, SocketId, SocketSide};
use crate::queue::Acceptance;

impl World {
    /// A client opens a connection. If it has one, the new one is to follow it.
    pub(super) fn open_link(&mut self, client: usize, link: LinkId, server: &ServerAddress) {
        let port = server.port;
        let Some(server) = server_of(server) else { return };
        let (from, now) = (self.client_host(client), self.core.now);
        let connection = self.core.network.dial(from, Host(server), Port::Client, now, &mut self.core.queue);
        match port {
            2181 => self.core.trace_line(format_args!("c{client} dials s{server}")),
            port => self.core.trace_line(format_args!("c{client} dials s{server} at {port}")),
        }
        if self.servers[server].process().is_some_and(|process| process.client_port() != port) {
            self.misdialed.insert(connection);
        }
        self.core.checker.dialed(client);
        let it = &mut self.clients[client];
        let opened = Some(ClientLink { link, connection, server });
        if it.link.is_some() {
            it.spare = opened;
        } else {
            it.link = opened;
            it.wire = FrameObserver::default();
        }
    }

    /// A client gives up a connection, and continues on the one to another server, if it has one.
    pub(super) fn drop_link(&mut self, client: usize, link: LinkId) {
        let now = self.core.now;
        let it = &mut self.clients[client];
        let spare = it.spare.take_if(|it| it.link == link);
        let current = it.link.take_if(|it| it.link == link);
        let is_spare = spare.is_some();
        if let Some(dropped) = spare.or(current) {
            self.core.network.close(dropped.connection, SocketSide::Dialer, now, &mut self.core.queue);
        }
        if is_spare {
            return;
        }
        self.core.checker.disconnected(client);
        let it = &mut self.clients[client];
        if it.link.is_none()
            && let Some(next) = it.spare.take()
        {
            it.link = Some(next);
            it.wire = FrameObserver::default();
            self.core.count(CoveredPath::ClientMoved);
        }
    }

    pub(super) fn client_dialed(&mut self, connection: SocketId, accepted: Acceptance) {
        let now = self.core.now;
        let is_it = |link: &ClientLink| link.connection == connection;
        let found = self
            .clients
            .iter()
            .position(|it| it.link.as_ref().is_some_and(is_it) || it.spare.as_ref().is_some_and(is_it));
        let Some(client) = found else {
            // The client does not wait for it any more.
            return self.core.network.close(connection, SocketSide::Dialer, now, &mut self.core.queue);
        };
        let it = &mut self.clients[client];
        let instant = it.instant(now);
        if let Some(spare) = it.spare.filter(is_it) {
            match accepted {
                Acceptance::Yes => it.session.opened(instant, spare.link),
                Acceptance::No => {
                    it.spare = None;
                    it.session.lost(instant, spare.link, "refused");
                }
            }
        } else if let Some(link) = it.link {
            match accepted {
                Acceptance::Yes => it.session.opened(instant, link.link),
                Acceptance::No => {
                    it.link = None;
                    it.session.lost(instant, link.link, "refused");
                }
            }
        }
        self.drive(client);
    }
}
