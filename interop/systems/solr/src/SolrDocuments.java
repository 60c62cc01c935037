import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.solr.client.solrj.SolrQuery;
import org.apache.solr.client.solrj.impl.CloudHttp2SolrClient;
import org.apache.solr.client.solrj.impl.CloudSolrClient;
import org.apache.solr.client.solrj.request.CollectionAdminRequest;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.common.cloud.DocCollection;
import org.apache.solr.common.cloud.SolrZkClient;
import org.apache.solr.common.cloud.ZkMaintenanceUtils;

/** One step of the scenario: {@code SolrDocuments ZOOKEEPER upload|nodes|create|index|query|active|drop ARGUMENT [COUNT]}. */
public final class SolrDocuments {
    private static final long PATIENCE_MILLIS = 60_000;

    private SolrDocuments() {}

    public static void main(String[] arguments) {
        String name = arguments[2];
        int count = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 0;
        try (CloudSolrClient client = new CloudHttp2SolrClient.Builder(List.of(arguments[0]), Optional.empty()).build()) {
            switch (arguments[1]) {
                case "upload" -> upload(arguments[0], Path.of(name));
                case "nodes" -> nodes(client, Integer.parseInt(name));
                case "create" -> {
                    CollectionAdminRequest.createCollection(name, "plain", 2, count).process(client);
                    active(client, name);
                }
                case "index" -> index(client, name, count);
                case "query" -> query(client, name, count);
                case "active" -> active(client, name);
                case "drop" -> CollectionAdminRequest.deleteCollection(name).process(client);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        } catch (Throwable failure) {
            System.err.println(String.valueOf(failure).replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0);
    }

    private static void upload(String address, Path directory) throws Exception {
        try (SolrZkClient zookeeper = new SolrZkClient.Builder().withUrl(address).withTimeout(10_000, TimeUnit.MILLISECONDS).build()) {
            ZkMaintenanceUtils.uploadToZK(zookeeper, directory, "/configs/plain", ZkMaintenanceUtils.UPLOAD_FILENAME_EXCLUDE_PATTERN);
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private static void eventually(String what, Condition condition) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError(what + ": did not happen");
            }
            Thread.sleep(200);
        }
    }

    private static void nodes(CloudSolrClient client, int expected) throws Exception {
        client.connect();
        eventually(expected + " live nodes", () -> client.getClusterStateProvider().getLiveNodes().size() == expected);
    }

    private static void active(CloudSolrClient client, String name) throws Exception {
        client.connect();
        eventually("all replicas of " + name + " are active", () -> {
            DocCollection collection = client.getClusterState().getCollectionOrNull(name);
            return collection != null && collection.getReplicas().stream()
                .allMatch(replica -> replica.isActive(client.getClusterStateProvider().getLiveNodes()));
        });
    }

    private static void index(CloudSolrClient client, String name, int count) throws Exception {
        List<SolrInputDocument> documents = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            SolrInputDocument document = new SolrInputDocument();
            document.addField("id", "d" + number);
            document.addField("word_s", "word" + number % 10);
            documents.add(document);
        }
        client.add(name, documents);
        client.commit(name);
    }

    private static void query(CloudSolrClient client, String name, int expected) throws Exception {
        client.connect();
        eventually("query finds " + expected, () -> found(client, name, "*:*") == expected);
        eventually("query by a word", () -> found(client, name, "word_s:word3") == expected / 10);
    }

    private static long found(CloudSolrClient client, String name, String query) {
        try {
            return client.query(name, new SolrQuery(query)).getResults().getNumFound();
        } catch (Exception notYet) {
            return -1;
        }
    }
}
