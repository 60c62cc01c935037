import static org.apache.zookeeper.KeeperException.Code.*;
import static org.apache.zookeeper.Watcher.Event.EventType.*;

import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Watches: one-time, persistent, recursive, their removal, and what becomes of them across a reconnect. */
final class WatchChecks {
    private final Suite suite;
    private final String address;
    private final ZooKeeper client;
    private final String root;

    WatchChecks(Suite suite, String address, ZooKeeper client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/watch";
    }

    void run() throws Exception {
        Client.create(client, root, "");
        suite.check("one-time watches", this::oneTime);
        suite.check("the default watcher", this::defaultWatcher);
        suite.check("a multi fires watches", this::multi);
        suite.check("persistent watch", this::persistent);
        suite.check("persistent recursive watch", this::recursive);
        suite.check("addWatch with the default watcher", this::addWatchDefault);
        suite.check("removeWatches by type", this::remove);
        suite.check("removeWatches local", this::removeLocal);
        suite.check("removeAllWatches", this::removeAll);
        suite.check("removeWatches without a watch", this::removeNothing);
        suite.check("an event comes before the answer that shows its change", this::eventBeforeAnswer);
        suite.check("watches that fired while the client was away", this::acrossReconnect);
        suite.check("watches that did not fire while the client was away", this::quietReconnect);
        suite.check("persistent watches across a reconnect", this::persistentAcrossReconnect);
        suite.check("many watches across a reconnect", this::manyAcrossReconnect);
        suite.check("ephemerals of a closed session fire watches", this::closedSession);
    }

    private void oneTime() throws Exception {
        String path = root + "/once";
        Client.Events events = new Client.Events();
        Suite.equal(null, client.exists(path, events), "exists");
        Client.create(client, path, "");
        events.expect(NodeCreated, path);
        client.getData(path, events, null);
        client.setData(path, null, -1);
        events.expect(NodeDataChanged, path);
        client.setData(path, null, -1);
        client.getChildren(path, events);
        Client.create(client, path + "/c", "");
        events.expect(NodeChildrenChanged, path);
        client.exists(path + "/c", events);
        client.getChildren(path + "/c", events, null);
        client.delete(path + "/c", -1);
        // One watcher on one node: one event for data and children together.
        events.expect(NodeDeleted, path + "/c");
        client.exists(path, false);
        events.expectNothing();
    }

    private void defaultWatcher() throws Exception {
        String path = Client.create(client, root + "/default", "");
        Client.Events first = new Client.Events();
        Client.Events second = new Client.Events();
        try (ZooKeeper other = Client.connect(address, Client.TIMEOUT_MILLIS, first)) {
            other.exists(path, true);
            client.setData(path, null, -1);
            first.expect(NodeDataChanged, path);
            other.register(second);
            other.getData(path, true, null);
            other.getChildren(path, true);
            client.delete(path, -1);
            second.expect(NodeDeleted, path);
            first.expectNothing();
        }
    }

    private void multi() throws Exception {
        String path = Client.create(client, root + "/by-multi", "");
        Client.Events events = new Client.Events();
        client.getData(path, events, null);
        client.getChildren(path, events);
        client.multi(List.of(Op.setData(path, null, -1),
            Op.create(path + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)));
        events.expect(NodeDataChanged, path);
        events.expect(NodeChildrenChanged, path);
    }

    private void persistent() throws Exception {
        String path = root + "/persistent";
        Client.Events events = new Client.Events();
        client.addWatch(path, events, AddWatchMode.PERSISTENT);
        for (int round = 0; round < 2; round++) {
            Client.create(client, path, "");
            events.expect(NodeCreated, path);
            client.setData(path, null, -1);
            events.expect(NodeDataChanged, path);
            Client.create(client, path + "/c", "");
            events.expect(NodeChildrenChanged, path);
            client.setData(path + "/c", null, -1);
            client.delete(path + "/c", -1);
            events.expect(NodeChildrenChanged, path);
            client.delete(path, -1);
            events.expect(NodeDeleted, path);
        }
        client.exists(path, false);
        events.expectNothing();
    }

