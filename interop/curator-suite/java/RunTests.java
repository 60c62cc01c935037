import java.io.PrintStream;
import java.util.Optional;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the JUnit tests of one class and prints a line for each: "ok METHOD", "not ok METHOD: why" or "skip METHOD: why".
 * RunTests CLASS [METHOD...]
 */
public class RunTests {
    public static void main(String[] words) throws Exception {
        // Tests print too; only this stream carries results.
        PrintStream results = System.out;
        System.setOut(System.err);
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request()
                .configurationParameter("junit.jupiter.execution.timeout.testable.method.default", "180 s");
        Class<?> tests = Class.forName(words[0]);
        if (words.length == 1) {
            request.selectors(DiscoverySelectors.selectClass(tests));
        }
        for (int i = 1; i < words.length; i++) {
            request.selectors(DiscoverySelectors.selectMethod(tests, words[i]));
        }
        LauncherDiscoveryRequest wanted = request.build();
        Launcher launcher = LauncherFactory.create();
        launcher.execute(wanted, new Lines(results));
        results.flush();
        // Threads that a test left behind do not keep the process.
        System.exit(0);
    }

    private static final class Lines implements TestExecutionListener {
        private final PrintStream results;

        Lines(PrintStream results) {
            this.results = results;
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            results.println("skip " + name(test) + ": " + oneLine(reason));
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            Optional<Throwable> why = result.getThrowable();
            if (result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
                if (test.isTest()) {
                    results.println("ok " + name(test));
                }
            } else if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
                results.println("skip " + name(test) + ": " + oneLine(why.map(Throwable::toString).orElse("aborted")));
            } else {
                why.ifPresent(Throwable::printStackTrace);
                results.println("not ok " + name(test) + ": " + oneLine(why.map(Throwable::toString).orElse("failed")));
            }
            results.flush();
        }

        private static String name(TestIdentifier test) {
            String method = test.getSource()
                    .filter(MethodSource.class::isInstance)
                    .map(source -> ((MethodSource) source).getMethodName())
                    .orElse("");
            if (method.isEmpty()) {
                return test.getSource().filter(ClassSource.class::isInstance).isPresent() ? "(class)" : test.getDisplayName();
            }
            // Rounds of a repeated or parameterized test share the method and differ in the display name.
            String shown = test.getDisplayName().replace("()", "");
            return shown.equals(method) ? method : method + "[" + shown.replace(": ", "=").replaceAll("\\s+", "_") + "]";
        }

        private static String oneLine(String text) {
            String line = String.valueOf(text).replaceAll("\\s+", " ").trim();
            return line.length() > 300 ? line.substring(0, 300) : line;
        }
    }
}
