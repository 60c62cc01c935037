import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Stands between a client and the server and can cut the line: how a client loses its connection in these suites. */
final class Proxy implements Closeable {
    private final ServerSocket listener;
    private final String serverHost;
    private final int serverPort;
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private volatile boolean passing = true;

    Proxy(String server) throws IOException {
        int colon = server.lastIndexOf(':');
        serverHost = server.substring(0, colon);
        serverPort = Integer.parseInt(server.substring(colon + 1));
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::acceptAll);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Closes every connection and refuses new ones until {@link #restore}. */
    void cut() {
        passing = false;
        open.forEach(Proxy::shut);
        open.clear();
    }

    void restore() {
        passing = true;
    }

    @Override
    public void close() throws IOException {
        cut();
        listener.close();
    }

    private void acceptAll() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                if (!passing) {
                    shut(client);
                    continue;
                }
                Socket server = new Socket(serverHost, serverPort);
                open.add(client);
                open.add(server);
                start(() -> copy(client, server));
                start(() -> copy(server, client));
                if (!passing) {
                    shut(client);
                    shut(server);
                }
            } catch (IOException ended) {
                // The listener was closed, or the server does not listen; the client will try again.
            }
        }
    }

    private void copy(Socket from, Socket to) {
        byte[] buffer = new byte[65_536];
        try {
            InputStream input = from.getInputStream();
            OutputStream output = to.getOutputStream();
            for (int count = input.read(buffer); count >= 0; count = input.read(buffer)) {
                output.write(buffer, 0, count);
            }
        } catch (IOException ended) {
            // Either side may end at any time.
        } finally {
            shut(from);
            shut(to);
            open.remove(from);
            open.remove(to);
        }
    }

    private static void start(Runnable task) {
        Thread thread = new Thread(task, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private static void shut(Socket socket) {
        try {
            socket.close();
        } catch (IOException ignored) {
            // It is closed as far as anybody can tell.
        }
    }
}
