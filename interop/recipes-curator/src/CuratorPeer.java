import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's recipes behind lines of text: {@code CuratorPeer HOST:PORT TIMEOUT_MS}. recipes-peer/src/main.rs says what
 * they are.
 */
public final class CuratorPeer {
    /** Something that was taken. */
    interface Held {
        void release() throws Exception;
    }

    private final CuratorFramework client;
    private final Map<String, Held> held = new ConcurrentHashMap<>();
    /** Curator's locks belong to threads: each name has its own. */
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final LockVerbs locks;
    private final OtherVerbs others;

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
        this.locks = new LockVerbs(client);
        this.others = new OtherVerbs(client);
    }

    public static void main(String[] arguments) throws Exception {
        int timeout = Integer.parseInt(arguments[1]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], timeout, 15_000, new RetryOneTime(200));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection");
        }
        CuratorPeer peer = new CuratorPeer(client);
        ExecutorService callers = Executors.newCachedThreadPool(CuratorPeer::daemon);
        say("0 ok ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            List<String> rest = Arrays.asList(words).subList(1, words.length);
            peer.threadOf(rest, callers).submit(() -> peer.answer(words[0], rest));
        }
        System.exit(0);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    private ExecutorService threadOf(List<String> words, ExecutorService callers) {
        return switch (words.get(0)) {
            case "acquire", "try", "release" ->
                threads.computeIfAbsent(words.get(1), name -> Executors.newSingleThreadExecutor(CuratorPeer::daemon));
            default -> callers;
        };
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void answer(String number, List<String> words) {
        try {
            say(number + " ok " + carryOut(words));
        } catch (Throwable failure) {
            say(number + " error " + String.valueOf(failure).replace('\n', ' '));
        }
    }

    private String carryOut(List<String> words) throws Exception {
        List<String> rest = words.subList(1, words.size());
        switch (words.get(0)) {
            case "acquire" -> {
                held.put(rest.get(0), locks.take(rest.subList(1, rest.size()), -1));
                return "";
            }
            case "try" -> {
                Held one = locks.take(rest.subList(1, rest.size()), 0);
                if (one == null) {
                    return "no";
                }
                held.put(rest.get(0), one);
                return "yes";
            }
            case "contend" -> {
                return locks.contend(rest);
            }
            case "release" -> {
                held.remove(rest.get(0)).release();
                return "";
            }
            case "make" -> {
                client.create().forPath(rest.get(0), new byte[0]);
                return "";
            }
            case "read" -> {
                return text(client.getData().forPath(rest.get(0)));
            }
            default -> {
                return others.carryOut(words.get(0), rest, held);
            }
        }
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String joined(List<String> words) {
        return String.join(",", new ArrayList<>(words));
    }
}
