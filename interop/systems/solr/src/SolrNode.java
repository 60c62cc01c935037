import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/** One SolrCloud node, until it is killed: {@code SolrNode HOME PORT ZOOKEEPER}. */
public final class SolrNode {
    private SolrNode() {}

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        Files.writeString(home.resolve("solr.xml"), """
            <solr>
              <solrcloud>
                <str name="host">127.0.0.1</str>
                <int name="hostPort">%d</int>
                <str name="hostContext">solr</str>
                <str name="zkHost">%s</str>
                <int name="zkClientTimeout">6000</int>
                <bool name="genericCoreNodeNames">true</bool>
              </solrcloud>
            </solr>
            """.formatted(port, arguments[2]));
        System.setProperty("zkHost", arguments[2]);
        System.setProperty("hostPort", arguments[1]);
        JettyConfig config = new JettyConfig.Builder().setContext("/solr").setPort(port).build();
        Properties properties = new Properties();
        properties.setProperty("hostPort", arguments[1]);
        new JettySolrRunner(home.toString(), properties, config).start();
        System.out.println("started");
        Thread.currentThread().join();
    }
}
