import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/** Drives a server with Curator's framework and recipes: {@code Curator HOST:PORT}. */
public final class Curator {
    private Curator() {}

    public static void main(String[] arguments) throws Exception {
        Suite suite = new Suite("curator: ");
        String address = arguments[0];
        String root = "/curator-" + System.currentTimeMillis();
        try (CuratorFramework client = connect(address)) {
            client.create().forPath(root);
            new FrameworkChecks(suite, address, client, root).run();
            new LockChecks(suite, address, client, root).run();
            new LeaderChecks(suite, address, client, root).run();
            new CacheChecks(suite, address, client, root).run();
            new QueueChecks(suite, address, client, root).run();
            new CounterChecks(suite, address, client, root).run();
            new MemberChecks(suite, address, client, root).run();
            new AsyncDslChecks(suite, address, client, root).run();
            client.delete().guaranteed().deletingChildrenIfNeeded().forPath(root);
        }
        System.exit(0);
    }

    static CuratorFramework connect(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(address, 10_000, 15_000, new RetryOneTime(200));
        client.start();
        Suite.that(client.blockUntilConnected(30, java.util.concurrent.TimeUnit.SECONDS), "no connection");
        return client;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
