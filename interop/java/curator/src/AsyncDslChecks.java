import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.x.async.AsyncCuratorFramework;
import org.apache.curator.x.async.AsyncStage;
import org.apache.curator.x.async.WatchMode;
import org.apache.curator.x.async.api.CreateOption;
import org.apache.curator.x.async.api.DeleteOption;
import org.apache.curator.x.async.modeled.JacksonModelSerializer;
import org.apache.curator.x.async.modeled.ModelSpec;
import org.apache.curator.x.async.modeled.ModeledFramework;
import org.apache.curator.x.async.modeled.ZPath;
import org.apache.curator.x.async.modeled.cached.CachedModeledFramework;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;

/** Curator's asynchronous interface and its typed models. */
final class AsyncDslChecks {
    private final Suite suite;
    private final CuratorFramework client;
    private final AsyncCuratorFramework async;
    private final String root;

    AsyncDslChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.client = client;
        this.async = AsyncCuratorFramework.wrap(client);
        this.root = root + "/async";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("async DSL: create, get, set, delete", this::basics);
        suite.check("async DSL: watches", this::watches);
        suite.check("async DSL: transactions", this::transactions);
        suite.check("async DSL: failures", this::failures);
        suite.check("async DSL: persistent watches", this::persistentWatch);
        suite.check("async DSL: models", this::models);
        suite.check("async DSL: cached models", this::cachedModels);
    }

    private static <T> T value(CompletionStage<T> stage) throws Exception {
        return stage.toCompletableFuture().get(Suite.PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
    }

    private void basics() throws Exception {
        String path = root + "/a/b";
        Suite.equal(path, value(async.create()
            .withOptions(EnumSet.of(CreateOption.createParentsIfNeeded)).forPath(path, Curator.bytes("1"))), "path");
        Suite.equal("1", Curator.text(value(async.getData().forPath(path))), "data");
        Suite.equal(1, value(async.setData().forPath(path, Curator.bytes("2"))).getVersion(), "version");
        Suite.equal(List.of("b"), value(async.getChildren().forPath(root + "/a")), "children");
        Suite.that(value(async.checkExists().forPath(path)) != null, "no Stat");
        String made = value(async.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(root + "/n-"));
        Suite.that(made.matches(".*/n-\\d{10}"), made);
        value(async.sync().forPath(path));
        value(async.delete().withOptions(EnumSet.of(DeleteOption.guaranteed)).forPath(path));
        Suite.equal(null, value(async.checkExists().forPath(path)), "Stat after delete");
    }

    private void watches() throws Exception {
        String path = root + "/watched";
        client.create().forPath(path);
        AsyncStage<byte[]> stage = async.with(WatchMode.successOnly).watched().getData().forPath(path);
        value(stage);
        client.setData().forPath(path, Curator.bytes("x"));
        WatchedEvent event = value(stage.event());
        Suite.equal(org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged, event.getType(), "type");
    }

    private void transactions() throws Exception {
        List<CuratorTransactionResult> results = value(async.transaction().forOperations(List.of(
            async.transactionOp().create().forPath(root + "/t"),
            async.transactionOp().setData().forPath(root + "/t", Curator.bytes("x")),
            async.transactionOp().check().withVersion(1).forPath(root + "/t"),
            async.transactionOp().delete().forPath(root + "/t"))));
        Suite.equal(4, results.size(), "results");
    }

    private void failures() throws Exception {
        try {
            value(async.getData().forPath(root + "/nothing"));
        } catch (ExecutionException failure) {
            Suite.that(failure.getCause() instanceof KeeperException.NoNodeException, "cause: " + failure.getCause());
            return;
        }
        throw new AssertionError("it succeeded");
    }

    private void persistentWatch() throws Exception {
        String path = root + "/persistent";
        client.create().forPath(path);
        AtomicInteger events = new AtomicInteger();
        org.apache.zookeeper.Watcher watcher = event -> events.incrementAndGet();
        value(async.addWatch().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher).forPath(path));
        client.create().forPath(path + "/c");
        client.setData().forPath(path + "/c", Curator.bytes("x"));
        Suite.eventually("two events", () -> events.get() == 2);
        value(async.removeWatches().removing(watcher).forPath(path));
    }

    /** A model; its fields are what Jackson sees. */
    public static final class Person {
        public String name;
        public int age;

        public Person() {}

        Person(String name, int age) {
            this.name = name;
            this.age = age;
        }
    }

    private ModelSpec<Person> spec(String path) {
        return ModelSpec.builder(ZPath.parse(path), JacksonModelSerializer.build(Person.class)).build();
    }

    private void models() throws Exception {
        ModeledFramework<Person> people = ModeledFramework.wrap(async, spec(root + "/people"));
        value(people.child("ann").set(new Person("Ann", 30)));
        Suite.equal(30, value(people.child("ann").read()).age, "age");
        value(people.child("ann").update(new Person("Ann", 31)));
        Suite.equal(31, value(people.child("ann").read()).age, "age after update");
        Suite.equal(1, value(people.childrenAsZNodes()).size(), "children");
        value(people.child("ann").delete());
    }

    private void cachedModels() throws Exception {
        CachedModeledFramework<Person> people = ModeledFramework.wrap(async, spec(root + "/cached")).cached();
        people.start();
        try {
            ModeledFramework<Person> direct = ModeledFramework.wrap(async, spec(root + "/cached"));
            value(direct.child("bob").set(new Person("Bob", 40)));
            Suite.eventually("the cache has it", () -> people.cache().currentData(ZPath.parse(root + "/cached/bob")).isPresent());
            Suite.equal(40, value(people.child("bob").readThrough()).age, "age");
        } finally {
            people.close();
        }
    }
}
