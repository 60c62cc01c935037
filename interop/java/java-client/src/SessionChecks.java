import static org.apache.zookeeper.KeeperException.Code.*;

import java.net.InetSocketAddress;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.client.StaticHostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.Stat;

/** Sessions: timeouts, re-attachment, close, expiry, and the ways to name a server. */
final class SessionChecks {
    /** Below what a server grants with its default tick, long enough for a client on a busy machine. */
    private static final int SHORT_MILLIS = 1_000;

    private final Suite suite;
    private final String address;
    private final ZooKeeper client;
    private final String root;

    SessionChecks(Suite suite, String address, ZooKeeper client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/session";
    }

    void run() throws Exception {
        Client.create(client, root, "");
        suite.check("session id, password, timeout, state", this::properties);
        suite.check("the server bounds the session timeout", this::timeoutBounds);
        suite.check("re-attachment by id and password", this::reattach);
        suite.check("re-attachment with a wrong password", this::wrongPassword);
        suite.check("re-attachment moves the session away from its old connection", this::moved);
        suite.check("close removes ephemerals at once", this::close);
        suite.check("a closed session cannot be re-attached", this::closedSession);
        suite.check("expiry removes ephemerals and is told to the client", this::expiry);
        suite.check("a session outlives a short disconnection", this::shortDisconnection);
        suite.check("closeSocket of the test interface", this::closeSocket);
        suite.check("requests in flight at a disconnection fail with CONNECTIONLOSS", this::connectionLoss);
        suite.check("the read-only flag", this::readOnly);
        suite.check("chroot", this::chroot);
        suite.check("a connection string with several servers", this::severalServers);
        suite.check("updateServerList", this::updateServerList);
        suite.check("constructors with a configuration and a host provider", this::constructors);
        suite.check("an idle session is kept by pings", this::idle);
        suite.check("requests larger than the server's limit cost the connection", this::tooLarge);
    }

    private void properties() {
        Suite.that(client.getSessionId() != 0, "the session has no id");
        Suite.equal(16, client.getSessionPasswd().length, "length of the password");
        Suite.equal(Client.TIMEOUT_MILLIS, client.getSessionTimeout(), "timeout");
        Suite.equal(ZooKeeper.States.CONNECTED, client.getState(), "state");
        Suite.that(client.toString().contains("State:CONNECTED"), client.toString());
        client.getSaslClient();
        Suite.that(client.getClientConfig() != null, "no configuration");
    }

    private void timeoutBounds() throws Exception {
        try (ZooKeeper brief = Client.connect(address, SHORT_MILLIS, new Client.Events());
            ZooKeeper endless = Client.connect(address, 10_000_000, new Client.Events())) {
            int shortest = brief.getSessionTimeout();
            Suite.that(shortest > SHORT_MILLIS, "shortest timeout " + shortest);
            // By default 2 and 20 ticks.
            Suite.equal(shortest * 10, endless.getSessionTimeout(), "longest timeout");
        }
    }

