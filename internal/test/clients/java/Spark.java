import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.DataTypes;

/**
 * Spark writes tables by abfs: a partitioned one with Hadoop's manifest committer, and one of Delta. Two processes write to each at a time, and
 * one of them is killed. Arguments: key of the account, what a child process does.
 */
public class Spark {
	private static final String ROOT = "abfs://spark@devstoreaccount1.dfs.core.windows.net/";
	private static final String TABLE = ROOT + "table", DELTA = ROOT + "delta";
	private static final int ROWS = 1000, COMMITS = 8, PER_COMMIT = 10;

	public static void main(String[] args) throws Exception {
		SparkSession spark = session(args[0]);
		switch (args.length > 1 ? args[1] : "") {
			case "append" -> append(spark, args[2], false);
			case "hold" -> append(spark, args[2], true);
			case "delta" -> appendDelta(spark, args[2]);
			default -> {
				partitioned(spark, args[0]);
				delta(spark, args[0]);
			}
		}
		spark.stop();
		System.exit(0);
	}

	private static SparkSession session(String key) {
		return SparkSession.builder().master("local[2]").appName("lazuli")
				.config("spark.ui.enabled", "false")
				.config("spark.driver.host", "127.0.0.1")
				.config("spark.sql.shuffle.partitions", "2")
				.config("spark.hadoop.fs.azure.account.key.devstoreaccount1.dfs.core.windows.net", key)
				.config("spark.hadoop.fs.azure.ssl.channel.mode", "Default_JSSE")
				.config("spark.hadoop.mapreduce.outputcommitter.factory.scheme.abfs", "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory")
				// Hadoop's documentation wants it where jobs write to one directory at a time.
				.config("spark.hadoop.mapreduce.fileoutputcommitter.cleanup.skipped", "true")
				.config("spark.sql.sources.commitProtocolClass", "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol")
				.config("spark.sql.parquet.output.committer.class", "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter")
				.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
				.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
				.getOrCreate();
	}

	/** Appends rows in two tasks. With hold the second task never ends. */
	private static void append(SparkSession spark, String writer, boolean hold) {
		spark.udf().register("hold", (UDF1<Long, Long>) id -> {
			if (hold && id == ROWS - 1) {
				Thread.sleep(Long.MAX_VALUE);
			}
			return id;
		}, DataTypes.LongType);
		spark.range(0, ROWS, 1, 2).selectExpr("hold(id) AS id", "id % 10 AS part", "'" + writer + "' AS writer")
				.write().mode("append").partitionBy("part").parquet(TABLE);
	}

	private static void partitioned(SparkSession spark, String key) throws Exception {
		FileSystem fs = new org.apache.hadoop.fs.Path(ROOT).getFileSystem(spark.sparkContext().hadoopConfiguration());
		append(spark, "first", false);
		equal(counts(spark.read().parquet(TABLE)), Map.of("first", (long) ROWS));
		try (InputStream in = fs.open(new org.apache.hadoop.fs.Path(TABLE, "_SUCCESS"))) {
			String success = new String(in.readAllBytes(), StandardCharsets.UTF_8);
			check(success.contains("ManifestCommitter") || success.contains("manifest-committer"), success);
		}

		Child killed = new Child(key, "hold", "killed"), other = new Child(key, "append", "other");
		String manifests = TABLE + "/_temporary";
		// The manifest of a task of each writer; the files of the writer that holds cannot become visible.
		await(() -> other.ended() && files(fs, manifests, "-manifest.json") >= 3, "the other writer, and a task of the one that is killed");
		equal(other.process.exitValue(), 0);
		check(!killed.ended(), "the writer that holds ended");
		killed.process.destroyForcibly().waitFor();
		equal(counts(spark.read().parquet(TABLE)), Map.of("first", (long) ROWS, "other", (long) ROWS));
		new Child(key, "append", "killed").succeed();
		equal(counts(spark.read().parquet(TABLE)), Map.of("first", (long) ROWS, "other", (long) ROWS, "killed", (long) ROWS));
		check(fs.delete(new org.apache.hadoop.fs.Path(manifests), true), "the temporary directory");

		// One partition is replaced, the others stay. Spark 4.0 does not do that with the manifest committer: the rows come to those that are there.
		spark.conf().set("spark.sql.sources.commitProtocolClass", "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol");
		spark.conf().set("spark.sql.parquet.output.committer.class", "org.apache.parquet.hadoop.ParquetOutputCommitter");
		spark.range(0, 7).selectExpr("id", "3L AS part", "'replaced' AS writer").write().mode("overwrite")
				.option("partitionOverwriteMode", "dynamic").partitionBy("part").parquet(TABLE);
		Dataset<Row> table = spark.read().parquet(TABLE);
		equal(counts(table.where("part = 3")), Map.of("replaced", 7L));
		equal(table.count(), 3L * ROWS * 9 / 10 + 7);
		check(fs.rename(new org.apache.hadoop.fs.Path(TABLE), new org.apache.hadoop.fs.Path(ROOT + "renamed")), "renamed");
		equal(spark.read().parquet(ROOT + "renamed").count(), 3L * ROWS * 9 / 10 + 7);
		System.out.println("== the partitioned table is as it should be");
	}

