import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;

/** Elections, barriers, queues, counters and discovery. */
final class OtherVerbs {
    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return CuratorPeer.bytes(item);
        }

        @Override
        public String deserialize(byte[] data) {
            return CuratorPeer.text(data);
        }
    };

    private final CuratorFramework client;
    private final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();
    private final Map<String, ServiceDiscovery<String>> discoveries = new ConcurrentHashMap<>();

    OtherVerbs(CuratorFramework client) {
        this.client = client;
    }

    String carryOut(String verb, List<String> words, Map<String, CuratorPeer.Held> held) throws Exception {
        return switch (verb) {
            case "latch", "lead", "leads", "participants" -> election(verb, words, held);
            case "enter", "raise", "lower", "wait" -> barrier(verb, words, held);
            case "push", "pop", "lease" -> queue(verb, words);
            case "add", "get", "count", "set-count" -> counter(verb, words);
            case "register", "instances", "pick" -> discovery(verb, words, held);
            default -> throw new IllegalArgumentException("no such verb: " + verb);
        };
    }

    private String election(String verb, List<String> words, Map<String, CuratorPeer.Held> held) throws Exception {
        String handle = words.get(0);
        switch (verb) {
            case "latch" -> {
                LeaderLatch latch = new LeaderLatch(client, words.get(1), words.get(2));
                latches.put(handle, latch);
                held.put(handle, latch::close);
                latch.start();
                return "";
            }
            case "lead" -> {
                latches.get(handle).await();
                return "";
            }
            case "leads" -> {
                return latches.get(handle).hasLeadership() ? "yes" : "no";
            }
            default -> {
                Collection<Participant> participants = latches.get(handle).getParticipants();
                return CuratorPeer.joined(participants.stream().map(Participant::getId).collect(Collectors.toList()));
            }
        }
    }

    private String barrier(String verb, List<String> words, Map<String, CuratorPeer.Held> held) throws Exception {
        switch (verb) {
            case "enter" -> {
                DistributedDoubleBarrier barrier =
                    new DistributedDoubleBarrier(client, words.get(1), Integer.parseInt(words.get(2)));
                barrier.enter();
                held.put(words.get(0), barrier::leave);
            }
            case "raise" -> new DistributedBarrier(client, words.get(0)).setBarrier();
            case "lower" -> new DistributedBarrier(client, words.get(0)).removeBarrier();
            default -> new DistributedBarrier(client, words.get(0)).waitOnBarrier();
        }
        return "";
    }

    private String queue(String verb, List<String> words) throws Exception {
        String path = words.get(1);
        if (words.get(0).equals("simple")) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
            if (verb.equals("push")) {
                queue.offer(CuratorPeer.bytes(words.get(2)));
                return "";
            }
            return CuratorPeer.text(queue.take());
        }
        boolean byPriority = words.get(0).equals("priority");
        if (verb.equals("push")) {
            push(path, words, byPriority);
            return "";
        }
        return popOne(path, byPriority);
    }

    private void push(String path, List<String> words, boolean byPriority) throws Exception {
        if (byPriority) {
            try (DistributedPriorityQueue<String> queue = QueueBuilder.builder(client, null, TEXT, path).buildPriorityQueue(0)) {
                queue.start();
                queue.put(words.get(2), Integer.parseInt(words.get(3)));
                queue.flushPuts(30, TimeUnit.SECONDS);
            }
            return;
        }
        try (DistributedQueue<String> queue = QueueBuilder.builder(client, null, TEXT, path).buildQueue()) {
            queue.start();
            queue.put(words.get(2));
            queue.flushPuts(30, TimeUnit.SECONDS);
        }
    }

    /** A consumer that takes one item and lets the rest stay: with a lock path an item that throws comes back. */
    private String popOne(String path, boolean byPriority) throws Exception {
        Semaphore wanted = new Semaphore(1);
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) throws Exception {
                if (!wanted.tryAcquire()) {
                    throw new IllegalStateException("one is enough");
                }
                taken.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework changed, ConnectionState state) {}
        };
        QueueBuilder<String> builder =
            QueueBuilder.builder(client, consumer, TEXT, path).lockPath(path + "-locks").executor(Runnable::run);
        if (byPriority) {
            try (DistributedPriorityQueue<String> queue = builder.buildPriorityQueue(0)) {
                queue.start();
                return taken.take();
            }
        }
        try (DistributedQueue<String> queue = builder.buildQueue()) {
            queue.start();
            return taken.take();
        }
    }

    private String counter(String verb, List<String> words) throws Exception {
        String path = words.get(0);
        switch (verb) {
            case "add" -> {
                DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(200, 2));
                for (int round = 0; round < Integer.parseInt(words.get(1)); round++) {
                    if (!counter.increment().succeeded()) {
                        throw new AssertionError("others were faster every time");
                    }
                }
                return "";
            }
            case "get" -> {
                return String.valueOf(new DistributedAtomicLong(client, path, new RetryNTimes(1, 1)).get().postValue());
            }
            default -> {
                try (SharedCount count = new SharedCount(client, path, 0)) {
                    count.start();
                    if (verb.equals("set-count")) {
                        count.setCount(Integer.parseInt(words.get(1)));
                        return "";
                    }
                    return String.valueOf(count.getCount());
                }
            }
        }
    }

    private ServiceDiscovery<String> discoveryAt(String base) throws Exception {
        ServiceDiscovery<String> known = discoveries.get(base);
        if (known == null) {
            known = ServiceDiscoveryBuilder.builder(String.class).client(client).basePath(base).build();
            known.start();
            discoveries.put(base, known);
        }
        return known;
    }

    private synchronized String discovery(String verb, List<String> words, Map<String, CuratorPeer.Held> held)
        throws Exception {
        switch (verb) {
            case "register" -> {
                ServiceDiscovery<String> discovery = discoveryAt(words.get(1));
                ServiceInstance<String> instance = ServiceInstance.<String>builder().name(words.get(2)).id(words.get(3))
                    .address("127.0.0.1").port(Integer.parseInt(words.get(4))).payload(words.get(5)).build();
                discovery.registerService(instance);
                held.put(words.get(0), () -> discovery.unregisterService(instance));
                return "";
            }
            case "instances" -> {
                Collection<ServiceInstance<String>> found = discoveryAt(words.get(0)).queryForInstances(words.get(1));
                return CuratorPeer.joined(found.stream()
                    .map(one -> one.getId() + ":" + one.getPort() + ":" + one.getPayload()).sorted()
                    .collect(Collectors.toList()));
            }
            default -> {
                try (ServiceProvider<String> provider = discoveryAt(words.get(0)).serviceProviderBuilder()
                    .serviceName(words.get(1)).providerStrategy(new RoundRobinStrategy<>()).build()) {
                    provider.start();
                    List<String> ids = new ArrayList<>();
                    for (int round = 0; round < Integer.parseInt(words.get(2)); round++) {
                        ids.add(provider.getInstance().getId());
                    }
                    ids.sort(null);
                    return CuratorPeer.joined(ids);
                }
            }
        }
    }
}
