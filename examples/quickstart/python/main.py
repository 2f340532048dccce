"""A first program: one entity, one message and one blob, through the Azure SDK for Python.

pip install azure-data-tables azure-storage-queue azure-storage-blob
"""

import os

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

# The published development account. (The SDK for Python does not know the short form UseDevelopmentStorage=true.)
DEVELOPMENT = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;"
    "QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;"
    "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"
)
VARIABLES = ["LAZULI_CONNECTION_STRING", "AzureWebJobsStorage", "AZURE_STORAGE_CONNECTION_STRING"]
connection = next(filter(None, map(os.environ.get, VARIABLES)), DEVELOPMENT)

employees = TableServiceClient.from_connection_string(connection).create_table_if_not_exists("Employees")
employees.upsert_entity({"PartitionKey": "Sales", "RowKey": "0001", "Name": "Ada", "Since": 1843})
ada = employees.get_entity("Sales", "0001")
print("table:", ada["Name"], ada["Since"])

queues = QueueServiceClient.from_connection_string(connection)
if not any(q.name == "orders" for q in queues.list_queues(name_starts_with="orders")):
    queues.create_queue("orders")
orders = queues.get_queue_client("orders")
orders.send_message("order 42")
message = next(iter(orders.receive_messages()))
print("queue:", message.content)
orders.delete_message(message)

reports = BlobServiceClient.from_connection_string(connection).get_container_client("reports")
if not reports.exists():
    reports.create_container()
reports.upload_blob("today.txt", b"all is well", overwrite=True)
print("blob: ", reports.download_blob("today.txt").readall().decode())
