"""The functions of handler/handler.py in the v2 model."""

import json

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="order", methods=["POST"])
@app.queue_output(arg_name="message", queue_name="work", connection="AzureWebJobsStorage")
def order(req: func.HttpRequest, message: func.Out[str]) -> func.HttpResponse:
    body = req.get_json()
    message.set(json.dumps([body, {"item": "poison"}]))
    return func.HttpResponse("thanks for " + body["item"], status_code=202, headers={"X-Item": body["item"]})


@app.queue_trigger(arg_name="job", queue_name="work", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="out", connection="AzureWebJobsStorage")
def work(job: func.QueueMessage, out: func.Out[str]):
    item = job.get_json()["item"]
    if job.dequeue_count < 3 or item == "poison":
        raise ValueError("attempt %d" % job.dequeue_count)
    out.set("attempt %d of %s" % (job.dequeue_count, item))

