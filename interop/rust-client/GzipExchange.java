import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/** Reads with Curator what the Rust client has compressed, and leaves it something to read. */
public final class GzipExchange {
    private static final String ROOT = "/gzip-exchange";

    private GzipExchange() {}

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(1000))) {
            client.start();
            read(client);
            write(client);
        }
    }

    private static void read(CuratorFramework client) throws Exception {
        List<String> packed = new ArrayList<>(client.getChildren().forPath(ROOT + "/rust"));
        packed.removeIf(name -> !name.endsWith(".gz"));
        for (String name : packed) {
            String path = ROOT + "/rust/" + name;
            byte[] plain = client.getData().forPath(path.substring(0, path.length() - 3));
            String check = "compression: Curator reads " + path;
            try {
                boolean same = Arrays.equals(plain, client.getData().decompressed().forPath(path));
                System.out.println(same ? "ok " + check : "not ok " + check + ": it is not what was written");
            } catch (Exception failure) {
                System.out.println("not ok " + check + ": " + failure);
            }
        }
    }

    private static void write(CuratorFramework client) throws Exception {
        byte[] noise = new byte[100_000];
        new Random(1).nextBytes(noise);
        put(client, "empty", new byte[0]);
        put(client, "short", "word".getBytes("UTF-8"));
        put(client, "long", "word ".repeat(40_000).getBytes("UTF-8"));
        put(client, "noise", noise);
    }

    private static void put(CuratorFramework client, String name, byte[] data) throws Exception {
        String path = ROOT + "/curator/" + name;
        client.create().creatingParentsIfNeeded().forPath(path, data);
        client.create().compressed().forPath(path + ".gz", data);
    }
}
