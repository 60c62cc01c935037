import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Counters and shared values: nothing is lost, nothing counted twice. */
final class CounterChecks {
    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    CounterChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/counters";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("SharedCount", this::sharedCount);
        suite.check("SharedValue", this::sharedValue);
        suite.check("DistributedAtomicLong", this::atomicLong);
        suite.check("DistributedAtomicLong under contention", this::contention);
        suite.check("DistributedAtomicInteger, DistributedAtomicValue, CachedAtomicLong", this::others);
    }

    private void sharedCount() throws Exception {
        try (CuratorFramework other = Curator.connect(address);
            SharedCount mine = new SharedCount(client, root + "/shared", 10);
            SharedCount theirs = new SharedCount(other, root + "/shared", 10)) {
            AtomicInteger told = new AtomicInteger();
            theirs.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int value) {
                    told.set(value);
                }

                @Override
                public void stateChanged(CuratorFramework framework, ConnectionState state) {}
            });
            mine.start();
            theirs.start();
            Suite.equal(10, mine.getCount(), "seed");
            mine.setCount(11);
            Suite.eventually("the other sees it", () -> theirs.getCount() == 11);
            Suite.eventually("the listener is told", () -> told.get() == 11);
            Suite.that(theirs.trySetCount(theirs.getVersionedValue(), 12), "trySetCount with the present version");
            Suite.eventually("back", () -> mine.getCount() == 12);
        }
    }

    private void sharedValue() throws Exception {
        try (SharedValue one = new SharedValue(client, root + "/value", Curator.bytes("seed"));
            SharedValue two = new SharedValue(client, root + "/value", Curator.bytes("seed"))) {
            one.start();
            two.start();
            var old = two.getVersionedValue();
            one.setValue(Curator.bytes("new"));
            Suite.that(!two.trySetValue(old, Curator.bytes("stale")), "a stale version was accepted");
            Suite.eventually("value", () -> "new".equals(Curator.text(two.getValue())));
        }
    }

    private void atomicLong() throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(client, root + "/long", new RetryNTimes(10, 10));
        Suite.that(number.initialize(5L), "initialize");
        Suite.that(!number.initialize(6L), "a second initialize");
        Suite.equal(6L, number.increment().postValue(), "increment");
        Suite.equal(16L, number.add(10L).postValue(), "add");
        Suite.equal(15L, number.decrement().postValue(), "decrement");
        Suite.equal(12L, number.subtract(3L).postValue(), "subtract");
        Suite.that(!number.compareAndSet(1L, 2L).succeeded(), "compareAndSet with a wrong value");
        Suite.that(number.compareAndSet(12L, 20L).succeeded(), "compareAndSet");
        Suite.that(number.trySet(30L).succeeded(), "trySet");
        number.forceSet(40L);
        Suite.equal(40L, number.get().postValue(), "get");
    }

    private void contention() throws Exception {
        int clients = 4;
        int rounds = 10;
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        List<Future<Void>> ends = new ArrayList<>();
        for (int index = 0; index < clients; index++) {
            ends.add(threads.submit(() -> {
                try (CuratorFramework own = Curator.connect(address)) {
                    PromotedToLock lock = PromotedToLock.builder().lockPath(root + "/busy-lock")
                        .timeout(60, TimeUnit.SECONDS).retryPolicy(new RetryNTimes(100, 10)).build();
                    DistributedAtomicLong number =
                        new DistributedAtomicLong(own, root + "/busy", new RetryNTimes(3, 5), lock);
                    for (int round = 0; round < rounds; round++) {
                        AtomicValue<Long> value = number.increment();
                        Suite.that(value.succeeded(), "an increment failed");
                    }
                }
                return null;
            }));
        }
        try {
            for (Future<Void> end : ends) {
                end.get(150, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
        DistributedAtomicLong number = new DistributedAtomicLong(client, root + "/busy", new RetryNTimes(1, 1));
        Suite.equal((long) clients * rounds, number.get().postValue(), "sum");
    }

    private void others() throws Exception {
        DistributedAtomicInteger integer = new DistributedAtomicInteger(client, root + "/integer", new RetryNTimes(5, 10));
        Suite.equal(1, integer.increment().postValue(), "integer");
        DistributedAtomicValue value = new DistributedAtomicValue(client, root + "/raw", new RetryNTimes(5, 10));
        Suite.that(value.initialize(Curator.bytes("a")), "initialize");
        Suite.that(value.compareAndSet(Curator.bytes("a"), Curator.bytes("b")).succeeded(), "compareAndSet");
        DistributedAtomicLong base = new DistributedAtomicLong(client, root + "/cached", new RetryNTimes(5, 10));
        CachedAtomicLong cached = new CachedAtomicLong(base, 5);
        long last = 0;
        for (int round = 0; round < 12; round++) {
            last = cached.next().postValue();
        }
        Suite.that(base.get().postValue() >= 10, "the counter behind the cache: " + base.get().postValue() + ", last " + last);
    }
}
