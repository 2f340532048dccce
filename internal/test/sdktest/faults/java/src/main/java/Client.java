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
import java.time.Duration;
import java.util.Arrays;

/** The client for Java of run.py; see README.md. */
public class Client {
    public static void main(String[] args) throws Exception {
        byte[] content = "0123456789".repeat(20_000).getBytes(StandardCharsets.US_ASCII);
        String connection = System.getenv("LAZULI_CONNECTION_STRING");
        RequestRetryOptions retry = new RequestRetryOptions(RetryPolicyType.EXPONENTIAL, 4, Duration.ofSeconds(5), Duration.ofMillis(1), Duration.ofMillis(10), null);
        BlobContainerClient box = new BlobServiceClientBuilder().connectionString(connection).retryOptions(retry).buildClient().getBlobContainerClient("faults");
        QueueClient queue = new QueueClientBuilder().connectionString(connection).queueName("faults").retryOptions(retry).buildClient();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String outcome = "ok";
            try {
                switch (words[0]) {
                    case "put" -> box.getBlobClient(words[1]).getBlockBlobClient().upload(BinaryData.fromBytes(content), true);
                    case "get" -> {
                        if (!Arrays.equals(box.getBlobClient("b").downloadContent().toBytes(), content)) {
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
                outcome = "connection error";
            }
            System.out.println(outcome);
            System.out.flush();
        }
    }
}
