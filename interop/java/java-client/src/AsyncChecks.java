import static org.apache.zookeeper.KeeperException.Code.*;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The variants with callbacks, and the order of answers. */
final class AsyncChecks {
    private static final int PIPELINE = 500;

    private final Suite suite;
    private final ZooKeeper client;
    private final String root;

    AsyncChecks(Suite suite, ZooKeeper client, String root) {
        this.suite = suite;
        this.client = client;
        this.root = root + "/async";
    }

    void run() throws Exception {
        Client.create(client, root, "");
        suite.check("async create", this::create);
        suite.check("async create with Stat and TTL", this::createWithStat);
        suite.check("async exists, getData, setData", this::data);
        suite.check("async getACL and setACL", this::acl);
        suite.check("async getChildren", this::children);
        suite.check("async getAllChildrenNumber and getEphemerals", this::counts);
        suite.check("async sync", this::sync);
        suite.check("async delete", this::delete);
        suite.check("async addWatch and removeWatches", this::watches);
        suite.check("async getConfig", this::config);
        suite.check("a pipeline is answered in order", this::pipeline);
        suite.check("a pipelined read sees the writes before it and no later one", this::readsBetweenWrites);
    }

    private void create() throws Exception {
        Client.Answer<String> answer = new Client.Answer<>();
        AsyncCallback.StringCallback callback = (code, path, context, name) -> answer.take(code, context + " " + name);
        client.create(root + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, callback, "context");
        Suite.equal("context " + root + "/a", answer.value(), "name");
        Client.Answer<String> again = new Client.Answer<>();
        callback = (code, path, context, name) -> again.take(code, name);
        client.create(root + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, callback, null);
        Suite.equal(NODEEXISTS, again.code(), "second create");
    }

