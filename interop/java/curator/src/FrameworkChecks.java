import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.WatcherRemoveCuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.CuratorEventType;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The framework itself: create in all its forms, delete, namespaces, transactions, background, watchers. */
final class FrameworkChecks {
    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    FrameworkChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/framework";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("create with parents", this::createWithParents);
        suite.check("create or set data", this::createOrSet);
        suite.check("idempotent create, set and delete", this::idempotent);
        suite.check("container and TTL nodes", this::containerAndTtl);
        suite.check("protected create", this::protectedCreate);
        suite.check("protected create across a lost connection", this::protectedAcrossLoss);
        suite.check("guaranteed delete across a lost connection", this::guaranteedDelete);
        suite.check("delete with children", this::deleteWithChildren);
        suite.check("quiet delete", () -> client.delete().quietly().forPath(root + "/nothing"));
        suite.check("namespaces", this::namespaces);
        suite.check("compression", this::compression);
        suite.check("transactions", this::transactions);
        suite.check("a failed transaction", this::failedTransaction);
        suite.check("background operations", this::background);
        suite.check("ACLs and authorization", this::acl);
        suite.check("watcher removal", this::watcherRemoval);
        suite.check("removal of one and of all watches", this::removeWatches);
        suite.check("persistent watches", this::persistentWatches);
        suite.check("sync, getConfig", this::syncAndConfig);
        suite.check("connection states", this::connectionStates);
        suite.check("retries hide a short disconnection", this::retries);
    }

    private void createWithParents() throws Exception {
        client.create().creatingParentsIfNeeded().forPath(root + "/a/b/c", Curator.bytes("x"));
        Suite.equal("x", Curator.text(client.getData().forPath(root + "/a/b/c")), "data");
        client.create().creatingParentContainersIfNeeded().forPath(root + "/containers/b/c");
        Suite.that(client.checkExists().forPath(root + "/containers/b/c") != null, "not created");
        client.checkExists().creatingParentsIfNeeded().forPath(root + "/checked/b/c");
        Suite.that(client.checkExists().forPath(root + "/checked/b") != null, "parents were not created");
    }

    private void createOrSet() throws Exception {
        String path = root + "/or-set";
        client.create().orSetData().forPath(path, Curator.bytes("1"));
        Stat stat = new Stat();
        client.create().orSetData().storingStatIn(stat).forPath(path, Curator.bytes("2"));
        Suite.equal(1, stat.getVersion(), "version");
        Suite.equal("2", Curator.text(client.getData().storingStatIn(stat).forPath(path)), "data");
    }

    private void idempotent() throws Exception {
        String path = root + "/idempotent";
        client.create().idempotent().forPath(path, Curator.bytes("1"));
        client.create().idempotent().forPath(path, Curator.bytes("1"));
        client.setData().idempotent().withVersion(0).forPath(path, Curator.bytes("2"));
        client.setData().idempotent().withVersion(0).forPath(path, Curator.bytes("2"));
        Suite.equal(1, client.checkExists().forPath(path).getVersion(), "version");
        client.delete().idempotent().forPath(path);
        client.delete().idempotent().forPath(path);
    }

    private void containerAndTtl() throws Exception {
        client.create().withMode(CreateMode.CONTAINER).forPath(root + "/container");
        try {
            client.create().withTtl(100_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(root + "/ttl");
        } catch (KeeperException.UnimplementedException off) {
            throw new Suite.Skipped("the server has extendedTypesEnabled=false");
        }
        String made = client.create().withTtl(100_000).withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)
            .forPath(root + "/ttl-");
        Suite.that(made.matches(".*/ttl-\\d{10}"), made);
    }

    private void protectedCreate() throws Exception {
        String made = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(root + "/p-");
        Suite.that(made.matches(".*/_c_[0-9a-f-]{36}-p-\\d{10}"), made);
        client.delete().forPath(made);
    }

    private void protectedAcrossLoss() throws Exception {
        String parent = root + "/protected";
        client.create().forPath(parent);
        try (Proxy proxy = new Proxy(address); CuratorFramework other = retrying(proxy.address())) {
            for (int round = 0; round < 5; round++) {
                Thread cutter = new Thread(() -> {
                    proxy.cut();
                    proxy.restore();
                });
                cutter.start();
                other.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(parent + "/p-");
                cutter.join();
            }
            Suite.equal(5, client.getChildren().forPath(parent).size(), "nodes: none lost, none twice");
        }
        Suite.eventually("close removes them", () -> client.getChildren().forPath(parent).isEmpty());
    }

    private void guaranteedDelete() throws Exception {
        String path = root + "/guaranteed";
        client.create().forPath(path);
        try (Proxy proxy = new Proxy(address)) {
            CuratorFramework other =
                CuratorFrameworkFactory.newClient(proxy.address(), 10_000, 2_000, new RetryOneTime(1));
            other.start();
            Suite.that(other.blockUntilConnected(30, TimeUnit.SECONDS), "no connection");
            proxy.cut();
            try {
                other.delete().guaranteed().forPath(path);
            } catch (KeeperException.ConnectionLossException expected) {
                // The deletion goes on in the background.
            }
            proxy.restore();
            Suite.eventually("deletion in the background", () -> client.checkExists().forPath(path) == null);
            other.close();
        }
    }

    private void deleteWithChildren() throws Exception {
        client.create().creatingParentsIfNeeded().forPath(root + "/tree/a/b");
        client.create().forPath(root + "/tree/c");
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath(root + "/tree");
        Suite.equal(null, client.checkExists().forPath(root + "/tree"), "Stat");
    }

    private void namespaces() throws Exception {
        CuratorFramework inside = client.usingNamespace(root.substring(1) + "/space");
        Suite.equal("/a", inside.create().forPath("/a", Curator.bytes("x")), "path inside");
        Suite.equal("x", Curator.text(client.getData().forPath(root + "/space/a")), "data from outside");
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        inside.getData().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath("/a");
        client.setData().forPath(root + "/space/a", Curator.bytes("y"));
        WatchedEvent event = events.poll(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        Suite.that(event != null, "no event");
        Suite.equal("/a", event.getPath(), "path of the event");
    }

    private void compression() throws Exception {
        String path = root + "/compressed";
        byte[] data = Curator.bytes("compress me ".repeat(10_000));
        client.create().compressed().forPath(path, data);
        Suite.that(client.checkExists().forPath(path).getDataLength() < data.length / 10, "not compressed");
        Suite.that(Arrays.equals(data, client.getData().decompressed().forPath(path)), "data came back changed");
        client.setData().compressed().forPath(path, data);
    }

    private void transactions() throws Exception {
        String path = root + "/transaction";
        List<CuratorOp> operations = List.of(
            client.transactionOp().create().forPath(path, Curator.bytes("1")),
            client.transactionOp().create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path + "-"),
            client.transactionOp().setData().withVersion(0).forPath(path, Curator.bytes("2")),
            client.transactionOp().check().withVersion(1).forPath(path),
            client.transactionOp().delete().withVersion(1).forPath(path));
        Collection<CuratorTransactionResult> results = client.transaction().forOperations(operations);
        Suite.equal(5, results.size(), "results");
        for (CuratorTransactionResult result : results) {
            Suite.equal(0, result.getError(), "error of " + result.getType());
        }
        Suite.equal(null, client.checkExists().forPath(path), "Stat");
    }

    private void failedTransaction() throws Exception {
        CuratorOp create = client.transactionOp().create().forPath(root + "/never");
        CuratorOp check = client.transactionOp().check().withVersion(9).forPath(root);
        try {
            client.transaction().forOperations(create, check);
        } catch (KeeperException.BadVersionException expected) {
            Suite.equal(null, client.checkExists().forPath(root + "/never"), "Stat");
            return;
        }
        throw new AssertionError("it succeeded");
    }

    private void background() throws Exception {
        BlockingQueue<CuratorEvent> events = new LinkedBlockingQueue<>();
        String path = root + "/background";
        client.create().inBackground((framework, event) -> events.add(event), "context").forPath(path, Curator.bytes("b"));
        expect(events, CuratorEventType.CREATE, 0);
        client.getData().inBackground((framework, event) -> events.add(event)).forPath(path);
        Suite.equal("b", Curator.text(expect(events, CuratorEventType.GET_DATA, 0).getData()), "data");
        client.getChildren().inBackground((framework, event) -> events.add(event)).forPath(path);
        expect(events, CuratorEventType.CHILDREN, 0);
        client.checkExists().inBackground((framework, event) -> events.add(event)).forPath(path + "/no");
        expect(events, CuratorEventType.EXISTS, KeeperException.Code.NONODE.intValue());
        client.setData().inBackground((framework, event) -> events.add(event)).forPath(path, Curator.bytes("c"));
        expect(events, CuratorEventType.SET_DATA, 0);
        client.sync().inBackground((framework, event) -> events.add(event)).forPath(path);
        expect(events, CuratorEventType.SYNC, 0);
        client.delete().inBackground((framework, event) -> events.add(event)).forPath(path);
        expect(events, CuratorEventType.DELETE, 0);
    }

    private static CuratorEvent expect(BlockingQueue<CuratorEvent> events, CuratorEventType type, int code) throws Exception {
        CuratorEvent event = events.poll(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        Suite.that(event != null, "no answer to " + type);
        Suite.equal(type, event.getType(), "type");
        Suite.equal(code, event.getResultCode(), "code of " + type);
        return event;
    }

    private void acl() throws Exception {
        try (CuratorFramework ann = CuratorFrameworkFactory.builder().connectString(address)
            .retryPolicy(new RetryOneTime(200)).authorization("digest", Curator.bytes("ann:secret")).build()) {
            ann.start();
            String path = root + "/acl";
            ann.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(path, Curator.bytes("x"));
            List<ACL> acl = ann.getACL().forPath(path);
            Suite.equal("digest", acl.get(0).getId().getScheme(), "scheme");
            try {
                client.getData().forPath(path);
                throw new AssertionError("a stranger may read");
            } catch (KeeperException.NoAuthException expected) {
                // As it should be.
            }
            ann.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath(path);
            Suite.equal("x", Curator.text(client.getData().forPath(path)), "data");
        }
    }

    private void watcherRemoval() throws Exception {
        String path = root + "/removal";
        client.create().forPath(path);
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        WatcherRemoveCuratorFramework removing = client.newWatcherRemoveCuratorFramework();
        removing.getData().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path);
        removing.getChildren().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path);
        removing.checkExists().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path + "/later");
        removing.removeWatchers();
        // The removal runs in the background; afterwards no event for a change may come.
        Suite.eventually("removal", () -> events.stream().filter(FrameworkChecks::isRemoval).count() == 3);
        client.setData().forPath(path, Curator.bytes("x"));
        client.create().forPath(path + "/later");
        client.checkExists().forPath(path);
        Suite.that(events.stream().allMatch(FrameworkChecks::isRemoval), "events: " + events);
    }

    private static boolean isRemoval(WatchedEvent event) {
        return event.getType().name().endsWith("Removed");
    }

    private void removeWatches() throws Exception {
        String path = root + "/watches";
        client.create().forPath(path);
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        org.apache.zookeeper.Watcher watcher = events::add;
        client.getData().usingWatcher(watcher).forPath(path);
        client.watchers().remove(watcher).ofType(org.apache.zookeeper.Watcher.WatcherType.Data).forPath(path);
        client.getData().usingWatcher(watcher).forPath(path);
        client.getChildren().usingWatcher(watcher).forPath(path);
        client.watchers().removeAll().ofType(org.apache.zookeeper.Watcher.WatcherType.Any).forPath(path);
        client.setData().forPath(path, Curator.bytes("x"));
        client.checkExists().forPath(path);
        Suite.that(events.stream().allMatch(FrameworkChecks::isRemoval), "events: " + events);
    }

    private void persistentWatches() throws Exception {
        String path = root + "/persistent";
        client.create().forPath(path);
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        org.apache.zookeeper.Watcher watcher = events::add;
        client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher).forPath(path);
        for (int round = 0; round < 10; round++) {
            client.create().forPath(path + "/" + round);
            client.setData().forPath(path + "/" + round, Curator.bytes("x"));
            client.delete().forPath(path + "/" + round);
        }
        Suite.eventually("30 events", () -> events.size() == 30);
        client.watchers().remove(watcher).forPath(path);
        client.setData().forPath(path, Curator.bytes("x"));
        client.checkExists().forPath(path);
        Suite.that(events.size() <= 31, "events after the removal: " + events.size());
    }

    private void syncAndConfig() throws Exception {
        client.sync().forPath(root);
        client.getConfig().forEnsemble();
    }

    private void connectionStates() throws Exception {
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        try (Proxy proxy = new Proxy(address);
            CuratorFramework other =
                CuratorFrameworkFactory.newClient(proxy.address(), 4_000, 15_000, new RetryOneTime(100))) {
            other.getConnectionStateListenable().addListener((framework, state) -> states.add(state));
            other.start();
            String path = root + "/states";
            expect(states, ConnectionState.CONNECTED);
            other.create().withMode(CreateMode.EPHEMERAL).forPath(path);
            proxy.cut();
            expect(states, ConnectionState.SUSPENDED);
            proxy.restore();
            expect(states, ConnectionState.RECONNECTED);
            Suite.that(client.checkExists().forPath(path) != null, "the session did not survive");
            proxy.cut();
            expect(states, ConnectionState.SUSPENDED);
            expect(states, ConnectionState.LOST);
            Suite.eventually("expiry", () -> client.checkExists().forPath(path) == null);
            proxy.restore();
            expect(states, ConnectionState.RECONNECTED);
        }
    }

    private static void expect(BlockingQueue<ConnectionState> states, ConnectionState expected) throws Exception {
        Suite.equal(expected, states.poll(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS), "connection state");
    }

    private void retries() throws Exception {
        try (Proxy proxy = new Proxy(address); CuratorFramework other = retrying(proxy.address())) {
            for (int round = 0; round < 3; round++) {
                proxy.cut();
                proxy.restore();
                Suite.that(other.checkExists().forPath(root) != null, "no Stat");
            }
        }
    }

    private static CuratorFramework retrying(String address) throws Exception {
        CuratorFramework other = CuratorFrameworkFactory.newClient(address, 10_000, 15_000,
            new org.apache.curator.retry.RetryNTimes(50, 200));
        other.start();
        Suite.that(other.blockUntilConnected(30, TimeUnit.SECONDS), "no connection");
        return other;
    }
}
