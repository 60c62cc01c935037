import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** Locks: nobody is inside with anybody who must not be, and everybody gets in. */
final class LockChecks {
    private static final int CLIENTS = 4;
    private static final int ROUNDS = 5;

    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    LockChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/locks";
    }

    interface Making {
        InterProcessLock lock(CuratorFramework client) throws Exception;
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("InterProcessMutex excludes", () -> excludes(own -> new InterProcessMutex(own, root + "/mutex")));
        suite.check("InterProcessMutex is reentrant, revocable and gives up in time", this::mutex);
        suite.check("InterProcessMutex of a client that vanishes is released", this::vanishedOwner);
        suite.check("InterProcessSemaphoreMutex excludes",
            () -> excludes(own -> new InterProcessSemaphoreMutex(own, root + "/semaphore-mutex")));
        suite.check("InterProcessReadWriteLock", this::readWrite);
        suite.check("InterProcessReadWriteLock writers exclude",
            () -> excludes(own -> new InterProcessReadWriteLock(own, root + "/read-write-busy").writeLock()));
        suite.check("InterProcessSemaphoreV2", this::semaphore);
        suite.check("InterProcessSemaphoreV2 with a shared count", this::semaphoreWithCount);
        suite.check("InterProcessMultiLock", this::multiLock);
    }

    private void excludes(Making making) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger rounds = new AtomicInteger();
        ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
        List<Future<Void>> ends = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            ends.add(threads.submit(() -> {
                try (CuratorFramework own = Curator.connect(address)) {
                    InterProcessLock lock = making.lock(own);
                    for (int round = 0; round < ROUNDS; round++) {
                        Suite.that(lock.acquire(60, TimeUnit.SECONDS), "the lock was not given within 60 s");
                        Suite.equal(1, inside.incrementAndGet(), "clients inside");
                        rounds.incrementAndGet();
                        inside.decrementAndGet();
                        lock.release();
                    }
                }
                return null;
            }));
        }
        try {
            for (Future<Void> end : ends) {
                end.get(120, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
        Suite.equal(CLIENTS * ROUNDS, rounds.get(), "times inside");
    }

    private void mutex() throws Exception {
        try (CuratorFramework other = Curator.connect(address)) {
            InterProcessMutex mine = new InterProcessMutex(client, root + "/one");
            InterProcessMutex theirs = new InterProcessMutex(other, root + "/one");
            // A holder can only be asked to give up if it said so before it got the lock.
            AtomicInteger revocations = new AtomicInteger();
            mine.makeRevocable(lock -> revocations.incrementAndGet());
            mine.acquire();
            mine.acquire();
            Suite.that(!theirs.acquire(300, TimeUnit.MILLISECONDS), "acquired twice");
            mine.release();
            Suite.that(!theirs.acquire(300, TimeUnit.MILLISECONDS), "acquired while held once");
            Collection<String> nodes = mine.getParticipantNodes();
            Suite.equal(1, nodes.size(), "participants");
            Revoker.attemptRevoke(other, nodes.iterator().next());
            Suite.eventually("revocation", () -> revocations.get() == 1);
            mine.release();
            Suite.that(theirs.acquire(30, TimeUnit.SECONDS), "not acquired after release");
            theirs.release();
        }
    }

    private void vanishedOwner() throws Exception {
        InterProcessMutex mine = new InterProcessMutex(client, root + "/vanished");
        try (Proxy proxy = new Proxy(address)) {
            CuratorFramework other = org.apache.curator.framework.CuratorFrameworkFactory.newClient(
                proxy.address(), 4_000, 15_000, new org.apache.curator.retry.RetryOneTime(100));
            other.start();
            new InterProcessMutex(other, root + "/vanished").acquire();
            proxy.cut();
            Suite.that(mine.acquire(60, TimeUnit.SECONDS), "not acquired after the owner's session expired");
            mine.release();
            proxy.restore();
            other.close();
        }
    }

    private void readWrite() throws Exception {
        try (CuratorFramework other = Curator.connect(address)) {
            InterProcessReadWriteLock mine = new InterProcessReadWriteLock(client, root + "/read-write");
            InterProcessReadWriteLock theirs = new InterProcessReadWriteLock(other, root + "/read-write");
            mine.readLock().acquire();
            Suite.that(theirs.readLock().acquire(30, TimeUnit.SECONDS), "two readers");
            Suite.that(!theirs.writeLock().acquire(300, TimeUnit.MILLISECONDS), "a writer beside a reader");
            theirs.readLock().release();
            mine.readLock().release();
            Suite.that(theirs.writeLock().acquire(30, TimeUnit.SECONDS), "a writer alone");
            Suite.that(!mine.readLock().acquire(300, TimeUnit.MILLISECONDS), "a reader beside a writer");
            Suite.that(theirs.readLock().acquire(30, TimeUnit.SECONDS), "the writer reads");
            theirs.writeLock().release();
            Suite.that(mine.readLock().acquire(30, TimeUnit.SECONDS), "a reader beside the former writer");
            mine.readLock().release();
            theirs.readLock().release();
        }
    }

    private void semaphore() throws Exception {
        try (CuratorFramework other = Curator.connect(address)) {
            InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(client, root + "/semaphore", 3);
            InterProcessSemaphoreV2 theirs = new InterProcessSemaphoreV2(other, root + "/semaphore", 3);
            Collection<Lease> two = mine.acquire(2, 30, TimeUnit.SECONDS);
            Suite.equal(2, two.size(), "leases");
            Lease third = theirs.acquire(30, TimeUnit.SECONDS);
            Suite.that(third != null, "third lease");
            Suite.equal(null, theirs.acquire(300, TimeUnit.MILLISECONDS), "fourth lease");
            Suite.equal(3, mine.getParticipantNodes().size(), "participants");
            mine.returnAll(two);
            Collection<Lease> again = theirs.acquire(2, 30, TimeUnit.SECONDS);
            Suite.equal(2, again.size(), "leases after the return");
            theirs.returnAll(again);
            theirs.returnLease(third);
        }
    }

    private void semaphoreWithCount() throws Exception {
        try (SharedCount count = new SharedCount(client, root + "/semaphore-count", 1)) {
            count.start();
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, root + "/semaphore-shared", count);
            Lease first = semaphore.acquire(30, TimeUnit.SECONDS);
            Suite.equal(null, semaphore.acquire(300, TimeUnit.MILLISECONDS), "second lease");
            count.setCount(2);
            Lease second = semaphore.acquire(30, TimeUnit.SECONDS);
            Suite.that(second != null, "second lease after the count grew");
            semaphore.returnLease(first);
            semaphore.returnLease(second);
        }
    }

    private void multiLock() throws Exception {
        try (CuratorFramework other = Curator.connect(address)) {
            InterProcessMultiLock both = new InterProcessMultiLock(client, List.of(root + "/multi-a", root + "/multi-b"));
            InterProcessMutex one = new InterProcessMutex(other, root + "/multi-b");
            one.acquire();
            Suite.that(!both.acquire(500, TimeUnit.MILLISECONDS), "acquired although a part is held");
            one.release();
            Suite.that(both.acquire(30, TimeUnit.SECONDS), "not acquired");
            Suite.that(!one.acquire(300, TimeUnit.MILLISECONDS), "a part acquired twice");
            both.release();
            Suite.that(one.acquire(30, TimeUnit.SECONDS), "not released");
            one.release();
        }
    }
}
