//! One round of a node: events of peers and the disk first, then commits, then clients and deadlines, then
//! effects. The edge supplies the events, holds the locks and executes the effects; this module fixes the
//! order.

use zebu_node::{
    AnsweredRequests, ClientEvent, CommitError, ConnectionId, Connections, Effect, Node, Now, Replica,
    ServeContext,
};
use zebu_tree::Tree;
use zebu_zab::{HandOverRefusal, PeerEvent};

use crate::disk_worker::DiskEvent;

/// Work on the replica under the shared lock.
pub trait SharedWork {
    /// Runs with the connections that receive replies and watch events.
    fn run(self, replica: &Replica, connections: &mut impl Connections);
}

/// Work on the replica under the exclusive lock.
pub trait ExclusiveWork {
    /// The result.
    type Output;

    /// Runs with the connections that receive replies and watch events.
    fn run(self, replica: &mut Replica, connections: &mut impl Connections) -> Self::Output;
}

/// The server or the simulator around a node.
pub trait Edge {
    /// The current time.
    fn now(&self) -> Now;

    /// Runs work under the shared lock. Replies may be sent afterwards.
    fn with_shared(&mut self, work: impl SharedWork);

    /// Runs work under the exclusive lock. Replies may be sent afterwards.
    fn with_exclusive<W: ExclusiveWork>(&mut self, work: W) -> W::Output;

    /// Replaces the tree.
    fn replace_tree(&mut self, tree: Tree);

    /// Reports the number of applied transactions.
    fn committed(&mut self, node: &Node, transactions: usize);

    /// Reports answered requests, whose share of the limits is free again.
    fn answered(&mut self, requests: AnsweredRequests);

    /// Reports connections whose disconnect the node has processed.
    fn disconnected(&mut self, connections: &[ConnectionId]);

    /// Starts an effect. Effects arrive in order.
    fn execute(&mut self, effect: Effect);
}

/// A node and the events of its current round.
#[derive(Debug)]
pub struct Round {
    node: Node,
    /// These are empty between rounds and keep their capacity.
    peer_events: Vec<PeerEvent>,
    effects: Vec<Effect>,
    gone: Vec<ConnectionId>,
}

impl Round {
    /// Creates a round for a node.
    pub fn new(node: Node) -> Round {
        Round { node, peer_events: Vec::new(), effects: Vec::new(), gone: Vec::new() }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node, between rounds.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Queues an event for the Zab peer. [`Round::serve`] handles it at the latest.
    pub fn push_peer(&mut self, event: PeerEvent) {
        self.peer_events.push(event);
    }

    /// Queues an event of the disk behind all events pushed before.
    pub fn push_disk(&mut self, event: DiskEvent, edge: &mut impl Edge) {
        match event {
            DiskEvent::Peer(event) => self.push_peer(event),
            DiskEvent::Synced(zxid) => self.node.log_persisted(zxid),
            DiskEvent::TreeReplaced { io, tree } => {
                self.handle_peers(edge);
                edge.replace_tree(*tree);
                self.push_peer(PeerEvent::Persisted { io });
                self.handle_peers(edge);
            }
        }
    }

    /// Handles the queued events.
    pub fn handle_peers(&mut self, edge: &mut impl Edge) {
        if self.peer_events.is_empty() {
            return;
        }
        let now = edge.now();
        edge.with_shared(HandlePeers { node: &mut self.node, events: &mut self.peer_events, now });
        edge.answered(self.node.take_completed());
    }

    /// Commits, handles client events and deadlines, commits again and executes the effects.
    ///
    /// # Errors
    /// A committed transaction cannot be applied; the server must stop.
    pub fn serve(&mut self, events: &mut Vec<ClientEvent>, edge: &mut impl Edge) -> Result<(), CommitError> {
        self.handle_peers(edge);
        self.commit(edge)?;
        self.handle_clients(events, edge);
        self.commit(edge)?;
        self.execute_effects(edge);
        Ok(())
    }

    fn handle_clients(&mut self, events: &mut Vec<ClientEvent>, edge: &mut impl Edge) {
        let now = edge.now();
        let is_due = self.node.next_deadline() <= now.monotonic_ms;
        if events.is_empty() && !is_due {
            return;
        }
        let Round { node, gone, .. } = self;
        edge.with_shared(HandleClients { node, events, gone, is_due, now });
        edge.disconnected(&self.gone);
        self.gone.clear();
        edge.answered(self.node.take_completed());
    }

    /// Applies all committed transactions, each batch under one exclusive lock.
    fn commit(&mut self, edge: &mut impl Edge) -> Result<(), CommitError> {
        while self.node.has_committed() {
            let now = edge.now();
            let transactions = edge.with_exclusive(Commit { node: &mut self.node, now })?;
            edge.committed(&self.node, transactions);
            edge.answered(self.node.take_completed());
        }
        Ok(())
    }

    /// Executes the pending effects.
    pub fn execute_effects(&mut self, edge: &mut impl Edge) {
        self.node.take_effects(&mut self.effects);
        for effect in self.effects.drain(..) {
            edge.execute(effect);
        }
    }

    /// Ends the service of a standalone server and closes these connections. No transaction is in flight.
    pub fn suspend(&mut self, open: &[ConnectionId], edge: &mut impl Edge) {
        edge.with_shared(Suspend { node: &mut self.node, open });
        edge.answered(self.node.take_completed());
    }

    /// Serves again with the state of the replica.
    pub fn resume(&mut self, edge: &mut impl Edge) {
        let now = edge.now();
        edge.with_shared(Resume { node: &mut self.node, now });
    }

    /// Begins to send the clients of these connections to other servers, within this time.
    pub fn begin_drain(&mut self, open: &[ConnectionId], time_ms: i64, edge: &mut impl Edge) {
        let now = edge.now();
        edge.with_shared(BeginDrain { node: &mut self.node, open, time_ms, now });
    }

    /// Resigns leadership, for a server that stops: outstanding proposals are finished, then the ensemble
    /// elects another leader.
    pub fn resign(&mut self, edge: &mut impl Edge) {
        let now = edge.now();
        edge.with_shared(Resign { node: &mut self.node, now });
    }

    /// Hands over the leadership, and goes on as a follower.
    ///
    /// # Errors
    /// See [`HandOverRefusal`].
    pub fn hand_over(&mut self, edge: &mut impl Edge) -> Result<(), HandOverRefusal> {
        let now = edge.now();
        let mut begun = Err(HandOverRefusal::NotLeader);
        edge.with_shared(HandOver { node: &mut self.node, begun: &mut begun, now });
        begun
    }
}

struct HandlePeers<'a> {
    node: &'a mut Node,
    events: &'a mut Vec<PeerEvent>,
    now: Now,
}

