import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Queues and barriers. */
@SuppressWarnings("deprecation")
final class QueueChecks {
    private static final int ITEMS = 50;

    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    QueueChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/queues";
    }

    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return Curator.bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return Curator.text(bytes);
        }
    };

    /** Keeps what it gets, in order. */
    private static final class Keeper implements QueueConsumer<String> {
        final BlockingQueue<String> items = new LinkedBlockingQueue<>();

        @Override
        public void consumeMessage(String message) {
            items.add(message);
        }

        @Override
        public void stateChanged(CuratorFramework framework, ConnectionState state) {}
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("DistributedQueue keeps order", this::queue);
        suite.check("DistributedQueue with two safe consumers", this::twoConsumers);
        suite.check("DistributedIdQueue", this::idQueue);
        suite.check("DistributedPriorityQueue", this::priorityQueue);
        suite.check("DistributedDelayQueue", this::delayQueue);
        suite.check("SimpleDistributedQueue", this::simpleQueue);
        suite.check("DistributedBarrier", this::barrier);
        suite.check("DistributedDoubleBarrier", this::doubleBarrier);
    }

    private void queue() throws Exception {
        Keeper keeper = new Keeper();
        List<String> expected = new ArrayList<>();
        try (DistributedQueue<String> queue = QueueBuilder.builder(client, keeper, TEXT, root + "/queue").buildQueue()) {
            queue.start();
            for (int number = 0; number < ITEMS; number++) {
                expected.add("item-" + number);
                queue.put("item-" + number);
            }
            Suite.eventually("all items", () -> keeper.items.size() == ITEMS);
        }
        Suite.equal(expected, new ArrayList<>(keeper.items), "items");
    }

    private void twoConsumers() throws Exception {
        Keeper one = new Keeper();
        Keeper two = new Keeper();
        try (CuratorFramework other = Curator.connect(address);
            DistributedQueue<String> first = QueueBuilder.builder(client, one, TEXT, root + "/two").lockPath(root + "/two-locks").buildQueue();
            DistributedQueue<String> second = QueueBuilder.builder(other, two, TEXT, root + "/two").lockPath(root + "/two-locks").buildQueue()) {
            first.start();
            second.start();
            List<String> expected = new ArrayList<>();
            for (int number = 100; number < 100 + ITEMS; number++) {
                expected.add("item-" + number);
                first.put("item-" + number);
            }
            Suite.eventually("all items", () -> one.items.size() + two.items.size() >= ITEMS);
            List<String> all = new ArrayList<>(one.items);
            all.addAll(two.items);
            Collections.sort(all);
            Suite.equal(expected, all, "items: each once");
        }
    }

    private void idQueue() throws Exception {
        Keeper keeper = new Keeper();
        try (DistributedIdQueue<String> producer = QueueBuilder.builder(client, null, TEXT, root + "/ids").buildIdQueue()) {
            producer.start();
            producer.put("kept", "1");
            producer.put("taken back", "2");
            Suite.equal(1, producer.remove("2"), "removed items");
        }
        try (DistributedIdQueue<String> consumer = QueueBuilder.builder(client, keeper, TEXT, root + "/ids").buildIdQueue()) {
            consumer.start();
            Suite.equal("kept", keeper.items.poll(30, TimeUnit.SECONDS), "item");
            Suite.equal(0, keeper.items.size(), "further items");
        }
    }

    private void priorityQueue() throws Exception {
        Keeper keeper = new Keeper();
        try (DistributedPriorityQueue<String> producer =
            QueueBuilder.builder(client, null, TEXT, root + "/priority").buildPriorityQueue(0)) {
            producer.start();
            producer.put("late", 30);
            producer.put("middle", 20);
            producer.put("early", 10);
            producer.put("earliest", -5);
        }
        try (DistributedPriorityQueue<String> consumer =
            QueueBuilder.builder(client, keeper, TEXT, root + "/priority").buildPriorityQueue(0)) {
            consumer.start();
            Suite.eventually("all items", () -> keeper.items.size() == 4);
        }
        Suite.equal(List.of("earliest", "early", "middle", "late"), new ArrayList<>(keeper.items), "items");
    }

    private void delayQueue() throws Exception {
        Keeper keeper = new Keeper();
        try (DistributedDelayQueue<String> queue = QueueBuilder.builder(client, keeper, TEXT, root + "/delay").buildDelayQueue()) {
            queue.start();
            long start = System.currentTimeMillis();
            queue.put("second", start + 2_000);
            queue.put("first", start + 500);
            Suite.equal("first", keeper.items.poll(30, TimeUnit.SECONDS), "item");
            Suite.equal("second", keeper.items.poll(30, TimeUnit.SECONDS), "item");
            Suite.that(System.currentTimeMillis() >= start + 2_000, "it came too early");
        }
    }

    private void simpleQueue() throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, root + "/simple");
        Suite.equal(null, queue.peek(), "peek of an empty queue");
        Suite.equal(null, queue.poll(200, TimeUnit.MILLISECONDS), "poll of an empty queue");
        queue.offer(Curator.bytes("a"));
        queue.offer(Curator.bytes("b"));
        Suite.equal("a", Curator.text(queue.peek()), "peek");
        Suite.equal("a", Curator.text(queue.take()), "take");
        Suite.equal("b", Curator.text(queue.poll()), "poll");
        Future<byte[]> waiting = Executors.newSingleThreadExecutor().submit(queue::take);
        queue.offer(Curator.bytes("c"));
        Suite.equal("c", Curator.text(waiting.get(30, TimeUnit.SECONDS)), "take that waited");
    }

    private void barrier() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(client, root + "/barrier");
        barrier.setBarrier();
        ExecutorService threads = Executors.newFixedThreadPool(3);
        AtomicInteger through = new AtomicInteger();
        try (CuratorFramework other = Curator.connect(address)) {
            List<Future<Void>> ends = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                ends.add(threads.submit(() -> {
                    Suite.that(new DistributedBarrier(other, root + "/barrier").waitOnBarrier(60, TimeUnit.SECONDS), "not removed");
                    through.incrementAndGet();
                    return null;
                }));
            }
            Suite.that(!new DistributedBarrier(other, root + "/barrier").waitOnBarrier(300, TimeUnit.MILLISECONDS), "it does not hold");
            Suite.equal(0, through.get(), "threads through");
            barrier.removeBarrier();
            for (Future<Void> end : ends) {
                end.get(60, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private void doubleBarrier() throws Exception {
        int members = 4;
        AtomicInteger inside = new AtomicInteger();
        ExecutorService threads = Executors.newFixedThreadPool(members);
        CyclicBarrier together = new CyclicBarrier(members);
        List<Future<Void>> ends = new ArrayList<>();
        for (int number = 0; number < members; number++) {
            ends.add(threads.submit(() -> {
                try (CuratorFramework own = Curator.connect(address)) {
                    DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(own, root + "/double", members);
                    Suite.that(barrier.enter(60, TimeUnit.SECONDS), "not entered");
                    inside.incrementAndGet();
                    together.await(60, TimeUnit.SECONDS);
                    Suite.equal(members, inside.get(), "members inside");
                    Suite.that(barrier.leave(60, TimeUnit.SECONDS), "not left");
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
    }
}
