import static org.apache.zookeeper.KeeperException.Code.*;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Nodes: create in every mode, data, versions, children, counts. */
final class NodeChecks {
    /** The server looks for empty containers and old TTL nodes once a minute unless it is told otherwise. */
    private static final long REMOVAL_PATIENCE_MILLIS = 150_000;

    private final Suite suite;
    private final ZooKeeper client;
    private final String root;

    NodeChecks(Suite suite, ZooKeeper client, String root) {
        this.suite = suite;
        this.client = client;
        this.root = root;
    }

    void run() {
        suite.check("create, getData, setData, delete", this::createGetSetDelete);
        suite.check("create with Stat", this::createWithStat);
        suite.check("create in sequential modes", this::createSequential);
        suite.check("create ephemeral", this::createEphemeral);
        suite.check("create container", this::createContainer);
        suite.check("create with TTL", this::createWithTtl);
        suite.check("create refuses bad arguments", this::createRefuses);
        suite.check("null, empty and large data", this::dataSizes);
        suite.check("exists", this::exists);
        suite.check("versions and zxids in Stat", this::statFields);
        suite.check("getChildren with and without Stat", this::children);
        suite.check("getAllChildrenNumber", this::allChildrenNumber);
        suite.check("getEphemerals", this::ephemerals);
        suite.check("sync", () -> client.sync(root));
        suite.check("names beyond ASCII", this::unicode);
        suite.check("system nodes", this::systemNodes);
    }

    private String path(String name) {
        return root + "/" + name;
    }

    private void createGetSetDelete() throws Exception {
        String path = path("plain");
        Suite.equal(path, Client.create(client, path, "one"), "created path");
        Stat stat = new Stat();
        Suite.equal("one", Client.text(client.getData(path, false, stat)), "data");
        Suite.equal(0, stat.getVersion(), "version");
        Suite.equal(1, client.setData(path, Client.bytes("two"), 0).getVersion(), "version after setData");
        Client.fails(BADVERSION, () -> client.setData(path, Client.bytes("x"), 0));
        Client.fails(NODEEXISTS, () -> Client.create(client, path, ""));
        Client.create(client, path + "/child", "");
        Client.fails(NOTEMPTY, () -> client.delete(path, -1));
        client.delete(path + "/child", -1);
        Client.fails(BADVERSION, () -> client.delete(path, 7));
        client.delete(path, 1);
        Client.fails(NONODE, () -> client.delete(path, -1));
        Client.fails(NONODE, () -> client.setData(path, null, -1));
        Client.fails(NONODE, () -> client.getData(path, false, null));
        Client.fails(NONODE, () -> client.getChildren(path, false));
        Client.fails(NONODE, () -> client.getACL(path, null));
        Client.fails(NONODE, () -> client.setACL(path, Ids.OPEN_ACL_UNSAFE, -1));
        Client.fails(NONODE, () -> Client.create(client, path + "/child", ""));
    }

