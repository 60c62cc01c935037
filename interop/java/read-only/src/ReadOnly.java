import java.nio.file.Path;
import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.Stat;

/** Apache's Java client with servers that lose their quorum: {@code ReadOnly DIRECTORY}. The checks follow one another. */
public final class ReadOnly {
    private static final Code REFUSED = Code.NOTREADONLY;

    private final Suite suite = new Suite("read-only: ");
    private final Ensemble ensemble;
    private final Client.Events lateEvents = new Client.Events();
    private final Client.Events earlyEvents = new Client.Events();
    private ZooKeeper early;
    private ZooKeeper late;
    private long earlySession;
    private long lateSession;

    private ReadOnly(Ensemble ensemble) {
        this.ensemble = ensemble;
    }

    public static void main(String[] arguments) throws Exception {
        try (Ensemble ensemble = new Ensemble(Path.of(arguments[0]))) {
            new ReadOnly(ensemble).run();
        }
        System.exit(0);
    }

    private void run() {
        suite.check("with a quorum there is a full session", this::withQuorum);
        suite.check("the last of three serves reads", this::alone);
        suite.check("a client that did not ask for it gets no session", this::notAsked);
        suite.check("a new client may read", this::newClient);
        suite.check("every write is refused", this::writes);
        suite.check("watches can be set", this::watches);
        suite.check("a session of the ensemble may read", this::earlyClient);
        suite.check("closing a client", this::closing);
        suite.check("with a quorum again the new client gets a session", this::back);
        suite.check("with a quorum again the session of the ensemble goes on", this::earlyBack);
    }

