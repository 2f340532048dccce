import asyncio

import azure.functions as func
import azurefunctions.extensions.bindings.blob as blob
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, Response, StreamingResponse

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
seen = asyncio.Event()


@app.route(route="stream")
async def stream(req: Request) -> StreamingResponse:
    async def parts():
        yield "first "
        await seen.wait()
        yield "last"

    return StreamingResponse(parts(), media_type="text/plain")


@app.route(route="upload/{name}")
async def upload(req: Request) -> JSONResponse:
    seen.set()
    size = 0
    async for part in req.stream():
        size += len(part)
    response = JSONResponse({"size": size, "x": req.query_params.get("x")}, status_code=201)
    response.set_cookie("a", "b")
    return response


@app.route(route="fails")
async def fails(req: Request) -> Response:
    raise ValueError("on purpose")


@app.blob_trigger(arg_name="client", path="incoming/{name}", connection="AzureWebJobsStorage")
@app.blob_input(arg_name="copies", path="copies", connection="AzureWebJobsStorage")
@app.blob_input(arg_name="download", path="incoming/{name}", connection="AzureWebJobsStorage")
def copy(client: blob.BlobClient, copies: blob.ContainerClient, download: blob.StorageStreamDownloader):
    size = client.get_blob_properties().size
    copies.upload_blob(client.blob_name, b"%d %s" % (size, download.readall()), overwrite=True)


@app.route(route="list")
@app.blob_input(arg_name="client", path="copies", connection="AzureWebJobsStorage")
def list_copies(req: Request, client: blob.ContainerClient) -> JSONResponse:
    return JSONResponse([b.name + " " + client.download_blob(b.name).readall().decode() for b in client.list_blobs()])
