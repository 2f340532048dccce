// A first program: one entity, one message and one blob, through the Azure SDK for JavaScript.
//
// npm install @azure/data-tables @azure/storage-queue @azure/storage-blob
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";

const connection = process.env.LAZULI_CONNECTION_STRING || process.env.AzureWebJobsStorage ||
  process.env.AZURE_STORAGE_CONNECTION_STRING || "UseDevelopmentStorage=true";

// The Tables SDK refuses plain HTTP unless told; the short connection string tells it by itself.
const employees = TableClient.fromConnectionString(connection, "Employees", { allowInsecureConnection: true });
await employees.createTable(); // no error if it exists
await employees.upsertEntity({ partitionKey: "Sales", rowKey: "0001", name: "Ada", since: 1843 });
const ada = await employees.getEntity("Sales", "0001");
console.log("table:", ada.name, ada.since);

const orders = QueueServiceClient.fromConnectionString(connection).getQueueClient("orders");
await orders.createIfNotExists();
await orders.sendMessage("order 42");
const [message] = (await orders.receiveMessages()).receivedMessageItems;
console.log("queue:", message.messageText);
await orders.deleteMessage(message.messageId, message.popReceipt);

const reports = BlobServiceClient.fromConnectionString(connection).getContainerClient("reports");
await reports.createIfNotExists();
const text = "all is well";
await reports.getBlockBlobClient("today.txt").upload(text, text.length);
console.log("blob: ", (await reports.getBlockBlobClient("today.txt").downloadToBuffer()).toString());
