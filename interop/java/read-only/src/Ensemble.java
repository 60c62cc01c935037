import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Three server processes in read-only mode, Zebu's or Apache's, that can be killed and started again. */
final class Ensemble implements AutoCloseable {
    static final int SIZE = 3;

    private final Path home;
    private final int[] clientPorts = new int[SIZE];
    private final Process[] processes = new Process[SIZE];

    Ensemble(Path home) throws IOException {
        this.home = home;
        int[] ports = freePorts(3 * SIZE);
        StringBuilder members = new StringBuilder();
        for (int index = 0; index < SIZE; index++) {
            clientPorts[index] = ports[3 * index];
            members.append("server.").append(index + 1).append("=127.0.0.1:").append(ports[3 * index + 1]);
            members.append(':').append(ports[3 * index + 2]).append('\n');
        }
        for (int index = 0; index < SIZE; index++) {
            Path data = Files.createDirectories(home.resolve("data" + index));
            Files.writeString(data.resolve("myid"), (index + 1) + "\n");
            // Apache's read-only servers have local sessions or none.
            Files.writeString(configuration(index), "tickTime=500\ninitLimit=20\nsyncLimit=10\n"
                + "dataDir=" + data + "\nclientPort=" + clientPorts[index] + "\nclientPortAddress=127.0.0.1\n"
                + "4lw.commands.whitelist=*\nadmin.enableServer=false\nlocalSessionsEnabled=true\n"
                + "localSessionsUpgradingEnabled=true\nreconfigEnabled=true\n" + members);
        }
    }

    static boolean isApache() {
        return "apache".equals(System.getenv("INTEROP_PEER"));
    }

    String address(int index) {
        return "127.0.0.1:" + clientPorts[index];
    }

    String addresses() {
        List<String> all = new ArrayList<>();
        for (int index = 0; index < SIZE; index++) {
            all.add(address(index));
        }
        return String.join(",", all);
    }

    void start(int index) throws IOException {
        List<String> command = new ArrayList<>();
        if (isApache()) {
            command.addAll(List.of("java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                "-Dreadonlymode.enabled=true", "org.apache.zookeeper.server.quorum.QuorumPeerMain"));
        } else {
            command.addAll(List.of(System.getenv("ZEBU"), "serve", "-Dreadonlymode.enabled=true"));
        }
        command.add(configuration(index).toString());
        File log = home.resolve("log" + index).toFile();
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        processes[index] = builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
    }

    void kill(int index) throws InterruptedException {
        processes[index].destroyForcibly().waitFor(10, TimeUnit.SECONDS);
    }

    /** What a server answers to a four-letter word; empty if there is no server. */
    String ask(int index, String word) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), clientPorts[index]), 2000);
            socket.setSoTimeout(5000);
            socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
            InputStream input = socket.getInputStream();
            return new String(input.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException gone) {
            return "";
        }
    }

    @Override
    public void close() {
        for (Process process : processes) {
            if (process != null) {
                process.destroyForcibly();
            }
        }
    }

    private Path configuration(int index) {
        return home.resolve("zoo" + index + ".cfg");
    }

    private static int[] freePorts(int count) throws IOException {
        ServerSocket[] open = new ServerSocket[count];
        int[] ports = new int[count];
        for (int index = 0; index < count; index++) {
            open[index] = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
            ports[index] = open[index].getLocalPort();
        }
        for (ServerSocket socket : open) {
            socket.close();
        }
        return ports;
    }
}
