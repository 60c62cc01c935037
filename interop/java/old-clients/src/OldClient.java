import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** What every client since 3.4 can do, and only that: {@code OldClient HOST:PORT VERSION}. */
public final class OldClient {
    /** Short, for sessions that are to expire. */
    private static final int SHORT_MILLIS = 2_000;

    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    private final String address;
    private final String root;
    private final ZooKeeper client;

    private OldClient(String address, String version) throws Exception {
        this.address = address;
        client = Client.connect(address);
        root = "/old-client-" + version + "-" + System.currentTimeMillis();
        Client.create(client, root, "");
    }

    public static void main(String[] arguments) throws Exception {
        OldClient checks = new OldClient(arguments[0], arguments[1]);
        checks.run(new Suite(arguments[1] + ", "));
        System.exit(0);
    }

    private void run(Suite suite) throws Exception {
        suite.check("create, get, set, delete", this::nodes);
        suite.check("null and large data", this::data);
        suite.check("children and sequential names", this::children);
        suite.check("watches fire once", this::watches);
        suite.check("ACLs with digest", this::access);
        suite.check("multi", this::multi);
        suite.check("a multi that fails", this::failedMulti);
        suite.check("many requests in flight", this::pipelined);
        suite.check("ephemeral nodes end with their session", this::ephemeral);
        suite.check("a session is taken up again", this::reattach);
        suite.check("a lost connection keeps session and watches", this::lostConnection);
        suite.check("a session expires", this::expiry);
        suite.check("a path before all paths", this::chroot);
        suite.check("the server is killed and started", this::restart);
        Client.deleteTree(client, root);
        client.close();
    }

    private void nodes() throws Exception {
        String path = root + "/node";
        Suite.equal(path, Client.create(client, path, "one"), "created");
        Client.fails(Code.NODEEXISTS, () -> Client.create(client, path, "again"));
        Stat stat = new Stat();
        Suite.equal("one", Client.text(client.getData(path, false, stat)), "data");
        Suite.equal(0, stat.getVersion(), "version");
        Suite.equal(stat.getCzxid(), stat.getMzxid(), "zxids of a new node");
        Suite.equal(1, client.setData(path, Client.bytes("two"), 0).getVersion(), "version after set");
        Client.fails(Code.BADVERSION, () -> client.setData(path, Client.bytes("three"), 0));
        Client.fails(Code.BADVERSION, () -> client.delete(path, 7));
        Suite.equal(3, client.exists(path, false).getDataLength(), "length");
        client.delete(path, 1);
        Suite.equal(null, client.exists(path, false), "after delete");
        Client.fails(Code.NONODE, () -> Client.data(client, path));
    }

    private void data() throws Exception {
        String path = root + "/data";
        client.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Suite.equal(null, client.getData(path, false, null), "null");
        client.setData(path, new byte[0], -1);
        Suite.equal(0, client.getData(path, false, null).length, "empty");
        byte[] large = new byte[900_000];
        Arrays.fill(large, (byte) 7);
        client.setData(path, large, -1);
        Suite.that(Arrays.equals(large, client.getData(path, false, null)), "large data came back changed");
    }

