import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * One client of any release, with the protection that its properties ask for: SecureClient HOST:PORT ROOT EXPECTED.
 *
 * <p>EXPECTED is the identity that the server must see, as scheme:id, or "connected", "refused" or
 * "auth-failed". Prints "done" if
 * everything is as expected, else a reason.
 */
public final class SecureClient {
    private static final int CONNECT_LIMIT_SECONDS = 20;
    private static final int REFUSED_AFTER_SECONDS = 4;

    public static void main(String[] words) throws Exception {
        String expected = words[2];
        AtomicReference<Watcher.Event.KeeperState> state = new AtomicReference<>();
        CountDownLatch decided = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(words[0], 10_000, event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                return;
            }
            state.set(event.getState());
            // With SASL the first state may come before the exchange ends; both ends of it are final for us.
            if (event.getState() == Watcher.Event.KeeperState.AuthFailed
                    || event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                decided.countDown();
            }
        });
        boolean refused = expected.equals("refused");
        boolean came = decided.await(refused ? REFUSED_AFTER_SECONDS : CONNECT_LIMIT_SECONDS, TimeUnit.SECONDS);
        if (refused) {
            end(!came, "connected although it must be refused");
        }
        if (expected.equals("auth-failed")) {
            for (int i = 0; i < 200 && state.get() != Watcher.Event.KeeperState.AuthFailed; i++) {
                Thread.sleep(50);
            }
            end(state.get() == Watcher.Event.KeeperState.AuthFailed, "state " + state.get());
        }
        if (!came) {
            end(false, "not connected after " + CONNECT_LIMIT_SECONDS + " s");
        }
        if (expected.equals("connected")) {
            end(client.exists(words[1], false) != null, "the node is missing");
        }
        String root = words[1];
        client.create(root, new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        List<ACL> acl = client.getACL(root, new Stat());
        // The ids of a connection have no order.
        if (acl.stream().noneMatch(entry -> expected.equals(entry.getId().getScheme() + ":" + entry.getId().getId()))) {
            end(false, "the server sees " + acl);
        }
        exchangeData(client, root);
        client.close();
        end(true, "");
    }

    /** Long values cross many TLS records; many requests at once share them. */
    private static void exchangeData(ZooKeeper client, String root) throws Exception {
        byte[] data = new byte[900_000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * 31);
        }
        client.create(root + "/long", data, ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        if (!Arrays.equals(data, client.getData(root + "/long", false, null))) {
            end(false, "the long value came back changed");
        }
        int many = 500;
        CountDownLatch answers = new CountDownLatch(2 * many);
        CountDownLatch event = new CountDownLatch(1);
        client.exists(root + "/n499", any -> event.countDown());
        for (int i = 0; i < many; i++) {
            client.create(root + "/n" + i, new byte[100], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.EPHEMERAL,
                    (code, path, context, name) -> countGood(code, answers), null);
            client.getData(root, false, (code, path, context, bytes, stat) -> countGood(code, answers), null);
        }
        if (!answers.await(30, TimeUnit.SECONDS) || !event.await(30, TimeUnit.SECONDS)) {
            end(false, answers.getCount() + " answers and " + event.getCount() + " events are missing");
        }
    }

    private static void countGood(int code, CountDownLatch answers) {
        if (code == 0) {
            answers.countDown();
        }
    }

    private static void end(boolean good, String reason) {
        System.out.println(good ? "done" : reason);
        System.out.flush();
        Runtime.getRuntime().halt(good ? 0 : 1);
    }
}