    private void createWithStat() throws Exception {
        Stat stat = new Stat();
        String path = path("with-stat");
        client.create(path, Client.bytes("1234"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
        Suite.equal(4, stat.getDataLength(), "dataLength");
        Suite.equal(stat.getCzxid(), stat.getMzxid(), "czxid and mzxid");
        Suite.equal(stat.getCzxid(), stat.getPzxid(), "czxid and pzxid");
        Suite.equal(stat.getCtime(), stat.getMtime(), "ctime and mtime");
        Suite.that(Math.abs(System.currentTimeMillis() - stat.getCtime()) < 60_000, "ctime is not now");
        Suite.equal(stat, client.exists(path, false), "Stat of create and of exists");
    }

    private void createSequential() throws Exception {
        String parent = Client.create(client, path("sequence"), "");
        CreateMode[] modes = {
            CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT_SEQUENTIAL,
        };
        for (int number = 0; number < modes.length; number++) {
            String made = client.create(parent + "/n-", null, Ids.OPEN_ACL_UNSAFE, modes[number]);
            Suite.equal(String.format("%s/n-%010d", parent, number), made, "name");
        }
        // The number counts changes of the parent, deletes included.
        client.delete(parent + "/n-0000000000", -1);
        String made = client.create(parent + "/", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        Suite.equal(parent + "/0000000003", made, "name without a prefix");
    }

    private void createEphemeral() throws Exception {
        Stat stat = new Stat();
        String path = path("ephemeral");
        client.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
        Suite.equal(client.getSessionId(), stat.getEphemeralOwner(), "owner");
        Client.fails(NOCHILDRENFOREPHEMERALS, () -> Client.create(client, path + "/x", ""));
    }

    private void createContainer() throws Exception {
        Stat stat = new Stat();
        client.create(path("container"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        // The mark of containers and TTL nodes in this field is the server's own; clients see 0.
        Suite.equal(0L, stat.getEphemeralOwner(), "owner of a container");
        Client.create(client, path("container/child"), "");
    }

    private void createWithTtl() throws Exception {
        Stat stat = new Stat();
        CreateMode mode = CreateMode.PERSISTENT_WITH_TTL;
        try {
            client.create(path("ttl"), null, Ids.OPEN_ACL_UNSAFE, mode, stat, 3_600_000);
        } catch (KeeperException.UnimplementedException off) {
            throw new Suite.Skipped("the server has extendedTypesEnabled=false");
        }
        Suite.equal(0L, stat.getEphemeralOwner(), "owner of a TTL node");
        mode = CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL;
        String made = client.create(path("ttl-"), null, Ids.OPEN_ACL_UNSAFE, mode, stat, 3_600_000);
        Suite.that(made.matches(".*/ttl-\\d{10}"), "name of a sequential TTL node: " + made);
    }

    private void createRefuses() throws Exception {
        Client.fails(INVALIDACL, () -> client.create(path("bad"), null, new ArrayList<>(), CreateMode.PERSISTENT));
        Client.fails(NODEEXISTS, () -> Client.create(client, "/", ""));
        Client.fails(BADARGUMENTS, () -> client.delete("/", -1));
        try {
            Client.create(client, "no-slash", "");
        } catch (IllegalArgumentException expected) {
            return;
        }
        throw new AssertionError("a relative path was accepted");
    }

    private void dataSizes() throws Exception {
        String path = path("sizes");
        client.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Suite.equal(null, client.getData(path, false, null), "null data");
        client.setData(path, new byte[0], -1);
        Suite.equal(0, client.getData(path, false, null).length, "empty data");
        byte[] large = new byte[1_000_000];
        large[999_999] = 7;
        Suite.equal(large.length, client.setData(path, large, -1).getDataLength(), "dataLength");
        Suite.that(java.util.Arrays.equals(large, client.getData(path, false, null)), "large data came back changed");
        client.setData(path, null, -1);
        Suite.equal(null, client.getData(path, false, null), "null data by setData");
    }

    private void exists() throws Exception {
        Suite.equal(null, client.exists(path("nothing"), false), "Stat of nothing");
        Suite.that(client.exists(root, false) != null, "no Stat of the root of the suite");
        Suite.that(client.exists("/", false) != null, "no Stat of /");
    }

    private void statFields() throws Exception {
        String path = Client.create(client, path("fields"), "");
        Stat before = client.exists(path, false);
        Client.create(client, path + "/c", "");
        Stat after = client.exists(path, false);
        Suite.equal(before.getMzxid(), after.getMzxid(), "mzxid after a create below");
        Suite.equal(client.exists(path + "/c", false).getCzxid(), after.getPzxid(), "pzxid after a create below");
        Suite.equal(1, after.getCversion(), "cversion");
        Suite.equal(1, after.getNumChildren(), "numChildren");
        Stat set = client.setData(path, Client.bytes("x"), -1);
        Suite.that(set.getMzxid() > after.getPzxid(), "mzxid did not grow");
        Suite.equal(after.getPzxid(), set.getPzxid(), "pzxid after setData");
        Suite.equal(1, client.setACL(path, Ids.OPEN_ACL_UNSAFE, 0).getAversion(), "aversion");
        client.delete(path + "/c", -1);
        Stat last = client.exists(path, false);
        Suite.equal(2, last.getCversion(), "cversion after a delete below");
        Suite.that(last.getPzxid() > set.getMzxid(), "pzxid after a delete below");
    }

    private void children() throws Exception {
        String path = Client.create(client, path("parent"), "p");
        for (String name : new String[] {"b", "a", "c"}) {
            Client.create(client, path + "/" + name, "");
        }
        Suite.equal(List.of("a", "b", "c"), sorted(client.getChildren(path, false)), "names");
        Stat stat = new Stat();
        Suite.equal(List.of("a", "b", "c"), sorted(client.getChildren(path, false, stat)), "names with Stat");
        Suite.equal(3, stat.getNumChildren(), "numChildren");
        Suite.equal(List.of("a", "b", "c"), sorted(client.getChildren(path, null, stat)), "names, null watcher");
        Suite.equal(List.of(), client.getChildren(path + "/a", false), "children of a leaf");
    }

    private void allChildrenNumber() throws Exception {
        String path = Client.create(client, path("counted"), "");
        Suite.equal(0, client.getAllChildrenNumber(path), "of a leaf");
        Client.create(client, path + "/a", "");
        Client.create(client, path + "/a/b", "");
        Client.create(client, path + "/c", "");
        Client.create(client, path("counted-beside"), "");
        Suite.equal(3, client.getAllChildrenNumber(path), "of a tree");
        Client.fails(NONODE, () -> client.getAllChildrenNumber(path("nothing")));
    }

    private void ephemerals() throws Exception {
        String path = Client.create(client, path("owned"), "");
        client.create(path + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.create(path + "/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Suite.equal(List.of(path + "/a", path + "/b"), sorted(client.getEphemerals(path)), "below a prefix");
        List<String> all = client.getEphemerals();
        Suite.that(all.containsAll(List.of(path + "/a", path("ephemeral"))), "all of the session: " + all);
        Suite.equal(List.of(), client.getEphemerals(path("nothing")), "below nothing");
    }

    private void unicode() throws Exception {
        String path = path("zébu-牛-\u00ff");
        Suite.equal(path, Client.create(client, path, "größe"), "created path");
        Suite.equal("größe", Client.data(client, path), "data");
        Suite.that(client.getChildren(root, false).contains(path.substring(root.length() + 1)), "not among the children");
    }

    private void systemNodes() throws Exception {
        Suite.equal(List.of("config", "quota"), sorted(client.getChildren("/zookeeper", false)), "below /zookeeper");
        Suite.that(client.getChildren("/", false).contains("zookeeper"), "/zookeeper is not below /");
    }

    /** Nodes that the server has to remove by itself; it takes a while, so it is asked at the end. */
    void startExpiry() throws Exception {
        client.create(path("brief-container"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER);
        Client.create(client, path("brief-container/child"), "");
        client.delete(path("brief-container/child"), -1);
        try {
            CreateMode mode = CreateMode.PERSISTENT_WITH_TTL;
            client.create(path("brief-ttl"), null, Ids.OPEN_ACL_UNSAFE, mode, new Stat(), 500);
            client.create(path("busy-ttl"), null, Ids.OPEN_ACL_UNSAFE, mode, new Stat(), 500);
            Client.create(client, path("busy-ttl/child"), "");
        } catch (KeeperException.UnimplementedException off) {
            return;
        }
    }

    void finishExpiry() {
        suite.check("an emptied container is removed", () -> Suite.eventually("removal", REMOVAL_PATIENCE_MILLIS,
            () -> client.exists(path("brief-container"), false) == null));
        suite.check("an old TTL node is removed, one with children is not", () -> {
            Suite.eventually("removal", REMOVAL_PATIENCE_MILLIS, () -> client.exists(path("brief-ttl"), false) == null);
            if (client.exists(path("ttl"), false) == null) {
                throw new Suite.Skipped("the server has extendedTypesEnabled=false");
            }
            Suite.that(client.exists(path("busy-ttl"), false) != null, "a TTL node with a child was removed");
        });
    }

    static List<String> sorted(List<String> names) {
        List<String> copy = new ArrayList<>(names);
        Collections.sort(copy);
        return copy;
    }
}
