import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Uses Hadoop's file system wasb: folders, large files, seeks, appends, renamed and deleted trees. Arguments: port of the Blob service, key. */
public class Hadoop {
	public static void main(String[] args) throws Exception {
		String account = "devstoreaccount1.blob.localhost:" + args[0];
		Configuration conf = new Configuration();
		conf.set("fs.azure.account.key." + account, args[1]);
		conf.setBoolean("fs.azure.enable.append.support", true);
		try (FileSystem fs = FileSystem.get(new URI("wasb://hadoop@" + account), conf)) {
			Path dir = new Path("/dir"), large = new Path(dir, "sub/large"), text = new Path(dir, "text");
			check(fs.mkdirs(new Path(dir, "empty")), "mkdirs");

			byte[] content = new byte[9_000_000];
			new Random(1).nextBytes(content);
			try (FSDataOutputStream out = fs.create(large)) {
				out.write(content);
			}
			try (FSDataOutputStream out = fs.create(text)) {
				out.write("one ".getBytes(StandardCharsets.UTF_8));
			}
			try (FSDataOutputStream out = fs.append(text)) {
				out.write("two".getBytes(StandardCharsets.UTF_8));
			}

			Path moved = new Path("/moved");
			check(fs.rename(dir, moved), "rename");
			check(!fs.exists(dir), "the old folder is gone");
			FileStatus[] list = fs.listStatus(moved);
			check(list.length == 3, "list " + Arrays.toString(list));
			check(fs.getFileStatus(new Path(moved, "empty")).isDirectory() && fs.getFileStatus(new Path(moved, "text")).getLen() == 7, "status");

			byte[] read = new byte[content.length];
			try (FSDataInputStream in = fs.open(new Path(moved, "sub/large"))) {
				in.readFully(0, read);
				check(Arrays.equals(read, content), "content");
				in.seek(5_000_000);
				check(in.read() == (content[5_000_000] & 0xff), "seek");
			}
			byte[] appended = new byte[7];
			try (FSDataInputStream in = fs.open(new Path(moved, "text"))) {
				in.readFully(appended);
			}
			check(new String(appended, StandardCharsets.UTF_8).equals("one two"), "append");
			check(fs.delete(moved, true) && fs.listStatus(new Path("/")).length == 0, "delete");
		}
	}

	static void check(boolean ok, String what) {
		if (!ok) {
			throw new AssertionError(what);
		}
	}
}
