import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs checks one after the other and prints one line for each: ok, not ok or skip. */
final class Suite {
    /** A limit for a broken server, not a delay. */
    static final long PATIENCE_MILLIS = 30_000;

    private static final long CHECK_LIMIT_MILLIS = 180_000;

    private final String prefix;

    private final ExecutorService runner = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "check");
        thread.setDaemon(true);
        return thread;
    });

    interface Check {
        void run() throws Throwable;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** What a check throws to be counted as skipped. */
    static final class Skipped extends RuntimeException {
        Skipped(String reason) {
            super(reason);
        }
    }

    /** Names of checks begin with the prefix. */
    Suite(String prefix) {
        this.prefix = prefix;
    }

    void check(String name, Check check) {
        String only = System.getProperty("only");
        if (only != null && !name.contains(only)) {
            return;
        }
        Future<String> outcome = runner.submit(() -> {
            try {
                check.run();
                return "ok " + prefix + name;
            } catch (Skipped skipped) {
                return "skip " + prefix + name + ": " + skipped.getMessage();
            } catch (Throwable failure) {
                return "not ok " + prefix + name + ": " + describe(failure);
            }
        });
        try {
            System.out.println(outcome.get(CHECK_LIMIT_MILLIS, TimeUnit.MILLISECONDS));
        } catch (TimeoutException late) {
            outcome.cancel(true);
            System.out.println("not ok " + prefix + name + ": not at its end after " + CHECK_LIMIT_MILLIS + " ms");
        } catch (Exception impossible) {
            System.out.println("not ok " + prefix + name + ": " + describe(impossible));
        }
        System.out.flush();
    }

    private static String describe(Throwable failure) {
        StringBuilder text = new StringBuilder();
        text.append(String.valueOf(failure).replace('\n', ' '));
        for (StackTraceElement frame : failure.getStackTrace()) {
            String owner = frame.getClassName();
            // Only frames of the suites: they are the ones outside any package.
            if (!owner.contains(".") && !owner.startsWith("Suite")) {
                text.append(" at ").append(frame.getFileName()).append(':').append(frame.getLineNumber());
                break;
            }
        }
        return text.toString();
    }

    static void equal(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected <" + expected + ">, got <" + actual + ">");
        }
    }

    static void that(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    /** Waits until the condition holds. */
    static void eventually(String what, Condition condition) throws Exception {
        eventually(what, PATIENCE_MILLIS, condition);
    }

    static void eventually(String what, long patienceMillis, Condition condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMillis);
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                throw new AssertionError(what + ": did not happen within " + patienceMillis + " ms");
            }
            Thread.sleep(10);
        }
    }
}
