

@app.blob_trigger(arg_name="blob", path="samples/{name}", connection="AzureWebJobsStorage")
def NAME(blob: func.InputStream) -> None:
    logging.info("NAME got the blob %s of %s bytes", blob.name, blob.length)