    private void recursive() throws Exception {
        String path = Client.create(client, root + "/recursive", "");
        Client.Events events = new Client.Events();
        client.addWatch(path, events, AddWatchMode.PERSISTENT_RECURSIVE);
        Client.create(client, path + "/a", "");
        events.expect(NodeCreated, path + "/a");
        Client.create(client, path + "/a/b", "");
        events.expect(NodeCreated, path + "/a/b");
        client.setData(path + "/a/b", null, -1);
        events.expect(NodeDataChanged, path + "/a/b");
        client.delete(path + "/a/b", -1);
        events.expect(NodeDeleted, path + "/a/b");
        client.setData(path, null, -1);
        events.expect(NodeDataChanged, path);
        Client.create(client, root + "/recursive-beside", "");
        client.exists(path, false);
        events.expectNothing();
    }

    private void addWatchDefault() throws Exception {
        String path = Client.create(client, root + "/add-default", "");
        Client.Events events = new Client.Events();
        try (ZooKeeper other = Client.connect(address, Client.TIMEOUT_MILLIS, events)) {
            other.addWatch(path, AddWatchMode.PERSISTENT);
            client.setData(path, null, -1);
            events.expect(NodeDataChanged, path);
            client.setData(path, null, -1);
            events.expect(NodeDataChanged, path);
        }
    }

    private void remove() throws Exception {
        String path = Client.create(client, root + "/removal", "");
        Client.Events data = new Client.Events();
        Client.Events children = new Client.Events();
        Client.Events persistent = new Client.Events();
        client.getData(path, data, null);
        client.getChildren(path, children);
        client.addWatch(path, persistent, AddWatchMode.PERSISTENT);
        client.removeWatches(path, data, WatcherType.Data, false);
        data.expect(DataWatchRemoved, path);
        client.setData(path, null, -1);
        persistent.expect(NodeDataChanged, path);
        data.expectNothing();
        client.removeWatches(path, children, WatcherType.Children, false);
        children.expect(ChildWatchRemoved, path);
        client.removeWatches(path, persistent, WatcherType.Any, false);
        persistent.expect(PersistentWatchRemoved, path);
        Client.create(client, path + "/c", "");
        client.setData(path, null, -1);
        client.exists(path, false);
        data.expectNothing();
        children.expectNothing();
        persistent.expectNothing();
    }

    private void removeLocal() throws Exception {
        String path = Client.create(client, root + "/local", "");
        Client.Events events = new Client.Events();
        try (Proxy proxy = new Proxy(address); ZooKeeper other = Client.connect(proxy.address())) {
            other.getData(path, events, null);
            proxy.cut();
            other.removeWatches(path, events, WatcherType.Data, true);
            events.expect(DataWatchRemoved, path);
            proxy.restore();
            Suite.eventually("connection", () -> other.getState().isConnected());
            client.setData(path, null, -1);
            other.exists(path, false);
            events.expectNothing();
        }
    }

    private void removeAll() throws Exception {
        String path = Client.create(client, root + "/all", "");
        Client.Events one = new Client.Events();
        Client.Events two = new Client.Events();
        client.getData(path, one, null);
        client.exists(path, two);
        client.removeAllWatches(path, WatcherType.Data, false);
        one.expect(DataWatchRemoved, path);
        two.expect(DataWatchRemoved, path);
        client.setData(path, null, -1);
        client.exists(path, false);
        one.expectNothing();
        two.expectNothing();
        Client.fails(NOWATCHER, () -> client.removeAllWatches(path, WatcherType.Any, false));
    }

    private void removeNothing() throws Exception {
        String path = Client.create(client, root + "/none", "");
        Client.Events events = new Client.Events();
        Client.fails(NOWATCHER, () -> client.removeWatches(path, events, WatcherType.Any, false));
        client.getData(path, events, null);
        Client.fails(NOWATCHER, () -> client.removeWatches(path, events, WatcherType.Children, false));
        Client.fails(NOWATCHER, () -> client.removeWatches(path, new Client.Events(), WatcherType.Data, false));
    }

    private void eventBeforeAnswer() throws Exception {
        String path = Client.create(client, root + "/order", "");
        try (ZooKeeper other = Client.connect(address)) {
            for (int round = 0; round < 100; round++) {
                Client.Events events = new Client.Events();
                other.getData(path, events, null);
                client.setData(path, Client.bytes("" + round), -1);
                // As soon as the new data is seen, the event must have been delivered to the same client before it.
                java.util.concurrent.atomic.AtomicInteger seenBefore = new java.util.concurrent.atomic.AtomicInteger();
                Client.Answer<byte[]> answer = new Client.Answer<>();
                other.getData(path, false, (code, name, context, data, stat) -> {
                    seenBefore.set(events.nodes.size());
                    answer.take(code, data);
                }, null);
                Suite.equal("" + round, Client.text(answer.value()), "data");
                Suite.equal(1, seenBefore.get(), "events before the answer");
            }
        }
    }

