package org.apache.curator.test;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

/**
 * Takes the place of the class of this name in curator-test, which runs Apache ZooKeeper inside this JVM: here the server is
 * a Zebu process. TestingServer and TestingCluster above it are Curator's own.
 *
 * <p>System properties: "zebu.binary" is the program, "zebu.log" the file for the output of all servers.
 */
public class ZooKeeperServerEmbeddedAdapter implements ZooKeeperMainFace {
    private static final long LIMIT_MILLIS = 20_000;
    /** Java properties that a server reads although their names do not begin with "zookeeper.". */
    private static final Set<String> BARE_PROPERTIES =
            Set.of("readonlymode.enabled", "jute.maxbuffer", "znode.container.checkIntervalMs");
    private static final Set<Process> RUNNING = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.forEach(Process::destroyForcibly)));
    }

    private volatile Process process;
    private int port;

    @Override
    public void start(QuorumPeerConfigBuilder configBuilder) {
        try {
            Properties properties = configBuilder.buildProperties();
            properties.put("admin.enableServer", "false");
            properties.put("4lw.commands.whitelist", "*");
            // Tests set this in a static field of Apache's class.
            properties.put("reconfigEnabled", Boolean.toString(QuorumPeerConfig.isReconfigEnabled()));
            port = Integer.parseInt(properties.getProperty("clientPort"));
            if (port == 0) {
                port = freePort();
                properties.put("clientPort", Integer.toString(port));
            }
            File config = new File(properties.getProperty("dataDir"), "zoo.cfg");
            write(properties, config);
            process = launch(config);
            boolean isCluster = properties.stringPropertyNames().stream().anyMatch(name -> name.startsWith("server."));
            waitUntilItListens(isCluster);
        } catch (Exception e) {
            throw new FailedServerStartException(e);
        }
    }

    @Override
    public int getClientPort() {
        return port;
    }

    /** The object lives in Apache's JVM; a test that asks for it cannot work with a process. */
    public ServerCnxnFactory getServerCnxnFactory() {
        throw new UnsupportedOperationException("the server is another process");
    }

    @Override
    public void kill() {
        end(Process::destroyForcibly);
    }

    @Override
    public void close() {
        end(Process::destroy);
    }

    private static Process launch(File config) throws IOException {
        List<String> command = new ArrayList<>(List.of(System.getProperty("zebu.binary"), "serve"));
        for (String name : new TreeSet<>(System.getProperties().stringPropertyNames())) {
            if (BARE_PROPERTIES.contains(name) || name.startsWith("zookeeper.")) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        command.add(config.getPath());
        File log = new File(System.getProperty("zebu.log"));
        Process started = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
                .start();
        RUNNING.add(started);
        return started;
    }

    private void end(java.util.function.Consumer<Process> how) {
        Process ending = process;
        if (ending == null) {
            return;
        }
        how.accept(ending);
        try {
            if (!ending.waitFor(LIMIT_MILLIS, TimeUnit.MILLISECONDS)) {
                ending.destroyForcibly().waitFor();
                throw new IllegalStateException("the server did not stop within " + LIMIT_MILLIS + " ms");
            }
        } catch (InterruptedException e) {
            ending.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        RUNNING.remove(ending);
        process = null;
    }

    /**
     * A standalone server is awaited until it serves, as with Apache's. A server of an ensemble is awaited until its port is
     * open: it may need the servers that are started after it.
     */
    private void waitUntilItListens(boolean isCluster) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LIMIT_MILLIS);
        while (System.nanoTime() < end) {
            if (!process.isAlive()) {
                int status = process.exitValue();
                RUNNING.remove(process);
                process = null;
                throw new FailedServerStartException("the server ended with status " + status + "; see its log");
            }
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
                if (isCluster || saysThatItServes(socket)) {
                    return;
                }
            } catch (IOException notYet) {
                // Asked again.
            }
            Thread.sleep(5);
        }
        throw new FailedServerStartException("nothing listens on port " + port);
    }

    private static boolean saysThatItServes(Socket socket) throws IOException {
        socket.setSoTimeout(1000);
        socket.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
        return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8).contains("Mode: standalone");
    }

    private static void write(Properties properties, File file) throws IOException {
        // A test may start a server again whose directory went with its close.
        Files.createDirectories(file.toPath().getParent());
        StringBuilder text = new StringBuilder();
        new TreeMap<>(properties).forEach((name, value) -> text.append(name).append('=').append(value).append('\n'));
        Files.writeString(file.toPath(), text, StandardCharsets.ISO_8859_1);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
