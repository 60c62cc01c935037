import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.hadoop.ha.ActiveStandbyElector;
import org.apache.hadoop.util.ZKUtil;
import org.apache.zookeeper.ZooDefs.Ids;

/** The election of Hadoop's high availability (NameNode, ResourceManager): {@code HadoopElection HOST:PORT}. */
public final class HadoopElection {
    private static final String PARENT = "/hadoop-ha-" + System.currentTimeMillis();

    private HadoopElection() {}

    /** One candidate and what it was told, as words. */
    private static final class Candidate implements ActiveStandbyElector.ActiveStandbyElectorCallback {
        final List<String> told = new CopyOnWriteArrayList<>();
        final ActiveStandbyElector elector;
        final byte[] name;

        Candidate(String name, String address) throws Exception {
            this.name = name.getBytes(StandardCharsets.UTF_8);
            List<ZKUtil.ZKAuthInfo> credentials =
                List.of(new ZKUtil.ZKAuthInfo("digest", "hdfs:secret".getBytes(StandardCharsets.UTF_8)));
            elector = new ActiveStandbyElector(address, 5_000, PARENT, Ids.CREATOR_ALL_ACL, credentials, this, 3, null);
        }

        void waitFor(String word) throws Exception {
            Suite.eventually(word + " (told so far: " + told + ")", () -> !told.isEmpty() && last().equals(word));
        }

        String last() {
            return told.get(told.size() - 1);
        }

        @Override
        public void becomeActive() {
            told.add("active");
        }

        @Override
        public void becomeStandby() {
            told.add("standby");
        }

        @Override
        public void enterNeutralMode() {
            told.add("neutral");
        }

        @Override
        public void notifyFatalError(String message) {
            told.add("fatal " + message);
        }

        @Override
        public void fenceOldActive(byte[] data) {
            told.add("fence " + new String(data, StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Suite suite = new Suite("hadoop: ");
        Proxy proxy = new Proxy(address);
        Candidate one = new Candidate("one", proxy.address());
        Candidate two = new Candidate("two", address);
        suite.check("the parent node is made with its ACL", () -> {
            Suite.that(!one.elector.parentZNodeExists(), "it exists already");
            one.elector.ensureParentZNode();
            two.elector.ensureParentZNode();
            Suite.that(two.elector.parentZNodeExists(), "it does not exist");
        });
        suite.check("the first candidate becomes active", () -> {
            one.elector.joinElection(one.name);
            one.waitFor("active");
            Suite.equal("one", new String(two.elector.getActiveData(), StandardCharsets.UTF_8), "active candidate");
        });
        suite.check("the second becomes standby", () -> {
            two.elector.joinElection(two.name);
            two.waitFor("standby");
        });
        suite.check("a short disconnection changes nothing", () -> {
            proxy.cut();
            one.waitFor("neutral");
            proxy.restore();
            one.waitFor("active");
            Suite.equal("standby", two.last(), "the second");
        });
        suite.check("when the active is cut off, the standby fences it and takes over", () -> {
            proxy.cut();
            two.waitFor("active");
            Suite.that(two.told.contains("fence one"), "not fenced: " + two.told);
        });
        suite.check("the old active comes back as standby", () -> {
            proxy.restore();
            one.waitFor("standby");
            Suite.equal("two", new String(one.elector.getActiveData(), StandardCharsets.UTF_8), "active candidate");
        });
        suite.check("an active that leaves gracefully is not fenced", () -> {
            two.elector.quitElection(false);
            one.waitFor("active");
            Suite.equal(Collections.frequency(one.told, "fence two"), 0, "fencings");
        });
        suite.check("the election is cleared", () -> {
            one.elector.quitElection(false);
            // One that has left the election has no connection any more.
            Candidate clearing = new Candidate("clearing", address);
            clearing.elector.clearParentZNode();
            Suite.that(!clearing.elector.parentZNodeExists(), "it still exists");
        });
        suite.check("no candidate met a fatal error", () -> {
            for (Candidate candidate : List.of(one, two)) {
                Suite.that(candidate.told.stream().noneMatch(word -> word.startsWith("fatal")), candidate.told.toString());
            }
        });
        System.exit(0);
    }
}
