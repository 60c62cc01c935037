import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** What all groups of checks use: connections, watchers that remember, short ways to create and to fail. */
final class Client {
    static final int TIMEOUT_MILLIS = 10_000;

    private Client() {}

    interface Call {
        void run() throws Exception;
    }

    /** Remembers events; session events apart from those of nodes. */
    static final class Events implements Watcher {
        final BlockingQueue<WatchedEvent> nodes = new LinkedBlockingQueue<>();
        final List<Event.KeeperState> states = new ArrayList<>();

        @Override
        public synchronized void process(WatchedEvent event) {
            if (event.getType() == Event.EventType.None) {
                states.add(event.getState());
            } else {
                nodes.add(event);
            }
            notifyAll();
        }

        synchronized int count(Event.KeeperState state) {
            return (int) states.stream().filter(state::equals).count();
        }

        void expect(Event.EventType type, String path) throws InterruptedException {
            WatchedEvent event = nodes.poll(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            Suite.that(event != null, "no event came; expected " + type + " " + path);
            Suite.equal(type + " " + path, event.getType() + " " + event.getPath(), "event");
        }

        /** Nothing more came; the caller has made a round trip, behind which no earlier event can be. */
        void expectNothing() {
            Suite.equal("[]", nodes.toString(), "events that nobody asked for");
        }
    }

    /** A future that a callback completes; failures arrive as exceptions with their code. */
    static final class Answer<T> extends CompletableFuture<T> {
        void take(int code, T value) {
            if (code == KeeperException.Code.OK.intValue()) {
                complete(value);
            } else {
                completeExceptionally(KeeperException.create(KeeperException.Code.get(code)));
            }
        }

        T value() throws Exception {
            return get(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        }

        KeeperException.Code code() throws Exception {
            try {
                value();
                return KeeperException.Code.OK;
            } catch (java.util.concurrent.ExecutionException failure) {
                return ((KeeperException) failure.getCause()).code();
            }
        }
    }

    static ZooKeeper connect(String address) throws Exception {
        return connect(address, TIMEOUT_MILLIS, new Events());
    }

    static ZooKeeper connect(String address, int timeoutMillis, Events events) throws Exception {
        ZooKeeper client = new ZooKeeper(address, timeoutMillis, events);
        connected(client, events);
        return client;
    }

    static void connected(ZooKeeper client, Events events) throws Exception {
        Suite.eventually("connection", () -> client.getState().isConnected());
        Suite.eventually("its event", () -> events.count(Watcher.Event.KeeperState.SyncConnected) > 0);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    static String create(ZooKeeper client, String path, String data) throws Exception {
        return client.create(path, bytes(data), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    static String data(ZooKeeper client, String path) throws Exception {
        return text(client.getData(path, false, new Stat()));
    }

    static void fails(KeeperException.Code code, Call call) throws Exception {
        try {
            call.run();
        } catch (KeeperException failure) {
            Suite.equal(code, failure.code(), "error");
            return;
        }
        throw new AssertionError("expected " + code + ", but the call succeeded");
    }

    /** Tidies up as far as the ACLs that the checks have set allow it. */
    static void deleteTree(ZooKeeper client, String path) throws Exception {
        try {
            for (String name : client.getChildren(path, false)) {
                deleteTree(client, path + "/" + name);
            }
            client.delete(path, -1);
        } catch (KeeperException.NoAuthException | KeeperException.NotEmptyException left) {
            // The server is a throwaway.
        }
    }
}
