import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/**
 * Writes with Curator until standard input ends. Each write creates the sequential node PREFIX-NUMBER-, and is never
 * repeated: the retry policy allows no second attempt. The lines on standard output are those of kazoo_rolling.py;
 * "lost" stands for SUSPENDED and LOST.
 */
public final class CuratorWriter {
    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        AtomicBoolean stop = new AtomicBoolean();
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(arguments[0])
                .sessionTimeoutMs(30_000)
                .connectionTimeoutMs(15_000)
                .retryPolicy(new RetryNTimes(0, 0))
                .build();
        client.getConnectionStateListenable().addListener((framework, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                say("lost " + state);
            }
        });
        client.start();
        if (!client.blockUntilConnected(60, java.util.concurrent.TimeUnit.SECONDS)) {
            throw new IllegalStateException("not connected to " + arguments[0] + " within 60 s");
        }
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Only the end matters.
                }
            } catch (java.io.IOException gone) {
                // It is the end too.
            }
            stop.set(true);
        });
        end.setDaemon(true);
        end.start();
        say("ready");
        for (long number = 1; !stop.get(); number++) {
            while (!client.getZookeeperClient().isConnected() && !stop.get()) {
                Thread.sleep(5);
            }
            try {
                client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(prefix + "-" + number + "-");
                say("ok " + number);
            } catch (Exception failure) {
                say("unknown " + number + " " + failure.getClass().getSimpleName());
            }
            Thread.sleep(2);
        }
        say("done");
        client.close();
        System.exit(0);
    }
}
