"""Functions of the v2 model with most triggers and bindings."""

import functools
import json
import logging
import os
import threading
import typing

import azure.functions as func
from blue import blueprint

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
app.register_functions(blueprint)
STORAGE = "AzureWebJobsStorage"


def logged(f):
    """A decorator between the framework and the function."""

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        logging.warning("a warning of %s", f.__name__)
        return f(*args, **kwargs)

    return wrapped


@app.route(route="hello/{name?}")
@logged
def hello(req: func.HttpRequest) -> func.HttpResponse:
    text = f"hello {req.route_params.get('name')} {req.params['q']} {req.get_body()!r} {req.headers['x-in']}"
    response = func.HttpResponse(text, headers={"X-A": "1"})
    response.headers.add("Set-Cookie", "a=1; Path=/; HttpOnly")
    response.headers.add("Set-Cookie", "b=2; Max-Age=60")
    return response


@app.route(route="fails")
def fails(req: func.HttpRequest) -> str:
    raise ValueError("on purpose")


@app.route(route="again")
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:00")
def again(req: func.HttpRequest, context: func.Context) -> str:
    retry = context.retry_context
    if retry.retry_count < 2:
        raise ValueError("not yet")
    return f"{retry.retry_count} of {retry.max_retry_count}"


@app.route(route="pid")
def pid(req: func.HttpRequest) -> str:
    return str(os.getpid())


@app.route(route="upload", methods=["POST"])
def upload(req: func.HttpRequest) -> str:
    file = req.files["file"]
    return f"{file.filename} {file.read().hex()}"


@app.route(route="order", methods=["POST"])
@app.queue_output(arg_name="one", queue_name="orders", connection=STORAGE)
@app.queue_output(arg_name="many", queue_name="many", connection=STORAGE)
def order(req: func.HttpRequest, one: func.Out[str], many: func.Out[typing.List[str]], context: func.Context) -> func.HttpResponse:
    def note():
        context.thread_local_storage.invocation_id = context.invocation_id
        logging.info("from a thread")

    t = threading.Thread(target=note)
    t.start()
    t.join()
    one.set(json.dumps(req.get_json()))
    many.set(["a", "b", json.dumps({"c": 3})])
    return func.HttpResponse(status_code=202)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection=STORAGE)
@app.blob_output(arg_name="slip", path="slips/{number}.txt", connection=STORAGE)
@app.table_output(arg_name="row", table_name="orders", partition_key="orders", connection=STORAGE)
def ship(msg: func.QueueMessage, slip: func.Out[str], row: func.Out[str]):
    content = msg.get_json()
    assert msg.insertion_time < msg.expiration_time and msg.id and msg.pop_receipt
    slip.set("one " + content["item"])
    row.set(json.dumps({"RowKey": str(content["number"]), "item": content["item"], "attempt": msg.dequeue_count}))


@app.blob_trigger(arg_name="blob", path="slips/{name}.txt", connection=STORAGE)
@app.blob_input(arg_name="same", path="slips/{name}.txt", connection=STORAGE)
@app.blob_output(arg_name="out", path="slips/copies/{name}.txt", connection=STORAGE)
def copy_slip(blob: func.InputStream, same: func.InputStream, out: func.Out[bytes]):
    content = blob.read()
    if "/copies/" in blob.name:
        return
    assert content == same.read() and len(content) == blob.length and blob.uri.endswith(blob.name)
    out.set(content)


@app.route(route="rows/{key}")
@app.table_input(arg_name="one", table_name="orders", partition_key="orders", row_key="{key}", connection=STORAGE)
@app.table_input(arg_name="all", table_name="orders", partition_key="orders", connection=STORAGE)
def rows(req: func.HttpRequest, one: str, all: str) -> str:
    return f"one: {json.loads(one)['item']}; all: {len(json.loads(all))}"


@app.generic_trigger(arg_name="change", type="tableTrigger", table_name="orders")
@app.queue_output(arg_name="$return", queue_name="changes", connection=STORAGE)
def changed(change: str) -> str:
    content = json.loads(change)
    return content["Change"] + " " + content["Entity"]["item"]


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *", run_on_startup=True, use_monitor=False)
def tick(timer: func.TimerRequest):
    logging.info("tick past due is %s", timer.past_due)


@app.queue_trigger(arg_name="msg", queue_name="in-queue", connection=STORAGE)
@app.queue_output(arg_name="$return", queue_name="out-queue", connection=STORAGE)
def copy(msg: func.QueueMessage) -> str:
    return msg.get_body().decode()
