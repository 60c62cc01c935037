import static org.apache.zookeeper.KeeperException.Code.*;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** ACLs, authentication, who am I, configuration and reconfiguration. */
final class AccessChecks {
    private final Suite suite;
    private final String address;
    private final ZooKeeper client;
    private final String root;

    AccessChecks(Suite suite, String address, ZooKeeper client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/access";
    }

    void run() throws Exception {
        Client.create(client, root, "");
        suite.check("getACL and setACL", this::acl);
        suite.check("digest authentication", this::digest);
        suite.check("ip and world", this::addressAndWorld);
        suite.check("each permission", this::permissions);
        suite.check("several credentials", this::severalCredentials);
        suite.check("addAuthInfo with an unknown scheme", this::unknownScheme);
        suite.check("credentials are sent again after a reconnect", this::credentialsAfterReconnect);
        suite.check("whoAmI", this::whoAmI);
        suite.check("getConfig", this::config);
        suite.check("reconfigure is refused", this::reconfigure);
    }

    private void acl() throws Exception {
        String path = Client.create(client, root + "/acl", "");
        Stat stat = new Stat();
        Suite.equal(Ids.OPEN_ACL_UNSAFE, client.getACL(path, stat), "ACL");
        Suite.equal(0, stat.getAversion(), "aversion");
        Suite.equal(1, client.setACL(path, Ids.READ_ACL_UNSAFE, 0).getAversion(), "aversion after setACL");
        Suite.equal(Ids.READ_ACL_UNSAFE, client.getACL(path, null), "new ACL");
        Client.fails(NOAUTH, () -> client.setACL(path, Ids.OPEN_ACL_UNSAFE, 1));
        String other = Client.create(client, root + "/acl-version", "");
        Client.fails(BADVERSION, () -> client.setACL(other, Ids.OPEN_ACL_UNSAFE, 4));
        Client.fails(INVALIDACL, () -> client.setACL(other, Arrays.asList(new ACL(31, new Id("nonsense", "x"))), -1));
        Client.fails(INVALIDACL, () -> client.create(root + "/nobody", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
    }

    private void digest() throws Exception {
        String path = root + "/digest";
        try (ZooKeeper ann = Client.connect(address)) {
            ann.addAuthInfo("digest", Client.bytes("ann:secret"));
            ann.create(path, Client.bytes("x"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            List<ACL> acl = ann.getACL(path, null);
            String hash = DigestAuthenticationProvider.generateDigest("ann:secret");
            Suite.equal(Arrays.asList(new ACL(ZooDefs.Perms.ALL, new Id("digest", hash))), acl, "ACL");
            Client.fails(NOAUTH, () -> client.getData(path, false, null));
            Client.fails(NOAUTH, () -> client.setData(path, null, -1));
            Client.fails(NOAUTH, () -> client.getChildren(path, false));
            Client.fails(NOAUTH, () -> client.getACL(path, null));
            Client.fails(NOAUTH, () -> Client.create(client, path + "/c", ""));
            try (ZooKeeper impostor = Client.connect(address)) {
                impostor.addAuthInfo("digest", Client.bytes("ann:wrong"));
                Client.fails(NOAUTH, () -> impostor.getData(path, false, null));
                impostor.addAuthInfo("digest", Client.bytes("ann:secret"));
                Suite.equal("x", Client.data(impostor, path), "data with the right password");
            }
            ann.delete(path, -1);
        }
    }

    private void addressAndWorld() throws Exception {
        String path = root + "/ip";
        List<ACL> acl = Arrays.asList(new ACL(ZooDefs.Perms.READ, new Id("ip", "127.0.0.0/8")),
            new ACL(ZooDefs.Perms.WRITE, new Id("ip", "10.1.2.3")));
        client.create(path, Client.bytes("x"), acl, CreateMode.PERSISTENT);
        Suite.equal("x", Client.data(client, path), "data");
        Client.fails(NOAUTH, () -> client.setData(path, null, -1));
        Suite.equal(acl, client.getACL(path, null), "ACL");
    }

    private void permissions() throws Exception {
        int[] permissions = {
            ZooDefs.Perms.READ, ZooDefs.Perms.WRITE, ZooDefs.Perms.CREATE, ZooDefs.Perms.DELETE, ZooDefs.Perms.ADMIN,
        };
        for (int permission : permissions) {
            String path = root + "/permission-" + permission;
            List<ACL> open = Arrays.asList(new ACL(permission, Ids.ANYONE_ID_UNSAFE));
            Client.create(client, path, "");
            Client.create(client, path + "/child", "");
            client.setACL(path, open, -1);
            allowed(permission == ZooDefs.Perms.READ, () -> client.getData(path, false, null));
            allowed(permission == ZooDefs.Perms.READ, () -> client.getChildren(path, false));
            allowed(permission == ZooDefs.Perms.WRITE, () -> client.setData(path, null, -1));
            allowed(permission == ZooDefs.Perms.CREATE, () -> Client.create(client, path + "/new", ""));
            allowed(permission == ZooDefs.Perms.DELETE, () -> client.delete(path + "/child", -1));
            // getACL wants READ or ADMIN.
            boolean seesAcl = permission == ZooDefs.Perms.READ || permission == ZooDefs.Perms.ADMIN;
            allowed(seesAcl, () -> client.getACL(path, null));
            allowed(permission == ZooDefs.Perms.ADMIN, () -> client.setACL(path, open, -1));
        }
    }

    private static void allowed(boolean allowed, Client.Call call) throws Exception {
        if (allowed) {
            call.run();
        } else {
            Client.fails(NOAUTH, call);
        }
    }

    private void severalCredentials() throws Exception {
        try (ZooKeeper both = Client.connect(address)) {
            both.addAuthInfo("digest", Client.bytes("ann:1"));
            both.addAuthInfo("digest", Client.bytes("bob:2"));
            String path = root + "/several";
            both.create(path, null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            List<String> users = both.getACL(path, null).stream()
                .map(acl -> acl.getId().getId().split(":")[0]).sorted().collect(Collectors.toList());
            Suite.equal(List.of("ann", "bob"), users, "users of CREATOR_ALL_ACL");
            both.delete(path, -1);
        }
    }

    private void unknownScheme() throws Exception {
        Client.Events events = new Client.Events();
        try (ZooKeeper stranger = Client.connect(address, Client.TIMEOUT_MILLIS, events)) {
            stranger.addAuthInfo("nonsense", Client.bytes("x"));
            Suite.eventually("AuthFailed event", () -> events.count(Watcher.Event.KeeperState.AuthFailed) > 0);
            Suite.eventually("state", () -> stranger.getState() == ZooKeeper.States.AUTH_FAILED);
            Client.fails(AUTHFAILED, () -> stranger.exists("/", false));
        }
    }

    private void credentialsAfterReconnect() throws Exception {
        Client.Events events = new Client.Events();
        try (Proxy proxy = new Proxy(address);
            ZooKeeper ann = Client.connect(proxy.address(), Client.TIMEOUT_MILLIS, events)) {
            ann.addAuthInfo("digest", Client.bytes("ann:secret"));
            String path = root + "/after-reconnect";
            ann.create(path, Client.bytes("x"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            proxy.cut();
            Suite.eventually("disconnection", () -> events.count(Watcher.Event.KeeperState.Disconnected) == 1);
            proxy.restore();
            Suite.eventually("connection", () -> events.count(Watcher.Event.KeeperState.SyncConnected) == 2);
            Suite.equal("x", Client.data(ann, path), "data");
            ann.delete(path, -1);
        }
    }

    private void whoAmI() throws Exception {
        List<ClientInfo> before = client.whoAmI();
        Suite.equal("[ip]", before.stream().map(ClientInfo::getAuthScheme).collect(Collectors.toList()).toString(),
            "schemes without authentication");
        Suite.equal("127.0.0.1", before.get(0).getUser(), "address");
        try (ZooKeeper ann = Client.connect(address)) {
            ann.addAuthInfo("digest", Client.bytes("ann:secret"));
            List<String> known = ann.whoAmI().stream()
                .map(info -> info.getAuthScheme() + ":" + info.getUser()).sorted().collect(Collectors.toList());
            Suite.equal(List.of("digest:ann", "ip:127.0.0.1"), known, "identities");
        }
    }

    private void config() throws Exception {
        Stat stat = new Stat();
        byte[] data = client.getConfig(false, stat);
        byte[] watched = client.getConfig(new Client.Events(), new Stat());
        Suite.equal(Client.text(data), Client.text(watched), "configuration");
        Suite.equal(data == null ? 0 : data.length, stat.getDataLength(), "dataLength");
        Client.fails(NOAUTH, () -> client.setData(ZooDefs.CONFIG_NODE, Client.bytes("x"), -1));
    }

    private void reconfigure() throws Exception {
        Client.Events events = new Client.Events();
        try (ZooKeeperAdmin admin = new ZooKeeperAdmin(address, Client.TIMEOUT_MILLIS, events)) {
            Client.connected(admin, events);
            String joining = "server.9=127.0.0.1:2888:3888;2181";
            KeeperException.Code code = codeOf(() -> admin.reconfigure(joining, null, null, -1, new Stat()));
            // Off by default; a single server with reconfiguration switched on does not implement it.
            Suite.that(code == RECONFIGDISABLED || code == UNIMPLEMENTED, "code of a join: " + code);
            Suite.equal(code, codeOf(() -> admin.reconfigure(List.of(joining), null, null, -1, new Stat())), "lists");
            Suite.equal(code, codeOf(() -> admin.reconfigure(null, "1", null, -1, new Stat())), "leaving");
            Suite.equal(code, codeOf(() -> admin.reconfigure(null, null, joining, 7, new Stat())), "new members");
            Client.Answer<byte[]> answer = new Client.Answer<>();
            admin.reconfigure(joining, null, null, -1, (rc, path, context, data, stat) -> answer.take(rc, data), null);
            Suite.equal(code, answer.code(), "asynchronous");
            Client.Answer<byte[]> lists = new Client.Answer<>();
            admin.reconfigure(List.of(joining), null, null, -1, (rc, path, context, data, stat) -> lists.take(rc, data), null);
            Suite.equal(code, lists.code(), "asynchronous with lists");
            Suite.that(admin.toString().contains("State:CONNECTED"), admin.toString());
        }
    }

    private static KeeperException.Code codeOf(Client.Call call) throws Exception {
        try {
            call.run();
            return OK;
        } catch (KeeperException failure) {
            return failure.code();
        }
    }
}