    private void withQuorum() throws Exception {
        for (int index = 0; index < Ensemble.SIZE; index++) {
            ensemble.start(index);
        }
        for (int index = 0; index < Ensemble.SIZE; index++) {
            int server = index;
            Suite.eventually("service of " + index, () -> ensemble.ask(server, "isro").equals("rw"));
        }
        early = new ZooKeeper(ensemble.addresses(), 30_000, earlyEvents, true);
        Client.connected(early, earlyEvents);
        Suite.equal(ZooKeeper.States.CONNECTED, early.getState(), "state");
        Client.create(early, "/a", "x");
        // With it the session is one of the ensemble, if it was a local one before.
        early.create("/mine", Client.bytes("x"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        earlySession = early.getSessionId();
        for (int index = 0; index < Ensemble.SIZE; index++) {
            try (ZooKeeper reader = Client.connect(ensemble.address(index))) {
                Suite.eventually("the nodes everywhere", () -> reader.exists("/mine", false) != null);
            }
        }
    }

    private void alone() throws Exception {
        ensemble.kill(1);
        ensemble.kill(2);
        Suite.eventually("read-only mode", () -> ensemble.ask(0, "isro").equals("ro"));
        List<String> lines = ensemble.ask(0, "srvr").lines().toList();
        Suite.equal("READ-ONLY mode; serving only read-only clients", lines.get(1), "second line of srvr");
        Suite.that(lines.contains("Mode: read-only"), "srvr says " + lines);
        Suite.that(ensemble.ask(0, "stat").contains("Mode: read-only"), "stat says the mode");
        Suite.that(ensemble.ask(0, "mntr").contains("zk_server_state\tread-only"), "mntr says the mode");
        String conf = ensemble.ask(0, "conf");
        Suite.that(conf.endsWith("peerType=0\n"), "conf ends with the role: " + conf);
        Suite.equal("imok", ensemble.ask(0, "ruok"), "ruok");
    }

    private void notAsked() throws Exception {
        Client.Events events = new Client.Events();
        try (ZooKeeper other = new ZooKeeper(ensemble.addresses(), 30_000, events)) {
            // Long enough for some attempts: each ends at once.
            Thread.sleep(4000);
            Suite.equal(ZooKeeper.States.CONNECTING, other.getState(), "state");
            Suite.equal(0, events.count(KeeperState.SyncConnected), "connections");
            Suite.equal(0, events.count(KeeperState.ConnectedReadOnly), "read-only connections");
        }
    }

    private void newClient() throws Exception {
        late = new ZooKeeper(ensemble.addresses(), 30_000, lateEvents, true);
        Suite.eventually("connection", () -> lateEvents.count(KeeperState.ConnectedReadOnly) == 1);
        Suite.equal(ZooKeeper.States.CONNECTEDREADONLY, late.getState(), "state");
        lateSession = late.getSessionId();
        Suite.that(lateSession != 0, "a session");
        Suite.equal("x", Client.data(late, "/a"), "data");
        Suite.equal(0, late.exists("/a", false).getVersion(), "version");
        Suite.that(late.getChildren("/", false).contains("a"), "the child");
        Suite.equal(Ids.OPEN_ACL_UNSAFE, late.getACL("/a", new Stat()), "ACL");
        Suite.equal(List.of(), late.getEphemerals(), "ephemeral nodes");
        Suite.equal(0, late.getAllChildrenNumber("/a"), "children");
        Suite.that(!late.whoAmI().isEmpty(), "identities");
        Suite.equal(1, late.multi(List.of(Op.getData("/a"))).size(), "results of a multiRead");
        Client.fails(Code.NONODE, () -> Client.data(late, "/none"));
        late.addAuthInfo("digest", Client.bytes("a:b"));
        Suite.equal("x", Client.data(late, "/a"), "data");
    }

    private void writes() throws Exception {
        Client.fails(REFUSED, () -> Client.create(late, "/b", ""));
        for (CreateMode mode : List.of(CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.CONTAINER)) {
            Client.fails(REFUSED, () -> late.create("/b", null, Ids.OPEN_ACL_UNSAFE, mode));
        }
        Client.fails(REFUSED, () -> late.create("/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, new Stat()));
        CreateMode expiring = CreateMode.PERSISTENT_WITH_TTL;
        Client.fails(REFUSED, () -> late.create("/b", null, Ids.OPEN_ACL_UNSAFE, expiring, new Stat(), 1000));
        Client.fails(REFUSED, () -> late.setData("/a", Client.bytes("y"), -1));
        Client.fails(REFUSED, () -> late.delete("/a", -1));
        Client.fails(REFUSED, () -> late.setACL("/a", Ids.READ_ACL_UNSAFE, -1));
        Client.fails(REFUSED, () -> late.multi(List.of(Op.setData("/a", null, -1))));
        Client.fails(REFUSED, () -> late.multi(List.of(Op.check("/a", 0))));
        Client.Answer<String> synced = new Client.Answer<>();
        late.sync("/a", (code, path, context) -> synced.take(code, path), null);
        Suite.equal(REFUSED, synced.code(), "code of sync");
        Client.Events events = new Client.Events();
        try (ZooKeeperAdmin admin = new ZooKeeperAdmin(ensemble.addresses(), 30_000, events, true)) {
            Suite.eventually("connection", () -> events.count(KeeperState.ConnectedReadOnly) == 1);
            Client.fails(REFUSED, () -> admin.reconfigure(null, "3", null, -1, new Stat()));
        }
        Suite.equal("x", Client.data(late, "/a"), "data");
        Suite.equal(ZooKeeper.States.CONNECTEDREADONLY, late.getState(), "state");
    }

    private void watches() throws Exception {
        late.getData("/a", lateEvents, null);
        late.exists("/later", lateEvents);
        late.addWatch("/below", lateEvents, AddWatchMode.PERSISTENT_RECURSIVE);
        Client.data(late, "/a");
        lateEvents.expectNothing();
    }

    private void earlyClient() throws Exception {
        if (Ensemble.isApache()) {
            Suite.equal(0, earlyEvents.count(KeeperState.ConnectedReadOnly), "read-only connections");
            throw new Suite.Skipped("3.7 and later close the connection of such a session");
        }
        Suite.eventually("connection", () -> earlyEvents.count(KeeperState.ConnectedReadOnly) == 1);
        Suite.equal(earlySession, early.getSessionId(), "session");
        Suite.equal(List.of("/mine"), early.getEphemerals(), "ephemeral nodes");
        Client.fails(REFUSED, () -> early.setData("/mine", Client.bytes("y"), -1));
        Suite.equal("x", Client.data(early, "/mine"), "data");
    }

    private void closing() throws Exception {
        Client.Events events = new Client.Events();
        ZooKeeper other = new ZooKeeper(ensemble.addresses(), 30_000, events, true);
        Suite.eventually("connection", () -> events.count(KeeperState.ConnectedReadOnly) == 1);
        Suite.that(other.close(10_000), "the client's threads did not end");
        Suite.equal(ZooKeeper.States.CLOSED, other.getState(), "state");
    }

    private void back() throws Exception {
        ensemble.start(1);
        Suite.eventually("connection", () -> lateEvents.count(KeeperState.SyncConnected) == 1);
        Suite.equal(ZooKeeper.States.CONNECTED, late.getState(), "state");
        Suite.that(late.getSessionId() != lateSession, "another session");
        Suite.equal(0, lateEvents.count(KeeperState.Expired), "expirations");
        Suite.equal("rw", ensemble.ask(0, "isro"), "isro");
        late.setData("/a", Client.bytes("y"), -1);
        lateEvents.expect(EventType.NodeDataChanged, "/a");
        Client.create(late, "/later", "");
        lateEvents.expect(EventType.NodeCreated, "/later");
        Client.create(late, "/below", "");
        lateEvents.expect(EventType.NodeCreated, "/below");
        late.close();
    }

    private void earlyBack() throws Exception {
        Suite.eventually("connection", () -> earlyEvents.count(KeeperState.SyncConnected) == 2);
        Suite.equal(earlySession, early.getSessionId(), "session");
        Suite.equal(0, earlyEvents.count(KeeperState.Expired), "expirations");
        early.setData("/mine", Client.bytes("y"), -1);
        Suite.equal(earlySession, early.exists("/mine", false).getEphemeralOwner(), "owner");
        early.close();
    }
}
