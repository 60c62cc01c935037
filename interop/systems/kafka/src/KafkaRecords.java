import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One step of the scenario: {@code KafkaRecords BOOTSTRAP create|delete|produce|consume TOPIC COUNT [REPLICAS]},
 * or {@code KafkaRecords BOOTSTRAP brokers COUNT}. Ends with 0 when everything is as it should be.
 */
public final class KafkaRecords {
    private static final long PATIENCE_MILLIS = 90_000;

    private KafkaRecords() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        String topic = arguments[2];
        int count = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 0;
        try {
            switch (arguments[1]) {
                case "brokers" -> brokers(config, Integer.parseInt(arguments[2]));
                case "create" -> create(config, topic, count, Short.parseShort(arguments[4]));
                case "delete" -> delete(config, topic);
                case "produce" -> produce(config, topic, count);
                case "consume" -> consume(config, topic, count);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        } catch (Throwable failure) {
            System.err.println(failure);
            System.exit(1);
        }
        System.exit(0);
    }

    private static void brokers(Map<String, Object> config, int expected) throws Exception {
        try (Admin admin = Admin.create(config)) {
            long end = System.currentTimeMillis() + PATIENCE_MILLIS;
            int seen = -1;
            while (seen != expected) {
                check(System.currentTimeMillis() < end, "brokers: expected " + expected + ", got " + seen);
                seen = admin.describeCluster().nodes().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS).size();
                Thread.sleep(100);
            }
        }
    }

    private static void create(Map<String, Object> config, String topic, int partitions, short replicas) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, replicas))).all().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            Set<String> names = admin.listTopics().names().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            check(names.contains(topic), "the topic is not listed: " + names);
        }
    }

    private static void delete(Map<String, Object> config, String topic) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.deleteTopics(List.of(topic)).all().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            long end = System.currentTimeMillis() + PATIENCE_MILLIS;
            while (admin.listTopics().names().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS).contains(topic)) {
                check(System.currentTimeMillis() < end, "the topic is still listed");
                Thread.sleep(100);
            }
        }
    }

    private static void produce(Map<String, Object> config, String topic, int count) throws Exception {
        config.put("acks", "all");
        config.put("linger.ms", 5);
        try (KafkaProducer<String, String> producer =
            new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "key-" + number % 100, "value-" + number)));
            }
            for (Future<RecordMetadata> record : sent) {
                record.get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            }
        }
    }

    private static void consume(Map<String, Object> config, String topic, int count) throws Exception {
        config.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic, Duration.ofMillis(PATIENCE_MILLIS))) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            boolean[] seen = new boolean[count];
            Map<String, Integer> lastOfKey = new HashMap<>();
            int received = 0;
            long end = System.currentTimeMillis() + PATIENCE_MILLIS;
            while (received < count) {
                check(System.currentTimeMillis() < end, "only " + received + " of " + count + " records came");
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    int number = Integer.parseInt(record.value().substring("value-".length()));
                    check(!seen[number], "record " + number + " came twice");
                    seen[number] = true;
                    check(lastOfKey.getOrDefault(record.key(), -1) < number, "record " + number + " is out of order");
                    lastOfKey.put(record.key(), number);
                    received++;
                }
            }
        }
    }

    private static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }
}
