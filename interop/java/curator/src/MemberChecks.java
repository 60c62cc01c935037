import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/** Nodes that stay, groups and service discovery. */
final class MemberChecks {
    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    MemberChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/members";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("PersistentNode comes back", this::persistentNode);
        suite.check("PersistentNode across an expired session", this::persistentNodeAcrossExpiry);
        suite.check("PersistentTtlNode", this::persistentTtlNode);
        suite.check("GroupMember", this::groupMember);
        suite.check("service discovery", this::discovery);
        suite.check("service discovery with a cache and a provider", this::serviceCache);
    }

    private void persistentNode() throws Exception {
        String path = root + "/persistent";
        try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, Curator.bytes("1"))) {
            node.start();
            Suite.that(node.waitForInitialCreate(30, TimeUnit.SECONDS), "not created");
            client.delete().forPath(path);
            Suite.eventually("it is created again", () -> client.checkExists().forPath(path) != null);
            node.setData(Curator.bytes("2"));
            Suite.eventually("its data", () -> "2".equals(Curator.text(client.getData().forPath(path))));
        }
        Suite.eventually("close removes it", () -> client.checkExists().forPath(path) == null);
    }

    private void persistentNodeAcrossExpiry() throws Exception {
        String path = root + "/expired";
        try (Proxy proxy = new Proxy(address);
            CuratorFramework away = CuratorFrameworkFactory.newClient(proxy.address(), 4_000, 15_000, new RetryOneTime(100))) {
            away.start();
            PersistentNode node = new PersistentNode(away, CreateMode.EPHEMERAL, true, path, Curator.bytes("1"));
            node.start();
            Suite.that(node.waitForInitialCreate(30, TimeUnit.SECONDS), "not created");
            String actual = node.getActualPath();
            proxy.cut();
            Suite.eventually("expiry", () -> client.checkExists().forPath(actual) == null);
            proxy.restore();
            Suite.eventually("it is created again",
                () -> client.getChildren().forPath(root).stream().anyMatch(name -> name.endsWith("-expired")));
            node.close();
        }
    }

    private void persistentTtlNode() throws Exception {
        String path = root + "/ttl";
        try {
            client.create().withTtl(1_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(path + "-probe");
        } catch (KeeperException.UnimplementedException off) {
            throw new Suite.Skipped("the server has extendedTypesEnabled=false");
        }
        try (PersistentTtlNode node = new PersistentTtlNode(client, path, 3_000, Curator.bytes("x"))) {
            node.start();
            Suite.that(node.waitForInitialCreate(30, TimeUnit.SECONDS), "not created");
            Suite.eventually("its child is touched", () -> {
                var stat = client.checkExists().forPath(path + "/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME);
                return stat != null && stat.getVersion() > 0;
            });
            Suite.equal("x", Curator.text(client.getData().forPath(path)), "data");
        }
        // The server removes it some time after nobody touches it; it looks once a minute unless it is told otherwise.
        Suite.eventually("the server removes it", 150_000, () -> client.checkExists().forPath(path) == null);
    }

    private void groupMember() throws Exception {
        try (CuratorFramework other = Curator.connect(address);
            GroupMember one = new GroupMember(client, root + "/group", "one", Curator.bytes("1"));
            GroupMember two = new GroupMember(other, root + "/group", "two", Curator.bytes("2"))) {
            one.start();
            Suite.eventually("alone", () -> one.getCurrentMembers().keySet().equals(Set.of("one")));
            two.start();
            Suite.eventually("two members", () -> one.getCurrentMembers().keySet().equals(Set.of("one", "two")));
            two.setThisData(Curator.bytes("22"));
            Suite.eventually("data of a member", () -> {
                Map<String, byte[]> members = one.getCurrentMembers();
                return "22".equals(Curator.text(members.get("two")));
            });
            two.close();
            Suite.eventually("alone again", () -> one.getCurrentMembers().keySet().equals(Set.of("one")));
        }
    }

    private static ServiceInstance<String> instance(int port) throws Exception {
        return ServiceInstance.<String>builder().name("service").address("127.0.0.1").port(port).payload("p" + port).build();
    }

    private void discovery() throws Exception {
        try (CuratorFramework other = Curator.connect(address);
            ServiceDiscovery<String> mine = ServiceDiscoveryBuilder.builder(String.class).client(client)
                .basePath(root + "/discovery").thisInstance(instance(1)).build();
            ServiceDiscovery<String> theirs = ServiceDiscoveryBuilder.builder(String.class).client(other)
                .basePath(root + "/discovery").build()) {
            mine.start();
            theirs.start();
            ServiceInstance<String> second = instance(2);
            theirs.registerService(second);
            Suite.equal(Set.of("service"), new HashSet<>(mine.queryForNames()), "names");
            Collection<ServiceInstance<String>> found = mine.queryForInstances("service");
            Suite.equal(2, found.size(), "instances");
            Suite.equal("p2", mine.queryForInstance("service", second.getId()).getPayload(), "payload");
            theirs.unregisterService(second);
            Suite.equal(1, mine.queryForInstances("service").size(), "instances after one left");
        }
    }

    private void serviceCache() throws Exception {
        try (ServiceDiscovery<String> discovery = ServiceDiscoveryBuilder.builder(String.class).client(client)
            .basePath(root + "/cached-discovery").build()) {
            discovery.start();
            discovery.registerService(instance(1));
            try (ServiceCache<String> cache = discovery.serviceCacheBuilder().name("service").build();
                ServiceProvider<String> provider = discovery.serviceProviderBuilder().serviceName("service")
                    .providerStrategy(new RoundRobinStrategy<>()).build()) {
                cache.start();
                provider.start();
                Suite.eventually("one instance", () -> cache.getInstances().size() == 1);
                ServiceInstance<String> second = instance(2);
                discovery.registerService(second);
                Suite.eventually("two instances", () -> cache.getInstances().size() == 2);
                Set<Integer> ports = new HashSet<>();
                Suite.eventually("the provider gives both", () -> {
                    ports.add(provider.getInstance().getPort());
                    return ports.size() == 2;
                });
                discovery.unregisterService(second);
                Suite.eventually("one instance again", () -> cache.getInstances().size() == 1);
            }
        }
    }
}
