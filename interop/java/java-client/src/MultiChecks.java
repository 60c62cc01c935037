import static org.apache.zookeeper.KeeperException.Code.*;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** multi, Transaction and multi of reads. */
final class MultiChecks {
    private final Suite suite;
    private final ZooKeeper client;
    private final String root;

    MultiChecks(Suite suite, ZooKeeper client, String root) {
        this.suite = suite;
        this.client = client;
        this.root = root + "/multi";
    }

    void run() throws Exception {
        Client.create(client, root, "");
        suite.check("multi of every kind of write", this::everyKind);
        suite.check("multi that fails changes nothing", this::failure);
        suite.check("multi in every create mode", this::modes);
        suite.check("multi with pending sequences", this::pendingSequences);
        suite.check("multi, asynchronous", this::asynchronous);
        suite.check("multi without operations", () -> Suite.equal(List.of(), client.multi(List.of()), "results"));
        suite.check("multi of reads", this::reads);
        suite.check("multi of reads, asynchronous", this::readsAsynchronous);
        suite.check("multi refuses a mix of reads and writes", this::mixed);
        suite.check("Transaction", this::transaction);
        suite.check("Transaction, asynchronous", this::transactionAsynchronous);
    }

    private Op create(String path) {
        return Op.create(path, Client.bytes("x"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void everyKind() throws Exception {
        String path = root + "/kinds";
        List<OpResult> results = client.multi(List.of(create(path), create(path + "/c"),
            Op.setData(path, Client.bytes("set"), 0), Op.check(path, 1), Op.delete(path + "/c", 0)));
        Suite.equal(5, results.size(), "results");
        Suite.equal(path, ((OpResult.CreateResult) results.get(0)).getPath(), "created path");
        Suite.equal(1, ((OpResult.SetDataResult) results.get(2)).getStat().getVersion(), "version");
        Suite.that(results.get(3) instanceof OpResult.CheckResult, "check");
        Suite.that(results.get(4) instanceof OpResult.DeleteResult, "delete");
        Stat stat = client.exists(path, false);
        Suite.equal(stat.getCzxid(), stat.getMzxid(), "one zxid for the whole multi");
        Suite.equal(2, stat.getCversion(), "cversion");
    }

    private void failure() throws Exception {
        String path = Client.create(client, root + "/failure", "");
        try {
            client.multi(List.of(create(path + "/a"), Op.check(path, 5), Op.delete(path, -1)));
        } catch (KeeperException failed) {
            Suite.equal(BADVERSION, failed.code(), "code");
            List<OpResult> results = failed.getResults();
            int[] expected = {OK.intValue(), BADVERSION.intValue(), RUNTIMEINCONSISTENCY.intValue()};
            for (int index = 0; index < expected.length; index++) {
                Suite.equal(expected[index], ((OpResult.ErrorResult) results.get(index)).getErr(), "result " + index);
            }
            Suite.equal(List.of(), client.getChildren(path, false), "children");
            return;
        }
        throw new AssertionError("the multi succeeded");
    }

    private void modes() throws Exception {
        for (CreateMode mode : CreateMode.values()) {
            String path = root + "/mode-" + mode;
            Op op = mode.isTTL() ? Op.create(path, null, Ids.OPEN_ACL_UNSAFE, mode, 100_000)
                : Op.create(path, null, Ids.OPEN_ACL_UNSAFE, mode);
            try {
                List<OpResult> results = client.multi(List.of(op));
                String made = ((OpResult.CreateResult) results.get(0)).getPath();
                Suite.that(made.startsWith(path), "created path " + made);
                Suite.that(client.exists(made, false) != null, made + " does not exist");
            } catch (KeeperException.UnimplementedException off) {
                Suite.that(mode.isTTL(), mode + " is not implemented");
            }
        }
    }

    private void pendingSequences() throws Exception {
        String path = Client.create(client, root + "/sequence", "");
        Op op = Op.create(path + "/n-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        List<OpResult> results = client.multi(List.of(op, op, op));
        for (int index = 0; index < 3; index++) {
            String expected = String.format("%s/n-%010d", path, index);
            Suite.equal(expected, ((OpResult.CreateResult) results.get(index)).getPath(), "name");
        }
    }

    private void asynchronous() throws Exception {
        Client.Answer<List<OpResult>> answer = new Client.Answer<>();
        client.multi(List.of(create(root + "/async"), Op.delete(root + "/async", 0)),
            (code, path, context, results) -> answer.take(code, results), null);
        Suite.equal(2, answer.value().size(), "results");
        Client.Answer<List<OpResult>> failing = new Client.Answer<>();
        client.multi(List.of(Op.delete(root + "/async", 0)),
            (code, path, context, results) -> failing.take(code, results), null);
        Suite.equal(NONODE, failing.code(), "code");
    }

    private List<Op> someReads() throws Exception {
        if (client.exists(root + "/read", false) == null) {
            Client.create(client, root + "/read", "data");
            Client.create(client, root + "/read/child", "");
        }
        return List.of(Op.getData(root + "/read"), Op.getChildren(root + "/read"), Op.getData(root + "/nothing"));
    }

    private void checkReads(List<OpResult> results) {
        Suite.equal("data", Client.text(((OpResult.GetDataResult) results.get(0)).getData()), "data");
        Suite.equal(4, ((OpResult.GetDataResult) results.get(0)).getStat().getDataLength(), "dataLength");
        Suite.equal(List.of("child"), ((OpResult.GetChildrenResult) results.get(1)).getChildren(), "children");
        Suite.equal(NONODE.intValue(), ((OpResult.ErrorResult) results.get(2)).getErr(), "read of nothing");
    }

    private void reads() throws Exception {
        checkReads(client.multi(someReads()));
    }

    private void readsAsynchronous() throws Exception {
        Client.Answer<List<OpResult>> answer = new Client.Answer<>();
        // The first failed read gives the code; the results are there all the same.
        client.multi(someReads(), (code, path, context, results) -> {
            Suite.equal(NONODE.intValue(), code, "code");
            answer.complete(results);
        }, null);
        checkReads(answer.value());
    }

    private void mixed() throws Exception {
        try {
            client.multi(List.of(Op.getData(root), Op.delete(root, -1)));
        } catch (IllegalArgumentException refusedByTheClient) {
            return;
        }
        throw new AssertionError("it was accepted");
    }

    private void transaction() throws Exception {
        String path = root + "/transaction";
        List<OpResult> results = client.transaction()
            .create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)
            .check(path, 0).setData(path, Client.bytes("t"), 0).commit();
        Suite.equal(3, results.size(), "results");
        Suite.equal("t", Client.data(client, path), "data");
        client.transaction().delete(path, 1).commit();
        Suite.equal(null, client.exists(path, false), "Stat after delete");
        Client.fails(NONODE, () -> client.transaction().check(path, 0).commit());
    }

    private void transactionAsynchronous() throws Exception {
        Client.Answer<List<OpResult>> answer = new Client.Answer<>();
        client.transaction().create(root + "/later", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL)
            .commit((code, path, context, results) -> answer.take(code, results), null);
        Suite.equal(root + "/later", ((OpResult.CreateResult) answer.value().get(0)).getPath(), "path");
    }
}