    private void reattach() throws Exception {
        Client.Events events = new Client.Events();
        try (Proxy proxy = new Proxy(address)) {
            ZooKeeper first = Client.connect(proxy.address());
            String path = root + "/reattach";
            first.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            long id = first.getSessionId();
            byte[] password = first.getSessionPasswd();
            proxy.cut();
            try (ZooKeeper second = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, id, password)) {
                Client.connected(second, events);
                Suite.equal(id, second.getSessionId(), "session id");
                Suite.equal(id, second.exists(path, false).getEphemeralOwner(), "owner");
                Suite.equal(List.of(path), second.getEphemerals(), "ephemerals");
            }
            Suite.equal(null, client.exists(path, false), "the ephemeral node after close");
        }
    }

    private void wrongPassword() throws Exception {
        Client.Events events = new Client.Events();
        long id = client.getSessionId();
        try (ZooKeeper thief = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, id, new byte[16])) {
            Suite.eventually("Expired event", () -> events.count(KeeperState.Expired) == 1);
            Suite.that(!thief.getState().isAlive(), "state " + thief.getState());
        }
        // Apache closes the owner's connection before it looks at the password; the session survives.
        Suite.eventually("the owner's session works", () -> {
            try {
                return client.exists(root, false) != null;
            } catch (KeeperException.ConnectionLossException again) {
                return false;
            }
        });
        Suite.equal(id, client.getSessionId(), "the owner's session id");
    }

    private void moved() throws Exception {
        Client.Events oldEvents = new Client.Events();
        Client.Events newEvents = new Client.Events();
        try (Proxy proxy = new Proxy(address)) {
            ZooKeeper old = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, oldEvents);
            try (ZooKeeper fresh = new ZooKeeper(address, Client.TIMEOUT_MILLIS, newEvents, old.getSessionId(),
                old.getSessionPasswd())) {
                Client.connected(fresh, newEvents);
                Suite.eventually("the old connection is closed", () -> oldEvents.count(KeeperState.Disconnected) >= 1);
                proxy.cut();
                Suite.eventually("the new one works", () -> fresh.getState().isConnected());
                fresh.exists(root, false);
            }
        }
    }

    private void close() throws Exception {
        ZooKeeper other = Client.connect(address);
        String path = root + "/close";
        other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Suite.that(client.exists(path, false) != null, "not created");
        other.close();
        Suite.equal(null, client.exists(path, false), "after close");
        Suite.equal(ZooKeeper.States.CLOSED, other.getState(), "state");
        Client.fails(SESSIONEXPIRED, () -> other.exists("/", false));
    }

    private void closedSession() throws Exception {
        ZooKeeper other = Client.connect(address);
        long id = other.getSessionId();
        byte[] password = other.getSessionPasswd();
        other.close();
        Client.Events events = new Client.Events();
        try (ZooKeeper late = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, id, password, true)) {
            Suite.eventually("Expired event", () -> events.count(KeeperState.Expired) == 1);
            Client.fails(SESSIONEXPIRED, () -> late.exists("/", false));
        }
    }

    private void expiry() throws Exception {
        Client.Events session = new Client.Events();
        Client.Events watch = new Client.Events();
        String path = root + "/expiry";
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), SHORT_MILLIS, session)) {
            other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            client.exists(path, watch);
            proxy.cut();
            watch.expect(EventType.NodeDeleted, path);
            proxy.restore();
            Suite.eventually("Expired event", () -> session.count(KeeperState.Expired) == 1);
            Client.fails(SESSIONEXPIRED, () -> other.exists("/", false));
        }
    }

    private void shortDisconnection() throws Exception {
        Client.Events session = new Client.Events();
        String path = root + "/short";
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            long id = other.getSessionId();
            for (int round = 1; round <= 3; round++) {
                int wanted = round;
                proxy.cut();
                Suite.eventually("disconnection", () -> session.count(KeeperState.Disconnected) == wanted);
                proxy.restore();
                Suite.eventually("connection", () -> session.count(KeeperState.SyncConnected) == wanted + 1);
            }
            Suite.equal(id, other.getSessionId(), "session id");
            Suite.equal(id, other.exists(path, false).getEphemeralOwner(), "owner");
            Suite.equal(0, session.count(KeeperState.Expired), "expiries");
        }
    }

    private void closeSocket() throws Exception {
        Client.Events session = new Client.Events();
        try (ZooKeeper other = Client.connect(address, Client.TIMEOUT_MILLIS, session)) {
            long id = other.getSessionId();
            other.getTestable().closeSocket();
            Suite.eventually("connection", () -> session.count(KeeperState.SyncConnected) == 2);
            other.exists(root, false);
            Suite.equal(id, other.getSessionId(), "session id");
        }
    }

    private void connectionLoss() throws Exception {
        Client.Events session = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            proxy.cut();
            Suite.eventually("disconnection", () -> session.count(KeeperState.Disconnected) == 1);
            Client.Answer<Stat> answer = new Client.Answer<>();
            other.exists(root, false, (code, path, context, stat) -> answer.take(code, stat), null);
            Suite.equal(CONNECTIONLOSS, answer.code(), "code");
            proxy.restore();
            Suite.eventually("connection", () -> session.count(KeeperState.SyncConnected) == 2);
            other.exists(root, false);
        }
    }

    private void readOnly() throws Exception {
        Client.Events events = new Client.Events();
        try (ZooKeeper other = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, true)) {
            Client.connected(other, events);
            // A server that can write gives even such a client a full session.
            Suite.equal(ZooKeeper.States.CONNECTED, other.getState(), "state");
            Suite.equal(0, events.count(KeeperState.ConnectedReadOnly), "read-only events");
            Client.create(other, root + "/read-only", "");
        }
    }

    private void chroot() throws Exception {
        String base = Client.create(client, root + "/chroot", "");
        Client.Events events = new Client.Events();
        try (ZooKeeper inside = Client.connect(address + base, Client.TIMEOUT_MILLIS, new Client.Events())) {
            Suite.equal("/a", Client.create(inside, "/a", "x"), "created path");
            Suite.equal("x", Client.data(client, base + "/a"), "data seen from outside");
            inside.getData("/a", events, null);
            client.setData(base + "/a", null, -1);
            events.expect(EventType.NodeDataChanged, "/a");
            Suite.equal(List.of("a"), inside.getChildren("/", false), "children of /");
            List<OpResult> results = inside.multi(List.of(
                Op.create("/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL), Op.setData("/a", null, -1)));
            // The client does not take the chroot off here; what matters is that the node is where it should be.
            Suite.equal(base + "/b", ((OpResult.CreateResult) results.get(0)).getPath(), "path in a multi");
            Suite.equal(2, inside.getAllChildrenNumber("/"), "getAllChildrenNumber");
            inside.sync("/");
            inside.delete("/b", -1);
        }
        try (ZooKeeper lost = Client.connect(address + root + "/no-such-chroot", Client.TIMEOUT_MILLIS, new Client.Events())) {
            Client.fails(NONODE, () -> Client.create(lost, "/a", ""));
            Client.fails(NONODE, () -> lost.getChildren("/", false));
        }
    }

    private void severalServers() throws Exception {
        // Nobody listens at port 1; the client must go on to the next server of the list.
        try (ZooKeeper other = Client.connect("127.0.0.1:1," + address, Client.TIMEOUT_MILLIS, new Client.Events())) {
            Suite.that(other.exists(root, false) != null, "no Stat");
        }
    }

    private void updateServerList() throws Exception {
        Client.Events session = new Client.Events();
        try (Proxy first = new Proxy(address); Proxy second = new Proxy(address);
            ZooKeeper other = Client.connect(first.address(), Client.TIMEOUT_MILLIS, session)) {
            long id = other.getSessionId();
            other.updateServerList(second.address());
            first.cut();
            Suite.eventually("connection to the other server", () -> session.count(KeeperState.SyncConnected) == 2);
            other.exists(root, false);
            Suite.equal(id, other.getSessionId(), "session id");
        }
    }

    private void constructors() throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty(ZKClientConfig.ZOOKEEPER_REQUEST_TIMEOUT, "20000");
        int colon = address.lastIndexOf(':');
        InetSocketAddress server =
            new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        StaticHostProvider hosts = new StaticHostProvider(List.of(server));
        Client.Events events = new Client.Events();
        ZooKeeper[] clients = {
            new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, config),
            new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, false, config),
            new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, false, hosts),
            new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, false, new StaticHostProvider(List.of(server)), config),
        };
        for (ZooKeeper one : clients) {
            Suite.eventually("connection", () -> one.getState().isConnected());
            Suite.that(one.exists(root, false) != null, "no Stat");
        }
        for (ZooKeeper one : clients) {
            one.close();
        }
        Client.Events adminEvents = new Client.Events();
        ZooKeeperAdmin[] admins = {
            new ZooKeeperAdmin(address, Client.TIMEOUT_MILLIS, adminEvents, config),
            new ZooKeeperAdmin(address, Client.TIMEOUT_MILLIS, adminEvents, false),
            new ZooKeeperAdmin(address, Client.TIMEOUT_MILLIS, adminEvents, false, config),
        };
        for (ZooKeeperAdmin admin : admins) {
            Suite.eventually("connection", () -> admin.getState().isConnected());
            admin.close();
        }
        ZooKeeper first = Client.connect(address);
        try (ZooKeeper again = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, first.getSessionId(),
            first.getSessionPasswd(), false, new StaticHostProvider(List.of(server)))) {
            Suite.eventually("connection", () -> again.getState().isConnected());
            Suite.equal(first.getSessionId(), again.getSessionId(), "session id");
        }
        ZooKeeper owner = Client.connect(address);
        try (ZooKeeper again = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, owner.getSessionId(),
            owner.getSessionPasswd(), false, new StaticHostProvider(List.of(server)), config)) {
            Suite.eventually("connection", () -> again.getState().isConnected());
            Suite.equal(owner.getSessionId(), again.getSessionId(), "session id");
        }
    }

    private void idle() throws Exception {
        Client.Events session = new Client.Events();
        try (ZooKeeper other = Client.connect(address, SHORT_MILLIS, session)) {
            int timeout = other.getSessionTimeout();
            // The time itself is what is tested: two timeouts without a request.
            Thread.sleep(2L * timeout);
            Suite.equal(0, session.count(KeeperState.Disconnected), "disconnections");
            Suite.that(other.exists(root, false) != null, "no Stat");
        }
    }

    private void tooLarge() throws Exception {
        Client.Events session = new Client.Events();
        try (ZooKeeper other = Client.connect(address, Client.TIMEOUT_MILLIS, session)) {
            long id = other.getSessionId();
            Client.fails(CONNECTIONLOSS, () -> Client.create(other, root + "/large", "x".repeat(2_000_000)));
            Suite.eventually("connection", () -> session.count(KeeperState.SyncConnected) == 2);
            Suite.equal(null, other.exists(root + "/large", false), "Stat");
            Suite.equal(id, other.getSessionId(), "session id");
        }
    }
}