    private void children() throws Exception {
        String path = root + "/children";
        Client.create(client, path, "");
        for (int number = 0; number < 3; number++) {
            String made = client.create(path + "/n-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
            Suite.equal(String.format("%s/n-%010d", path, number), made, "name");
        }
        Stat stat = new Stat();
        List<String> names = new ArrayList<>(client.getChildren(path, false, stat));
        Collections.sort(names);
        Suite.equal(Arrays.asList("n-0000000000", "n-0000000001", "n-0000000002"), names, "children");
        Suite.equal(3, stat.getNumChildren(), "count");
        Client.fails(Code.NOTEMPTY, () -> client.delete(path, -1));
    }

    private void watches() throws Exception {
        String path = root + "/watched";
        Client.Events existence = new Client.Events();
        Client.Events data = new Client.Events();
        Client.Events children = new Client.Events();
        client.exists(path, existence);
        Client.create(client, path, "");
        existence.expect(EventType.NodeCreated, path);
        client.getData(path, data, null);
        client.getChildren(path, children);
        client.setData(path, Client.bytes("x"), -1);
        data.expect(EventType.NodeDataChanged, path);
        Client.create(client, path + "/child", "");
        children.expect(EventType.NodeChildrenChanged, path);
        client.setData(path, Client.bytes("y"), -1);
        client.delete(path + "/child", -1);
        client.exists(path, data);
        client.delete(path, -1);
        data.expect(EventType.NodeDeleted, path);
        client.exists(root, false);
        existence.expectNothing();
        data.expectNothing();
        children.expectNothing();
    }

    private void access() throws Exception {
        String path = root + "/guarded";
        ZooKeeper owner = Client.connect(address);
        owner.addAuthInfo("digest", Client.bytes("user:secret"));
        owner.create(path, Client.bytes("mine"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Client.fails(Code.NOAUTH, () -> Client.data(client, path));
        Stat stat = new Stat();
        List<ACL> acl = owner.getACL(path, stat);
        Suite.equal("digest", acl.get(0).getId().getScheme(), "scheme");
        owner.setACL(path, Collections.singletonList(new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), stat.getAversion());
        Suite.equal("mine", Client.data(client, path), "data for everybody");
        Client.fails(Code.NOAUTH, () -> client.setData(path, null, -1));
        Client.fails(Code.INVALIDACL, () -> client.create(path + "x", null, Collections.<ACL>emptyList(), CreateMode.PERSISTENT));
        owner.close();
    }

    private void multi() throws Exception {
        String path = root + "/multi";
        List<OpResult> results = client.multi(Arrays.asList(
            Op.create(path, Client.bytes("a"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.setData(path, Client.bytes("b"), 0),
            Op.check(path, 1),
            Op.create(path + "/child", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT.toFlag()),
            Op.delete(path + "/child", 0)));
        Suite.equal(5, results.size(), "results");
        Suite.equal(path, ((OpResult.CreateResult) results.get(0)).getPath(), "created");
        Suite.equal(1, ((OpResult.SetDataResult) results.get(1)).getStat().getVersion(), "version");
        Suite.equal("b", Client.data(client, path), "data");
        Suite.that(client.transaction().delete(path, 1).commit().size() == 1, "the transaction's result");
    }

    private void failedMulti() throws Exception {
        String path = root + "/failed";
        try {
            client.multi(Arrays.asList(
                Op.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT), Op.check(root, 99),
                Op.delete(path, -1)));
        } catch (KeeperException failure) {
            Suite.equal(Code.BADVERSION, failure.code(), "error");
            List<OpResult> results = failure.getResults();
            Suite.equal(3, results.size(), "results");
            int[] codes = new int[3];
            for (int index = 0; index < 3; index++) {
                codes[index] = ((OpResult.ErrorResult) results.get(index)).getErr();
            }
            int[] expected = {0, Code.BADVERSION.intValue(), Code.RUNTIMEINCONSISTENCY.intValue()};
            Suite.equal(Arrays.toString(expected), Arrays.toString(codes), "codes");
            Suite.equal(null, client.exists(path, false), "nothing is left of it");
            return;
        }
        throw new AssertionError("the multi succeeded");
    }

    private void pipelined() throws Exception {
        String path = root + "/many";
        Client.create(client, path, "");
        List<Client.Answer<String>> answers = new ArrayList<>();
        for (int number = 0; number < 500; number++) {
            Client.Answer<String> answer = new Client.Answer<>();
            client.create(path + "/" + number, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                (code, asked, context, name) -> answer.take(code, name), null);
            answers.add(answer);
        }
        for (int number = 0; number < 500; number++) {
            Suite.equal(path + "/" + number, answers.get(number).value(), "answer");
        }
        Suite.equal(500, client.exists(path, false).getNumChildren(), "children");
        Client.Answer<String> synced = new Client.Answer<>();
        client.sync(path, (code, asked, context) -> synced.take(code, asked), null);
        Suite.equal(path, synced.value(), "sync");
    }

    private void ephemeral() throws Exception {
        String path = root + "/ephemeral";
        Client.Events events = new Client.Events();
        ZooKeeper other = Client.connect(address);
        other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Suite.equal(other.getSessionId(), client.exists(path, events).getEphemeralOwner(), "owner");
        Client.fails(Code.NOCHILDRENFOREPHEMERALS, () -> Client.create(client, path + "/child", ""));
        other.close();
        events.expect(EventType.NodeDeleted, path);
    }

    private void reattach() throws Exception {
        String path = root + "/reattach";
        try (Proxy proxy = new Proxy(address)) {
            ZooKeeper first = Client.connect(proxy.address());
            first.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            long id = first.getSessionId();
            proxy.cut();
            Client.Events events = new Client.Events();
            ZooKeeper second = new ZooKeeper(address, Client.TIMEOUT_MILLIS, events, id, first.getSessionPasswd());
            Client.connected(second, events);
            Suite.equal(id, second.getSessionId(), "session id");
            Suite.equal(id, second.exists(path, false).getEphemeralOwner(), "owner");
            second.close();
            Suite.equal(null, client.exists(path, false), "the ephemeral node after close");
        }
    }

    private void lostConnection() throws Exception {
        String path = root + "/lost";
        Client.create(client, path, "");
        try (Proxy proxy = new Proxy(address)) {
            Client.Events session = new Client.Events();
            Client.Events watch = new Client.Events();
            ZooKeeper other = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, session);
            long id = other.getSessionId();
            other.getData(path, watch, null);
            proxy.cut();
            Suite.eventually("Disconnected", () -> session.count(KeeperState.Disconnected) == 1);
            client.setData(path, Client.bytes("while it was away"), -1);
            proxy.restore();
            watch.expect(EventType.NodeDataChanged, path);
            Suite.eventually("connected again", () -> session.count(KeeperState.SyncConnected) == 2);
            Suite.equal(id, other.getSessionId(), "session id");
            other.close();
        }
    }

    private void expiry() throws Exception {
        String path = root + "/expiry";
        try (Proxy proxy = new Proxy(address)) {
            Client.Events session = new Client.Events();
            Client.Events watch = new Client.Events();
            ZooKeeper other = Client.connect(proxy.address(), SHORT_MILLIS, session);
            other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            client.exists(path, watch);
            proxy.cut();
            watch.expect(EventType.NodeDeleted, path);
            proxy.restore();
            Suite.eventually("Expired", () -> session.count(KeeperState.Expired) == 1);
            Client.fails(Code.SESSIONEXPIRED, () -> other.exists("/", false));
        }
    }

    private void chroot() throws Exception {
        Client.Events events = new Client.Events();
        ZooKeeper below = Client.connect(address + root, Client.TIMEOUT_MILLIS, events);
        below.exists("/below", true);
        Suite.equal("/below", Client.create(below, "/below", "x"), "its own path");
        events.expect(EventType.NodeCreated, "/below");
        Suite.equal("x", Client.data(client, root + "/below"), "the whole path");
        below.close();
    }

    private void restart() throws Exception {
        String path = root + "/restart";
        Client.Events session = new Client.Events();
        Client.Events watch = new Client.Events();
        ZooKeeper other = Client.connect(address, Client.TIMEOUT_MILLIS, session);
        other.create(path, Client.bytes("kept"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        other.exists(path, watch);
        System.out.println("@restart");
        System.out.flush();
        if (!"@restarted".equals(input.readLine())) {
            throw new Suite.Skipped("the server is not ours to restart");
        }
        Suite.eventually("connected again", () -> session.count(KeeperState.SyncConnected) == 2);
        Suite.equal("kept", Client.data(other, path), "data");
        Suite.equal(other.getSessionId(), other.exists(path, false).getEphemeralOwner(), "owner");
        other.setData(path, null, 0);
        watch.expect(EventType.NodeDataChanged, path);
        Suite.eventually("the first client is back too", () -> client.getState().isConnected());
        other.close();
    }
}
