

@app.queue_trigger(arg_name="item", queue_name="items", connection="AzureWebJobsStorage")
def NAME(item: func.QueueMessage) -> None:
    logging.info("NAME got %s, attempt %s", item.get_body().decode(), item.dequeue_count)
