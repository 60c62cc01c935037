import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Writes with ZooKeeper's own client until standard input ends. Each write creates the sequential node
 * PREFIX-NUMBER-, and is never repeated. The lines on standard output are those of kazoo_rolling.py.
 */
public final class RollingWriter {
    private static volatile boolean connected;

    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        AtomicBoolean stop = new AtomicBoolean();
        ZooKeeper client = new ZooKeeper(arguments[0], 30_000, event -> {
            boolean now = event.getState() == KeeperState.SyncConnected;
            if (connected && !now && !stop.get()) {
                say("lost");
            }
            connected = now;
        });
        while (!connected) {
            Thread.sleep(5);
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
            while (!connected && !stop.get()) {
                Thread.sleep(5);
            }
            try {
                client.create(prefix + "-" + number + "-", new byte[0], Ids.OPEN_ACL_UNSAFE,
                        CreateMode.PERSISTENT_SEQUENTIAL);
                say("ok " + number);
            } catch (KeeperException failure) {
                say("unknown " + number + " " + failure.code());
            }
            Thread.sleep(2);
        }
        say("done");
        client.close();
        System.exit(0);
    }
}
