import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.AddWatchMode;

/** Caches end up equal to the tree, whatever happened on the way. */
@SuppressWarnings("deprecation")
final class CacheChecks {
    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    CacheChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/caches";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("CuratorCache", this::curatorCache);
        suite.check("CuratorCache of one node", this::singleNodeCache);
        suite.check("CuratorCache across a reconnect", this::cacheAcrossReconnect);
        suite.check("PathChildrenCache", this::pathChildrenCache);
        suite.check("NodeCache", this::nodeCache);
        suite.check("TreeCache", this::treeCache);
        suite.check("TreeCache across a lost session", this::treeCacheAcrossExpiry);
        suite.check("PersistentWatcher", this::persistentWatcher);
    }

    private void change(String path) throws Exception {
        client.create().orSetData().creatingParentsIfNeeded().forPath(path + "/a", Curator.bytes("a"));
        client.create().orSetData().creatingParentsIfNeeded().forPath(path + "/b/c", Curator.bytes("c"));
        client.create().forPath(path + "/gone");
        client.setData().forPath(path + "/a", Curator.bytes("aa"));
        client.delete().forPath(path + "/gone");
    }

    private void curatorCache() throws Exception {
        String path = root + "/curator-cache";
        client.create().forPath(path);
        client.create().forPath(path + "/before", Curator.bytes("x"));
        AtomicInteger created = new AtomicInteger();
        AtomicInteger changed = new AtomicInteger();
        AtomicInteger deleted = new AtomicInteger();
        CountDownLatch ready = new CountDownLatch(1);
        try (CuratorCache cache = CuratorCache.build(client, path)) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(node -> created.incrementAndGet())
                .forChanges((before, after) -> changed.incrementAndGet())
                .forDeletes(node -> deleted.incrementAndGet())
                .forInitialized(ready::countDown).build());
            cache.start();
            Suite.that(ready.await(30, TimeUnit.SECONDS), "not initialized");
            change(path);
            Suite.eventually("the cache shows the tree", () -> "{/=, /a=aa, /b=, /b/c=c, /before=x}".equals(show(cache, path)));
            // A node that goes before the cache has read it is told neither as new nor as gone.
            Suite.eventually("what is told adds up", () -> created.get() - deleted.get() == 5);
            // Likewise a change before that reading; a change of what the cache shows is always told.
            int before = changed.get();
            client.setData().forPath(path + "/a", Curator.bytes("aaa"));
            Suite.eventually("a change is told", () -> changed.get() > before);
        }
    }

    private static String show(CuratorCache cache, String path) {
        Map<String, String> nodes = new TreeMap<>();
        cache.stream().forEach(node -> nodes.put(relative(node, path), content(node)));
        return nodes.toString();
    }

    private static String relative(ChildData node, String path) {
        String name = node.getPath().substring(path.length());
        return name.isEmpty() ? "/" : name;
    }

    /** Curator writes its own address where nobody gave data. */
    private static String content(ChildData node) {
        String text = Curator.text(node.getData());
        return text == null || text.matches("[0-9.:]*|.*localhost.*") ? "" : text;
    }

    private void singleNodeCache() throws Exception {
        String path = root + "/single";
        try (CuratorCache cache = CuratorCache.build(client, path, CuratorCache.Options.SINGLE_NODE_CACHE)) {
            cache.start();
            client.create().forPath(path, Curator.bytes("1"));
            Suite.eventually("creation", () -> cache.get(path).map(node -> Curator.text(node.getData())).orElse("").equals("1"));
            client.setData().forPath(path, Curator.bytes("2"));
            Suite.eventually("change", () -> cache.get(path).map(node -> Curator.text(node.getData())).orElse("").equals("2"));
            client.delete().forPath(path);
            Suite.eventually("deletion", () -> cache.get(path).isEmpty());
        }
    }

    private void cacheAcrossReconnect() throws Exception {
        String path = root + "/reconnect";
        client.create().forPath(path);
        try (Proxy proxy = new Proxy(address);
            CuratorFramework away = Curator.connect(proxy.address());
            CuratorCache cache = CuratorCache.build(away, path)) {
            cache.start();
            client.create().forPath(path + "/x", Curator.bytes("x"));
            Suite.eventually("first state", () -> "{/=, /x=x}".equals(show(cache, path)));
            proxy.cut();
            change(path);
            client.delete().forPath(path + "/x");
            proxy.restore();
            Suite.eventually("state after the reconnect", () -> "{/=, /a=aa, /b=, /b/c=c}".equals(show(cache, path)));
            client.setData().forPath(path + "/a", Curator.bytes("later"));
            Suite.eventually("later change", () -> "{/=, /a=later, /b=, /b/c=c}".equals(show(cache, path)));
        }
    }

    private void pathChildrenCache() throws Exception {
        String path = root + "/children";
        client.create().forPath(path);
        client.create().forPath(path + "/before", Curator.bytes("x"));
        try (PathChildrenCache cache = new PathChildrenCache(client, path, true)) {
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            Suite.equal(1, cache.getCurrentData().size(), "children at the start");
            change(path);
            client.delete().forPath(path + "/before");
            Suite.eventually("two children", () -> cache.getCurrentData().size() == 2);
            Suite.eventually("data", () -> "aa".equals(Curator.text(cache.getCurrentData(path + "/a").getData())));
            cache.rebuild();
            Suite.equal(2, cache.getCurrentData().size(), "children after a rebuild");
        }
    }

    private void nodeCache() throws Exception {
        String path = root + "/node";
        try (NodeCache cache = new NodeCache(client, path)) {
            AtomicInteger changes = new AtomicInteger();
            cache.getListenable().addListener(changes::incrementAndGet);
            cache.start(true);
            Suite.equal(null, cache.getCurrentData(), "data before the creation");
            client.create().forPath(path, Curator.bytes("1"));
            Suite.eventually("creation", () -> cache.getCurrentData() != null);
            client.setData().forPath(path, Curator.bytes("2"));
            Suite.eventually("change", () -> "2".equals(Curator.text(cache.getCurrentData().getData())));
            client.delete().forPath(path);
            Suite.eventually("deletion", () -> cache.getCurrentData() == null);
            Suite.eventually("three changes are told", () -> changes.get() >= 3);
        }
    }

    private void treeCache() throws Exception {
        String path = root + "/tree";
        client.create().forPath(path);
        CountDownLatch ready = new CountDownLatch(1);
        try (TreeCache cache = TreeCache.newBuilder(client, path).setCacheData(true).build()) {
            cache.getListenable().addListener((framework, event) -> {
                if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                    ready.countDown();
                }
            });
            cache.start();
            Suite.that(ready.await(30, TimeUnit.SECONDS), "not initialized");
            change(path);
            Suite.eventually("children", () -> cache.getCurrentChildren(path).keySet().equals(java.util.Set.of("a", "b")));
            Suite.eventually("grandchild", () -> cache.getCurrentData(path + "/b/c") != null);
            Suite.eventually("data", () -> "aa".equals(Curator.text(cache.getCurrentData(path + "/a").getData())));
        }
    }

    private void treeCacheAcrossExpiry() throws Exception {
        String path = root + "/tree-expiry";
        client.create().forPath(path);
        try (Proxy proxy = new Proxy(address);
            CuratorFramework away = CuratorFrameworkFactory.newClient(proxy.address(), 4_000, 15_000, new RetryOneTime(100));
            TreeCache cache = TreeCache.newBuilder(away, path).build()) {
            away.start();
            cache.start();
            PersistentNode mark = new PersistentNode(away, org.apache.zookeeper.CreateMode.EPHEMERAL, false, root + "/mark", new byte[0]);
            mark.start();
            Suite.that(mark.waitForInitialCreate(30, TimeUnit.SECONDS), "no mark");
            client.create().forPath(path + "/x");
            Suite.eventually("first state", () -> cache.getCurrentData(path + "/x") != null);
            proxy.cut();
            Suite.eventually("expiry", () -> client.checkExists().forPath(root + "/mark") == null);
            client.delete().forPath(path + "/x");
            client.create().forPath(path + "/y");
            proxy.restore();
            Suite.eventually("state after the expiry",
                () -> cache.getCurrentData(path + "/y") != null && cache.getCurrentData(path + "/x") == null);
            mark.close();
        }
    }

    private void persistentWatcher() throws Exception {
        String path = root + "/watcher";
        client.create().forPath(path);
        for (AddWatchMode mode : AddWatchMode.values()) {
            AtomicInteger events = new AtomicInteger();
            CountDownLatch set = new CountDownLatch(1);
            try (PersistentWatcher watcher = new PersistentWatcher(client, path, mode == AddWatchMode.PERSISTENT_RECURSIVE)) {
                watcher.getListenable().addListener(event -> events.incrementAndGet());
                watcher.getResetListenable().addListener(set::countDown);
                watcher.start();
                Suite.that(set.await(30, TimeUnit.SECONDS), "the watch was not set");
                for (int round = 0; round < 5; round++) {
                    client.setData().forPath(path, Curator.bytes("x"));
                }
                Suite.eventually("five events", () -> events.get() == 5);
            }
        }
    }
}
