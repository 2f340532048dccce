import com.azure.core.util.BinaryData;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueClientBuilder;
import com.azure.storage.queue.models.QueueStorageException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import reactor.core.Exceptions;

/** The client for Java of run.py; see README.md. */
public class Client {
    private static RequestRetryOptions retries(String secondary) {
        return new RequestRetryOptions(RetryPolicyType.EXPONENTIAL, 4, Duration.ofSeconds(3), Duration.ofMillis(1), Duration.ofMinutes(2), secondary);
    }

    public static void main(String[] args) throws Exception {
        byte[] content = "0123456789".repeat(20_000).getBytes(StandardCharsets.US_ASCII);
        String connection = System.getenv("LAZULI_CONNECTION_STRING");
        Matcher settings = Pattern.compile("AccountName=([^;]*).*BlobEndpoint=http://[^:]*:(\\d+)").matcher(connection);
        settings.find();
        String account = settings.group(1), port = settings.group(2);
        // Many systems do not know names below localhost.
        Path hosts = Files.createTempFile("hosts", null);
        Files.writeString(hosts, "127.0.0.1 localhost " + account + ".blob.localhost " + account + "-secondary.blob.localhost\n");
        hosts.toFile().deleteOnExit();
        System.setProperty("jdk.net.hosts.file", hosts.toString());
        String byHost = connection.replaceFirst("BlobEndpoint=[^;]*", "BlobEndpoint=http://" + account + ".blob.localhost:" + port);
        RequestRetryOptions retry = retries(null);
        BlobContainerClient both = new BlobServiceClientBuilder().connectionString(byHost).retryOptions(retries(account + "-secondary.blob.localhost:" + port)).buildClient().getBlobContainerClient("faults");
        BlobContainerClient box = new BlobServiceClientBuilder().connectionString(connection).retryOptions(retry).buildClient().getBlobContainerClient("faults");
        QueueClient queue = new QueueClientBuilder().connectionString(connection).queueName("faults").retryOptions(retry).buildClient();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String outcome = "ok";
            try {
                switch (words[0]) {
                    case "put" -> box.getBlobClient(words[1]).getBlockBlobClient().upload(BinaryData.fromBytes(content), true);
                    case "get", "secondary" -> {
                        if (!Arrays.equals((words[0].equals("get") ? box : both).getBlobClient("b").downloadContent().toBytes(), content)) {
                            outcome = "wrong bytes";
                        }
                    }
                    default -> queue.sendMessage(words[1]);
                }
            } catch (BlobStorageException e) {
                outcome = String.valueOf(e.getErrorCode());
            } catch (QueueStorageException e) {
                outcome = String.valueOf(e.getErrorCode());
            } catch (RuntimeException e) {
                outcome = Exceptions.unwrap(e) instanceof TimeoutException ? "TimeoutException" : "connection error";
            }
            System.out.println(outcome);
            System.out.flush();
        }
    }
}
