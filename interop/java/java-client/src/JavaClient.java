import org.apache.zookeeper.ZooKeeper;

/** Drives a server with Apache's own Java client, every public method of it: {@code JavaClient HOST:PORT}. */
public final class JavaClient {
    private JavaClient() {}

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Suite suite = new Suite("java-client: ");
        ZooKeeper client = Client.connect(address);
        String root = "/java-client-" + System.currentTimeMillis();
        Client.create(client, root, "");
        NodeChecks nodes = new NodeChecks(suite, client, root);
        nodes.startExpiry();
        nodes.run();
        new AsyncChecks(suite, client, root).run();
        new MultiChecks(suite, client, root).run();
        new AccessChecks(suite, address, client, root).run();
        new WatchChecks(suite, address, client, root).run();
        new SessionChecks(suite, address, client, root).run();
        nodes.finishExpiry();
        Client.deleteTree(client, root);
        suite.check("close with a limit", () -> {
            Suite.that(client.close(10_000), "the client's threads did not end");
            Suite.equal(ZooKeeper.States.CLOSED, client.getState(), "state");
        });
        System.exit(0);
    }
}
