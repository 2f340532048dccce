import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.jar.JarFile;
import java.util.regex.Pattern;

import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs Hadoop's own tests of abfs, unchanged. Arguments: the jar of the tests, a regular expression for the names of classes below
 * org.apache.hadoop.fs.azurebfs, and a file of the tests that fail whatever the server does, each with its reason.
 */
public class AbfsTests {
	private static final String PACKAGE = "org/apache/hadoop/fs/azurebfs/";

	private static final Map<String, String> expected = new HashMap<>();
	private static final List<String> unexpected = new ArrayList<>();
	private static int passed, skipped, known;

	public static void main(String[] args) throws Exception {
		for (String line : Files.readAllLines(Path.of(args[2]))) {
			int colon = line.indexOf(": ");
			if (colon > 0 && !line.startsWith("#")) {
				expected.put(line.substring(0, colon), line.substring(colon + 2));
			}
		}
		Pattern pattern = Pattern.compile(args[1]);
		List<String> classes = new ArrayList<>();
		try (JarFile jar = new JarFile(args[0])) {
			jar.stream().map(e -> e.getName()).filter(n -> n.startsWith(PACKAGE) && n.matches(".*/ITest[A-Za-z0-9]*\\.class"))
					.map(n -> n.substring(0, n.length() - 6)).filter(n -> pattern.matcher(n.substring(PACKAGE.length())).matches())
					.sorted().forEach(n -> classes.add(n.replace('/', '.')));
		}
		for (String name : classes) {
			long began = System.currentTimeMillis();
			JUnitCore core = new JUnitCore();
			core.addListener(new Listener());
			core.run(Class.forName(name));
			System.out.printf("%s: %.1f s%n", name, (System.currentTimeMillis() - began) / 1e3);
		}
		for (String line : unexpected) {
			System.out.println("FAIL " + line);
			System.out.println("== failed " + line.split("\n", 3)[0] + ": " + line.split("\n", 3)[1]);
		}
		System.out.printf("== %d tests passed, %d skipped, %d failed, %d failed as they must here%n", passed, skipped, unexpected.size(), known);
		System.exit(unexpected.isEmpty() && passed > 0 ? 0 : 1); // threads of the driver do not end by themselves
	}

	private static class Listener extends RunListener {
		private boolean ok;

		@Override
		public void testStarted(Description test) {
			ok = true;
		}

		@Override
		public void testFinished(Description test) {
			if (ok) {
				passed++;
			}
		}

		@Override
		public void testIgnored(Description test) {
			skipped++;
		}

		@Override
		public void testAssumptionFailure(Failure failure) {
			ok = false;
			skipped++;
			System.out.println("skipped " + name(failure) + ": " + failure.getMessage());
		}

		@Override
		public void testFailure(Failure failure) {
			ok = false;
			String name = name(failure);
			if (expected.containsKey(name.replaceFirst("\\[.*", ""))) {
				known++;
				System.out.println("== expected " + name + ": " + expected.get(name.replaceFirst("\\[.*", "")));
				System.out.println(failure.getMessage());
				return;
			}
			String trace = failure.getTrace();
			unexpected.add(name + "\n" + trace.substring(0, Math.min(trace.length(), 3000)));
		}
	}

	private static String name(Failure failure) {
		Description test = failure.getDescription();
		String simple = test.getClassName().substring(test.getClassName().lastIndexOf('.') + 1);
		return simple + "." + (test.getMethodName() == null ? "setup" : test.getMethodName());
	}
}