impl SharedWork for HandlePeers<'_> {
    fn run(self, replica: &Replica, connections: &mut impl Connections) {
        let mut context = ServeContext { replica, connections, now: self.now };
        for event in self.events.drain(..) {
            self.node.handle_peer(event, &mut context);
        }
        self.node.start_read_checks(&mut context);
    }
}

struct HandleClients<'a> {
    node: &'a mut Node,
    events: &'a mut Vec<ClientEvent>,
    gone: &'a mut Vec<ConnectionId>,
    is_due: bool,
    now: Now,
}

impl SharedWork for HandleClients<'_> {
    fn run(self, replica: &Replica, connections: &mut impl Connections) {
        let mut context = ServeContext { replica, connections, now: self.now };
        for event in self.events.drain(..) {
            if let ClientEvent::Disconnected { connection, .. } = event {
                self.gone.push(connection);
            }
            self.node.handle(event, &mut context);
        }
        self.node.start_read_checks(&mut context);
        if self.is_due {
            self.node.tick(&mut context);
        }
    }
}

struct Suspend<'a> {
    node: &'a mut Node,
    open: &'a [ConnectionId],
}

impl SharedWork for Suspend<'_> {
    fn run(self, _: &Replica, connections: &mut impl Connections) {
        self.node.suspend(self.open, connections);
    }
}

struct Resume<'a> {
    node: &'a mut Node,
    now: Now,
}

impl SharedWork for Resume<'_> {
    fn run(self, replica: &Replica, _: &mut impl Connections) {
        self.node.resume(replica, self.now);
    }
}

struct BeginDrain<'a> {
    node: &'a mut Node,
    open: &'a [ConnectionId],
    time_ms: i64,
    now: Now,
}

impl SharedWork for BeginDrain<'_> {
    fn run(self, replica: &Replica, connections: &mut impl Connections) {
        let mut context = ServeContext { replica, connections, now: self.now };
        self.node.begin_drain(self.open, self.time_ms, &mut context);
    }
}

struct Resign<'a> {
    node: &'a mut Node,
    now: Now,
}

impl SharedWork for Resign<'_> {
    fn run(self, replica: &Replica, connections: &mut impl Connections) {
        self.node.resign(&mut ServeContext { replica, connections, now: self.now });
    }
}

struct HandOver<'a> {
    node: &'a mut Node,
    begun: &'a mut Result<(), HandOverRefusal>,
    now: Now,
}

impl SharedWork for HandOver<'_> {
    fn run(self, replica: &Replica, connections: &mut impl Connections) {
        *self.begun = self.node.hand_over(&mut ServeContext { replica, connections, now: self.now });
    }
}

struct Commit<'a> {
    node: &'a mut Node,
    now: Now,
}

impl ExclusiveWork for Commit<'_> {
    type Output = Result<usize, CommitError>;

    fn run(self, replica: &mut Replica, connections: &mut impl Connections) -> Self::Output {
        self.node.commit(replica, connections, self.now)
    }
}
