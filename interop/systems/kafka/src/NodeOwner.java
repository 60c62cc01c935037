import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * A client without an id: {@code NodeOwner HOST:PORT SCHEME:ID PATH...}. Each path must give all permissions to the id,
 * and must refuse a child of this client. Ends with 0 if that is so.
 */
public final class NodeOwner {
    private NodeOwner() {}

    public static void main(String[] words) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(words[0], 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(30, TimeUnit.SECONDS)) {
            fail("not connected to " + words[0]);
        }
        for (int i = 2; i < words.length; i++) {
            check(client, words[i], words[1]);
        }
        client.close();
    }

    private static void check(ZooKeeper client, String path, String owner) throws Exception {
        List<ACL> acl = client.getACL(path, new Stat());
        boolean owned = acl.stream().anyMatch(entry -> entry.getPerms() == ZooDefs.Perms.ALL
                && owner.equals(entry.getId().getScheme() + ":" + entry.getId().getId()));
        if (!owned) {
            fail(path + " has " + acl + " and not " + owner);
        }
        try {
            client.create(path + "/intruder", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            fail("a client without an id made a node below " + path);
        } catch (KeeperException.NoAuthException expected) {
            // As it must be.
        }
    }

    private static void fail(String reason) {
        System.err.println(reason);
        Runtime.getRuntime().halt(1);
    }
}
