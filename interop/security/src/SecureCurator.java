import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;

/** Curator with the client configuration of its own properties: SecureCurator HOST:PORT ROOT EXPECTED. */
public final class SecureCurator {
    public static void main(String[] words) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(words[0])
                .retryPolicy(new RetryOneTime(1000))
                .zkClientConfig(new ZKClientConfig())
                .build();
        client.start();
        String reason = "";
        client.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(words[1]);
        ACL acl = client.getACL().forPath(words[1]).get(0);
        String seen = acl.getId().getScheme() + ":" + acl.getId().getId();
        if (!seen.equals(words[2])) {
            reason = "the server sees " + seen;
        }
        InterProcessMutex lock = new InterProcessMutex(client, words[1] + "/lock");
        lock.acquire();
        lock.release();
        client.close();
        System.out.println(reason.isEmpty() ? "done" : reason);
        System.out.flush();
        Runtime.getRuntime().halt(reason.isEmpty() ? 0 : 1);
    }
}
