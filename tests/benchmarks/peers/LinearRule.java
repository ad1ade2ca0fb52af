import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Answers each query by a linear rule, exactly once; what the benchmark tells it is in the environment. */
public final class LinearRule {
    private static final ObjectMapper JSON = new ObjectMapper();

    private LinearRule() {}

    private static byte[] answer(byte[] query) {
        try {
            JsonNode read = JSON.readTree(query);
            double score = -0.5;
            for (JsonNode value : read.get("x")) {
                score += 0.5 * value.asDouble();
            }
            ObjectNode written = JSON.createObjectNode();
            written.set("id", read.get("id"));
            written.put("label", score > 0.0 ? 1 : 0).put("model", "box").put("round", 123456).put("phase", 1);
            return JSON.writeValueAsBytes(written);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("SERVERS"));
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("GROUP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("FOLDER"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        // As large as the daemon's: with its own defaults (1,000 records, 16 KiB) it is slower.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 16_384);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1 << 20);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // As long as the daemon's: how soon another may take over from one that was killed.
        int session = Integer.parseInt(System.getenv("SESSION_MS"));
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), session);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), session / 4);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(System.getenv("QUERIES"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .mapValues(LinearRule::answer)
            .to(System.getenv("ANSWERS"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