    private void acrossReconnect() throws Exception {
        String path = Client.create(client, root + "/away", "");
        Client.create(client, path + "/data", "");
        Client.create(client, path + "/children", "");
        Client.create(client, path + "/deleted", "");
        Client.Events session = new Client.Events();
        Client.Events data = new Client.Events();
        Client.Events children = new Client.Events();
        Client.Events deleted = new Client.Events();
        Client.Events created = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            other.getData(path + "/data", data, null);
            other.getChildren(path + "/children", children);
            other.exists(path + "/deleted", deleted);
            other.exists(path + "/created", created);
            proxy.cut();
            Suite.eventually("disconnection", () -> session.count(Watcher.Event.KeeperState.Disconnected) == 1);
            client.setData(path + "/data", null, -1);
            Client.create(client, path + "/children/c", "");
            client.delete(path + "/deleted", -1);
            Client.create(client, path + "/created", "");
            proxy.restore();
            data.expect(NodeDataChanged, path + "/data");
            children.expect(NodeChildrenChanged, path + "/children");
            deleted.expect(NodeDeleted, path + "/deleted");
            created.expect(NodeCreated, path + "/created");
        }
    }

    private void quietReconnect() throws Exception {
        String path = Client.create(client, root + "/quiet", "");
        Client.Events session = new Client.Events();
        Client.Events events = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            other.getData(path, events, null);
            other.exists(path + "/later", events);
            reconnect(proxy, session);
            other.exists(path, false);
            events.expectNothing();
            client.setData(path, null, -1);
            events.expect(NodeDataChanged, path);
            Client.create(client, path + "/later", "");
            events.expect(NodeCreated, path + "/later");
        }
    }

    private void persistentAcrossReconnect() throws Exception {
        String path = Client.create(client, root + "/persistent-away", "");
        Client.Events session = new Client.Events();
        Client.Events single = new Client.Events();
        Client.Events recursive = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            other.addWatch(path, single, AddWatchMode.PERSISTENT);
            other.addWatch(path, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
            reconnect(proxy, session);
            other.exists(path, false);
            client.setData(path, null, -1);
            single.expect(NodeDataChanged, path);
            recursive.expect(NodeDataChanged, path);
            Client.create(client, path + "/c", "");
            single.expect(NodeChildrenChanged, path);
            recursive.expect(NodeCreated, path + "/c");
        }
    }

    private void manyAcrossReconnect() throws Exception {
        String path = Client.create(client, root + "/many", "");
        int count = 3_000;
        // Long names: the client splits its list into several setWatches requests.
        String filler = "x".repeat(150);
        Client.Events session = new Client.Events();
        Client.Events events = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session)) {
            Client.Answer<Void> last = new Client.Answer<>();
            for (int index = 0; index < count; index++) {
                boolean isLast = index == count - 1;
                other.exists(path + "/" + filler + index, events, (code, name, context, stat) -> {
                    if (isLast) {
                        last.take(0, null);
                    }
                }, null);
            }
            last.value();
            reconnect(proxy, session);
            other.exists(path, false);
            events.expectNothing();
            Client.create(client, path + "/" + filler + "0", "");
            events.expect(NodeCreated, path + "/" + filler + "0");
            Client.create(client, path + "/" + filler + (count - 1), "");
            events.expect(NodeCreated, path + "/" + filler + (count - 1));
        }
    }

    private void closedSession() throws Exception {
        String path = root + "/of-closed";
        Client.Events events = new Client.Events();
        ZooKeeper other = Client.connect(address);
        other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.exists(path, events);
        Client.Events parent = new Client.Events();
        client.getChildren(root, parent);
        other.close();
        events.expect(NodeDeleted, path);
        parent.expect(NodeChildrenChanged, root);
    }

    private static void reconnect(Proxy proxy, Client.Events session) throws Exception {
        int before = session.count(Watcher.Event.KeeperState.SyncConnected);
        int away = session.count(Watcher.Event.KeeperState.Disconnected);
        proxy.cut();
        Suite.eventually("disconnection", () -> session.count(Watcher.Event.KeeperState.Disconnected) > away);
        proxy.restore();
        Suite.eventually("connection", () -> session.count(Watcher.Event.KeeperState.SyncConnected) > before);
    }
}
