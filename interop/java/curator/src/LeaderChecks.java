import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.RetryOneTime;

/** Elections: one leader at a time, and a new one when it goes. */
final class LeaderChecks {
    private final Suite suite;
    private final String address;
    private final CuratorFramework client;
    private final String root;

    LeaderChecks(Suite suite, String address, CuratorFramework client, String root) {
        this.suite = suite;
        this.address = address;
        this.client = client;
        this.root = root + "/leaders";
    }

    void run() throws Exception {
        client.create().forPath(root);
        suite.check("LeaderLatch", this::latch);
        suite.check("LeaderLatch of a client that loses its session", this::lostSession);
        suite.check("LeaderSelector", this::selector);
    }

    private void latch() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderLatch> latches = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            CuratorFramework own = Curator.connect(address);
            clients.add(own);
            LeaderLatch latch = new LeaderLatch(own, root + "/latch", "participant-" + number);
            latch.start();
            latches.add(latch);
        }
        while (!latches.isEmpty()) {
            Suite.eventually("a leader", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            Suite.equal(1L, latches.stream().filter(LeaderLatch::hasLeadership).count(), "leaders");
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findFirst().orElseThrow();
            for (LeaderLatch latch : latches) {
                Suite.eventually("all know the leader", () -> leader.getId().equals(latch.getLeader().getId()));
            }
            int count = latches.size();
            Suite.eventually("participants", () -> leader.getParticipants().size() == count);
            leader.close();
            latches.remove(leader);
        }
        clients.forEach(CuratorFramework::close);
    }

    private void lostSession() throws Exception {
        try (Proxy proxy = new Proxy(address);
            CuratorFramework away = CuratorFrameworkFactory.newClient(proxy.address(), 4_000, 15_000, new RetryOneTime(100))) {
            away.start();
            LeaderLatch theirs = new LeaderLatch(away, root + "/lost", "away");
            theirs.start();
            Suite.that(theirs.await(30, TimeUnit.SECONDS), "no leadership");
            LeaderLatch mine = new LeaderLatch(client, root + "/lost", "here");
            mine.start();
            Suite.that(!mine.await(300, TimeUnit.MILLISECONDS), "two leaders");
            proxy.cut();
            Suite.that(mine.await(60, TimeUnit.SECONDS), "no new leader after the session expired");
            Suite.that(!theirs.hasLeadership(), "the old leader still believes in itself");
            proxy.restore();
            Suite.eventually("the old leader is back in the line", () -> mine.getParticipants().size() == 2);
            mine.close();
            Suite.that(theirs.await(30, TimeUnit.SECONDS), "it does not lead again");
            theirs.close();
        }
    }

    private void selector() throws Exception {
        int count = 3;
        AtomicInteger leading = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch terms = new CountDownLatch(count * 2);
        List<LeaderSelector> selectors = new ArrayList<>();
        List<CuratorFramework> clients = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            CuratorFramework own = Curator.connect(address);
            clients.add(own);
            LeaderSelector selector = new LeaderSelector(own, root + "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework framework) {
                    most.accumulateAndGet(leading.incrementAndGet(), Math::max);
                    terms.countDown();
                    leading.decrementAndGet();
                }
            });
            selector.setId("selector-" + number);
            selector.autoRequeue();
            selector.start();
            selectors.add(selector);
        }
        Suite.that(terms.await(60, TimeUnit.SECONDS), terms.getCount() + " terms are missing");
        Suite.equal(1, most.get(), "leaders at once");
        // Terms end at once, so for a moment nobody may take part.
        Suite.eventually("somebody takes part", () -> !selectors.get(0).getParticipants().isEmpty());
        selectors.forEach(LeaderSelector::close);
        clients.forEach(CuratorFramework::close);
    }
}