	private static void appendDelta(SparkSession spark, String writer) {
		for (int i = 0; i < COMMITS; i++) {
			spark.range(i * PER_COMMIT, (i + 1) * PER_COMMIT).selectExpr("id", "'" + writer + "' AS writer").write().format("delta").mode("append").save(DELTA);
			System.out.println("committed " + i);
		}
	}

	private static void delta(SparkSession spark, String key) throws Exception {
		spark.range(0, PER_COMMIT).selectExpr("id", "'first' AS writer").write().format("delta").save(DELTA);
		Child killed = new Child(key, "delta", "killed"), other = new Child(key, "delta", "other");
		await(() -> killed.printed("committed 2"), "commits of the writer that is killed");
		killed.process.destroyForcibly().waitFor();
		other.succeed();
		Map<String, Long> found = counts(spark.read().format("delta").load(DELTA));
		equal(found.get("first"), (long) PER_COMMIT);
		equal(found.get("other"), (long) COMMITS * PER_COMMIT);
		long of = found.get("killed");
		check(of >= 3 * PER_COMMIT && of % PER_COMMIT == 0, found);
		// Each commit is one version, and none is lost.
		equal(spark.sql("DESCRIBE HISTORY delta.`" + DELTA + "`").count(), 1 + COMMITS + of / PER_COMMIT);
		spark.sql("DELETE FROM delta.`" + DELTA + "` WHERE writer = 'killed'");
		spark.sql("UPDATE delta.`" + DELTA + "` SET id = id + 1000 WHERE writer = 'first'");
		equal(counts(spark.read().format("delta").load(DELTA)), Map.of("first", (long) PER_COMMIT, "other", (long) COMMITS * PER_COMMIT));
		equal(spark.read().format("delta").option("versionAsOf", 0).load(DELTA).count(), (long) PER_COMMIT);
		System.out.println("== the table of Delta is as it should be");
	}

	private static Map<String, Long> counts(Dataset<Row> rows) {
		Map<String, Long> n = new HashMap<>();
		for (Row r : rows.groupBy("writer").count().collectAsList()) {
			n.put(r.getString(0), r.getLong(1));
		}
		return n;
	}

	private static int files(FileSystem fs, String folder, String suffix) {
		int n = 0;
		try {
			RemoteIterator<LocatedFileStatus> files = fs.listFiles(new org.apache.hadoop.fs.Path(folder), true);
			while (files.hasNext()) {
				if (files.next().getPath().getName().endsWith(suffix)) {
					n++;
				}
			}
		} catch (java.io.FileNotFoundException e) {
			return 0; // the directory may be renamed meanwhile
		} catch (java.io.IOException e) {
			throw new java.io.UncheckedIOException(e);
		}
		return n;
	}

	private static void await(BooleanSupplier done, String what) throws InterruptedException {
		for (int i = 0; i < 1500 && !done.getAsBoolean(); i++) {
			Thread.sleep(200);
		}
		check(done.getAsBoolean(), "waited in vain for " + what);
	}

	/** A child process with the options of this one. */
	private static class Child {
		final Process process;
		private final List<String> lines = new ArrayList<>();

		Child(String key, String... args) throws Exception {
			List<String> command = new ArrayList<>();
			command.add(ProcessHandle.current().info().command().get());
			for (String p : new String[] {"https.proxyHost", "https.proxyPort", "javax.net.ssl.trustStore", "javax.net.ssl.trustStorePassword", "log4j2.configurationFile"}) {
				if (System.getProperty(p) != null) {
					command.add("-D" + p + "=" + System.getProperty(p));
				}
			}
			command.addAll(List.of("-Xmx1g", "-cp", System.getProperty("java.class.path"), "Spark", key));
			command.addAll(List.of(args));
			process = new ProcessBuilder(command).redirectErrorStream(true).start();
			Thread reader = new Thread(() -> {
				try (BufferedReader in = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
					for (String line; (line = in.readLine()) != null;) {
						System.out.println(args[1] + ": " + line);
						synchronized (lines) {
							lines.add(line);
						}
					}
				} catch (java.io.IOException e) {
					System.out.println(args[1] + ": " + e); // it was killed
				}
			});
			reader.setDaemon(true);
			reader.start();
			Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
		}

		boolean ended() {
			return !process.isAlive();
		}

		boolean printed(String line) {
			synchronized (lines) {
				return lines.contains(line);
			}
		}

		void succeed() throws InterruptedException {
			check(process.waitFor(3, TimeUnit.MINUTES), "a writer does not end");
			equal(process.exitValue(), 0);
		}
	}

	private static void check(boolean ok, Object what) {
		if (!ok) {
			throw new AssertionError(what);
		}
	}

	private static void equal(Object got, Object want) {
		check(Objects.equals(got, want), got + ", want " + want);
	}
}