    private void createWithStat() throws Exception {
        Client.Answer<Stat> answer = new Client.Answer<>();
        AsyncCallback.Create2Callback callback = (code, path, context, name, stat) -> answer.take(code, stat);
        client.create(root + "/b", Client.bytes("12"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, callback, null);
        Suite.equal(2, answer.value().getDataLength(), "dataLength");
        Client.Answer<Stat> ttl = new Client.Answer<>();
        callback = (code, path, context, name, stat) -> ttl.take(code, stat);
        CreateMode mode = CreateMode.PERSISTENT_WITH_TTL;
        client.create(root + "/ttl", null, Ids.OPEN_ACL_UNSAFE, mode, callback, null, 100_000);
        if (ttl.code() != UNIMPLEMENTED) {
            Suite.equal(0L, ttl.value().getEphemeralOwner(), "owner of a TTL node");
        }
    }

    private void data() throws Exception {
        String path = Client.create(client, root + "/data", "x");
        Client.Answer<Stat> exists = new Client.Answer<>();
        client.exists(path, false, (code, name, context, stat) -> exists.take(code, stat), null);
        Suite.equal(1, exists.value().getDataLength(), "dataLength");
        Client.Answer<Stat> missing = new Client.Answer<>();
        client.exists(path + "/no", null, (code, name, context, stat) -> missing.take(code, stat), null);
        Suite.equal(NONODE, missing.code(), "exists of nothing");
        Client.Answer<Stat> set = new Client.Answer<>();
        client.setData(path, Client.bytes("yy"), 0, (code, name, context, stat) -> set.take(code, stat), null);
        Suite.equal(1, set.value().getVersion(), "version");
        Client.Answer<Stat> stale = new Client.Answer<>();
        client.setData(path, Client.bytes("z"), 0, (code, name, context, stat) -> stale.take(code, stat), null);
        Suite.equal(BADVERSION, stale.code(), "stale version");
        Client.Answer<byte[]> get = new Client.Answer<>();
        client.getData(path, false, (code, name, context, data, stat) -> get.take(code, data), null);
        Suite.equal("yy", Client.text(get.value()), "data");
        Client.Events events = new Client.Events();
        Client.Answer<byte[]> watched = new Client.Answer<>();
        client.getData(path, events, (code, name, context, data, stat) -> watched.take(code, data), null);
        watched.value();
        client.setData(path, null, -1);
        events.expect(Watcher.Event.EventType.NodeDataChanged, path);
    }

    private void acl() throws Exception {
        String path = Client.create(client, root + "/acl", "");
        Client.Answer<Stat> set = new Client.Answer<>();
        client.setACL(path, Ids.READ_ACL_UNSAFE, 0, (code, name, context, stat) -> set.take(code, stat), null);
        Suite.equal(1, set.value().getAversion(), "aversion");
        Client.Answer<List<ACL>> get = new Client.Answer<>();
        client.getACL(path, new Stat(), (code, name, context, acl, stat) -> get.take(code, acl), null);
        Suite.equal(Ids.READ_ACL_UNSAFE, get.value(), "ACL");
    }

    private void children() throws Exception {
        String path = Client.create(client, root + "/parent", "");
        Client.create(client, path + "/c", "");
        Client.Answer<List<String>> plain = new Client.Answer<>();
        AsyncCallback.ChildrenCallback callback = (code, name, context, names) -> plain.take(code, names);
        client.getChildren(path, false, callback, null);
        Suite.equal(List.of("c"), plain.value(), "names");
        Client.Answer<Integer> withStat = new Client.Answer<>();
        AsyncCallback.Children2Callback callback2 =
            (code, name, context, names, stat) -> withStat.take(code, stat == null ? -1 : stat.getNumChildren());
        client.getChildren(path, false, callback2, null);
        Suite.equal(1, withStat.value(), "numChildren");
        Client.Events events = new Client.Events();
        Client.Answer<List<String>> watched = new Client.Answer<>();
        callback = (code, name, context, names) -> watched.take(code, names);
        client.getChildren(path, events, callback, null);
        watched.value();
        Client.Events events2 = new Client.Events();
        Client.Answer<List<String>> watched2 = new Client.Answer<>();
        callback2 = (code, name, context, names, stat) -> watched2.take(code, names);
        client.getChildren(path, events2, callback2, null);
        watched2.value();
        client.delete(path + "/c", -1);
        events.expect(Watcher.Event.EventType.NodeChildrenChanged, path);
        events2.expect(Watcher.Event.EventType.NodeChildrenChanged, path);
    }

    private void counts() throws Exception {
        String path = Client.create(client, root + "/counts", "");
        client.create(path + "/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Client.Answer<Integer> number = new Client.Answer<>();
        client.getAllChildrenNumber(path, (code, name, context, count) -> number.take(code, count), null);
        Suite.equal(1, number.value(), "getAllChildrenNumber");
        Client.Answer<List<String>> below = new Client.Answer<>();
        client.getEphemerals(path, (code, context, paths) -> below.take(code, paths), null);
        Suite.equal(List.of(path + "/e"), below.value(), "getEphemerals of a prefix");
        Client.Answer<List<String>> all = new Client.Answer<>();
        client.getEphemerals((code, context, paths) -> all.take(code, paths), null);
        Suite.that(all.value().contains(path + "/e"), "getEphemerals");
    }

    private void sync() throws Exception {
        Client.Answer<String> answer = new Client.Answer<>();
        client.sync(root, (code, path, context) -> answer.take(code, path), null);
        Suite.equal(root, answer.value(), "path");
    }

    private void delete() throws Exception {
        String path = Client.create(client, root + "/gone", "");
        for (KeeperCode expected : new KeeperCode[] {new KeeperCode(BADVERSION, 3), new KeeperCode(OK, 0), new KeeperCode(NONODE, -1)}) {
            Client.Answer<Void> answer = new Client.Answer<>();
            client.delete(path, expected.version(), (code, name, context) -> answer.take(code, null), null);
            Suite.equal(expected.code(), answer.code(), "delete with version " + expected.version());
        }
    }

    private record KeeperCode(org.apache.zookeeper.KeeperException.Code code, int version) {}

    private void watches() throws Exception {
        String path = Client.create(client, root + "/watched", "");
        Client.Events events = new Client.Events();
        Client.Answer<Void> added = new Client.Answer<>();
        client.addWatch(path, events, AddWatchMode.PERSISTENT, (code, name, context) -> added.take(code, null), null);
        added.value();
        client.setData(path, null, -1);
        events.expect(Watcher.Event.EventType.NodeDataChanged, path);
        Client.Answer<Void> removed = new Client.Answer<>();
        client.removeWatches(path, events, Watcher.WatcherType.Any, false,
            (code, name, context) -> removed.take(code, null), null);
        removed.value();
        events.expect(Watcher.Event.EventType.PersistentWatchRemoved, path);
        Client.Answer<Void> again = new Client.Answer<>();
        client.removeWatches(path, events, Watcher.WatcherType.Any, false,
            (code, name, context) -> again.take(code, null), null);
        Suite.equal(NOWATCHER, again.code(), "removal without a watch");
        Client.Answer<Void> byDefault = new Client.Answer<>();
        client.addWatch(path, AddWatchMode.PERSISTENT_RECURSIVE, (code, name, context) -> byDefault.take(code, null), null);
        byDefault.value();
        Client.Answer<Void> removedAll = new Client.Answer<>();
        client.removeAllWatches(path, Watcher.WatcherType.Any, false,
            (code, name, context) -> removedAll.take(code, null), null);
        removedAll.value();
    }

    private void config() throws Exception {
        Client.Answer<byte[]> plain = new Client.Answer<>();
        client.getConfig(false, (code, path, context, data, stat) -> plain.take(code, data), null);
        Client.Answer<byte[]> watched = new Client.Answer<>();
        client.getConfig(new Client.Events(), (code, path, context, data, stat) -> watched.take(code, data), null);
        Suite.equal(Client.text(plain.value()), Client.text(watched.value()), "configuration");
    }

    private void pipeline() throws Exception {
        String path = Client.create(client, root + "/pipeline", "");
        List<Integer> versions = Collections.synchronizedList(new ArrayList<>());
        java.util.concurrent.CountDownLatch left = new java.util.concurrent.CountDownLatch(PIPELINE);
        for (int index = 0; index < PIPELINE; index++) {
            client.setData(path, Client.bytes("" + index), -1, (code, name, context, stat) -> {
                versions.add(stat == null ? code : stat.getVersion());
                left.countDown();
            }, null);
        }
        Suite.that(left.await(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS), left.getCount() + " answers are missing");
        for (int index = 0; index < PIPELINE; index++) {
            Suite.equal(index + 1, versions.get(index), "answer " + index);
        }
    }

    private void readsBetweenWrites() throws Exception {
        String path = Client.create(client, root + "/between", "");
        List<Client.Answer<byte[]>> reads = new ArrayList<>();
        for (int index = 0; index < 100; index++) {
            client.setData(path, Client.bytes("" + index), -1, (code, name, context, stat) -> { }, null);
            Client.Answer<byte[]> read = new Client.Answer<>();
            client.getData(path, false, (code, name, context, data, stat) -> read.take(code, data), null);
            reads.add(read);
        }
        for (int index = 0; index < reads.size(); index++) {
            Suite.equal("" + index, Client.text(reads.get(index).value()), "read " + index);
        }
    }
}
