import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/** One step of the scenario: {@code HBaseRows servers|create|put|scan|drop TABLE COUNT}. Ends with 0 when it is done. */
public final class HBaseRows {
    private static final byte[] FAMILY = bytes("f");
    private static final byte[] COLUMN = bytes("c");

    private HBaseRows() {}

    public static void main(String[] arguments) {
        int count = Integer.parseInt(arguments[2]);
        Configuration configuration = HBaseConfiguration.create();
        try (Connection connection = ConnectionFactory.createConnection(configuration); Admin admin = connection.getAdmin()) {
            TableName name = TableName.valueOf(arguments[1]);
            switch (arguments[0]) {
                case "servers" -> servers(admin, count);
                case "create" -> admin.createTable(TableDescriptorBuilder.newBuilder(name)
                    .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build());
                case "put" -> {
                    put(connection, name, count);
                    admin.flush(name);
                }
                case "scan" -> scan(connection, name, count);
                case "drop" -> {
                    admin.disableTable(name);
                    admin.deleteTable(name);
                }
                default -> throw new IllegalArgumentException(arguments[0]);
            }
        } catch (Throwable failure) {
            System.err.println(String.valueOf(failure).replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0);
    }

    private static void servers(Admin admin, int expected) throws Exception {
        long end = System.currentTimeMillis() + 120_000;
        while (true) {
            int seen = -1;
            try {
                seen = admin.getRegionServers().size();
            } catch (java.io.IOException notYet) {
                // The master is not up yet.
            }
            if (seen == expected) {
                return;
            }
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("region servers: expected " + expected + ", got " + seen);
            }
            Thread.sleep(200);
        }
    }

    private static void put(Connection connection, TableName name, int count) throws Exception {
        try (Table table = connection.getTable(name)) {
            List<Put> puts = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                puts.add(new Put(bytes(String.format("row-%06d", number))).addColumn(FAMILY, COLUMN, bytes("value-" + number)));
            }
            table.put(puts);
        }
    }

    private static void scan(Connection connection, TableName name, int count) throws Exception {
        try (Table table = connection.getTable(name); ResultScanner scanner = table.getScanner(new Scan())) {
            int number = 0;
            for (Result result : scanner) {
                String value = new String(result.getValue(FAMILY, COLUMN), StandardCharsets.UTF_8);
                if (!value.equals("value-" + number)) {
                    throw new AssertionError("row " + number + " holds " + value);
                }
                number++;
            }
            if (number != count) {
                throw new AssertionError("rows: expected " + count + ", got " + number);
            }
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
