import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.models.PageRange;
import com.azure.storage.blob.specialized.AppendBlobClient;
import com.azure.storage.blob.specialized.BlobLeaseClient;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import com.azure.storage.blob.specialized.BlockBlobClient;
import com.azure.storage.blob.specialized.PageBlobClient;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.QueueMessageItem;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** The Azure SDK for Java: the first and the newest libraries have all that is called here. */
public final class Clients {
    private static final String CONNECTION = System.getenv("LAZULI_CONNECTION_STRING");

    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        blobs(name);
        queues(name);
        tables(name.replace("-", ""));
        System.exit(0);
    }

    private static void check(boolean ok, Object what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    private static byte[] read(InputStream in) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] buffer = new byte[1 << 16];
        for (int n; (n = in.read(buffer)) >= 0; ) {
            out.write(buffer, 0, n);
        }
        return out.toByteArray();
    }

    private static InputStream stream(byte[] b) {
        return new ByteArrayInputStream(b);
    }

    private static void blobs(String name) throws Exception {
        BlobServiceClient service = new BlobServiceClientBuilder().connectionString(CONNECTION).buildClient();
        BlobContainerClient container = service.createBlobContainer(name);
        try {
            service.createBlobContainer(name);
            throw new AssertionError("created twice");
        } catch (BlobStorageException e) {
            check(e.getStatusCode() == 409 && "ContainerAlreadyExists".equals(e.getErrorCode().toString()), e);
        }

        byte[] content = new byte[5 << 20];
        new Random(1).nextBytes(content);
        BlockBlobClient blob = container.getBlobClient("a/b ü").getBlockBlobClient();
        blob.upload(stream(content), content.length);
        check(Arrays.equals(content, read(blob.openInputStream())), "content");
        check(Arrays.equals(Arrays.copyOfRange(content, 5, 15), read(blob.openInputStream(new BlobRange(5, 10L), null))), "range");
        blob.setMetadata(Collections.singletonMap("k", "v"));
        check("v".equals(blob.getProperties().getMetadata().get("k")), "metadata");
        check(blob.createSnapshot().getSnapshotId() != null, "snapshot");

        BlockBlobClient blocks = container.getBlobClient("blocks").getBlockBlobClient();
        List<String> ids = new ArrayList<>();
        for (String part : new String[] {"one", "two"}) {
            String id = Base64.getEncoder().encodeToString(part.getBytes(StandardCharsets.UTF_8));
            blocks.stageBlock(id, stream(part.getBytes(StandardCharsets.UTF_8)), part.length());
            ids.add(id);
        }
        blocks.commitBlockList(ids);
        check("onetwo".equals(new String(read(blocks.openInputStream()), StandardCharsets.UTF_8)), "blocks");

        BlobLeaseClient lease = new BlobLeaseClientBuilder().blobClient(blob).buildClient();
        lease.acquireLease(-1);
        try {
            blob.setMetadata(Collections.emptyMap());
            throw new AssertionError("written without the lease");
        } catch (BlobStorageException e) {
            check(e.getStatusCode() == 412 && "LeaseIdMissing".equals(e.getErrorCode().toString()), e);
        }
        lease.releaseLease();

        AppendBlobClient log = container.getBlobClient("log").getAppendBlobClient();
        log.create();
        log.appendBlock(stream(new byte[10]), 10);
        PageBlobClient page = container.getBlobClient("page").getPageBlobClient();
        page.create(1024);
        page.uploadPages(new PageRange().setStart(512).setEnd(1023), stream(new byte[512]));
        check(page.getProperties().getBlobSize() == 1024, "size of pages");

        List<String> names = new ArrayList<>();
        for (BlobItem item : container.listBlobs()) {
            names.add(item.getName());
        }
        check(names.equals(Arrays.asList("a/b ü", "blocks", "log", "page")), names);
        container.delete();
    }

    private static void queues(String name) {
        QueueClient queue = new QueueServiceClientBuilder().connectionString(CONNECTION).buildClient().createQueue(name);
        queue.sendMessage("aGVsbG8=");
        QueueMessageItem message = queue.receiveMessages(1).iterator().next();
        check(message.getDequeueCount() == 1, message.getDequeueCount());
        queue.deleteMessage(message.getMessageId(), message.getPopReceipt());
        check(!queue.receiveMessages(1).iterator().hasNext(), "a deleted message");
        queue.delete();
    }

    private static void tables(String name) {
        TableClient table = new TableServiceClientBuilder().connectionString(CONNECTION).buildClient().createTable(name);
        List<TableTransactionAction> actions = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            TableEntity entity = new TableEntity("p", String.format("%02d", i)).addProperty("N", i).addProperty("L", 1L << 40).addProperty("D", i + 0.5);
            actions.add(new TableTransactionAction(TableTransactionActionType.CREATE, entity));
        }
        table.submitTransaction(actions);
        List<Object> found = new ArrayList<>();
        ListEntitiesOptions options = new ListEntitiesOptions().setFilter("PartitionKey eq 'p' and N lt 3");
        for (TableEntity entity : table.listEntities(options, null, Context.NONE)) {
            found.add(entity.getProperty("N"));
            check(entity.getProperty("L").equals(1L << 40), entity.getProperty("L"));
        }
        check(found.equals(Arrays.asList(0, 1, 2)), found);
        table.deleteEntity("p", "00");
        table.deleteTable();
    }
}
