import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Locks and semaphores, and the room that only their holders enter. */
final class LockVerbs {
    private final CuratorFramework client;

    LockVerbs(CuratorFramework client) {
        this.client = client;
    }

    /** Takes KIND PATH …; without patience {@code null} if somebody else has it, with a negative one it waits. */
    CuratorPeer.Held take(List<String> words, long patienceMillis) throws Exception {
        String path = words.get(1);
        return switch (words.get(0)) {
            case "mutex" -> take(new InterProcessMutex(client, path), patienceMillis);
            case "read" -> take(new InterProcessReadWriteLock(client, path).readLock(), patienceMillis);
            case "write" -> take(new InterProcessReadWriteLock(client, path).writeLock(), patienceMillis);
            case "semaphore" -> {
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, Integer.parseInt(words.get(2)));
                Lease lease = patienceMillis < 0 ? semaphore.acquire() : semaphore.acquire(200, TimeUnit.MILLISECONDS);
                yield lease == null ? null : () -> semaphore.returnLease(lease);
            }
            default -> throw new IllegalArgumentException("no such lock: " + words.get(0));
        };
    }

    private static CuratorPeer.Held take(InterProcessMutex mutex, long patienceMillis) throws Exception {
        if (patienceMillis < 0) {
            mutex.acquire();
        } else if (!mutex.acquire(200, TimeUnit.MILLISECONDS)) {
            return null;
        }
        return mutex::release;
    }

    /** KIND PATH ROOM ROUNDS LIMIT NAME; how many were in the room at most. */
    String contend(List<String> words) throws Exception {
        String kind = words.get(0);
        String room = words.get(2);
        int limit = Integer.parseInt(words.get(4));
        String name = words.get(5);
        int most = 0;
        for (int round = 0; round < Integer.parseInt(words.get(3)); round++) {
            CuratorPeer.Held held = take(List.of(kind, words.get(1), words.get(4)), -1);
            try {
                String inside = kind.equals("write") ? "w" : kind.equals("read") ? "r" : name;
                most = Math.max(most, visit(room, limit, inside));
                if (kind.equals("mutex") || kind.equals("write")) {
                    Stat stat = new Stat();
                    String log = CuratorPeer.text(client.getData().storingStatIn(stat).forPath(room + "-log"));
                    client.setData().withVersion(stat.getVersion()).forPath(room + "-log", CuratorPeer.bytes(log + name));
                }
            } finally {
                held.release();
            }
        }
        return String.valueOf(most);
    }

    private int visit(String room, int limit, String name) throws Exception {
        String own = client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(room + "/" + name + "-");
        int most = 0;
        for (int look = 0; look < 2; look++) {
            List<String> names = client.getChildren().forPath(room);
            if (names.size() > limit) {
                throw new AssertionError("too many at once: " + names);
            }
            if (names.size() > 1 && names.stream().anyMatch(one -> one.startsWith("w-"))) {
                throw new AssertionError("a writer is not alone: " + names);
            }
            most = Math.max(most, names.size());
            Thread.sleep(2);
        }
        client.delete().forPath(own);
        return most;
    }
}
