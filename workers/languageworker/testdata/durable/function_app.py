"""Orchestrations with everything that the package of Durable Functions has but entities."""

import datetime
import json

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route(route="start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client) -> func.HttpResponse:
    body = req.get_body().decode()
    instance = await client.start_new(req.route_params["name"], client_input=json.loads(body) if body else None)
    return await client.wait_for_completion_or_create_check_status_response(req, instance, 60_000, 100)


@app.route(route="raise/{name}/{event}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def raise_event(req: func.HttpRequest, client) -> func.HttpResponse:
    instance = await client.start_new(req.route_params["name"])
    await client.raise_event(instance, req.route_params["event"], {"from": "a client"})
    return await client.wait_for_completion_or_create_check_status_response(req, instance, 60_000, 100)


@app.orchestration_trigger(context_name="context")
def chain(context: df.DurableOrchestrationContext):
    names = []
    for city in context.get_input():
        names.append((yield context.call_activity("hello", city)))
    context.set_custom_status({"said": len(names)})
    return names


@app.orchestration_trigger(context_name="context")
def fan(context: df.DurableOrchestrationContext):
    retry = df.RetryOptions(10, 3)
    tasks = [context.call_activity("hello", {"n": n}) for n in range(3)]
    tasks += [context.call_activity_with_retry("flaky", retry, f"{context.instance_id}-{n}") for n in range(3)]
    results = yield context.task_all(tasks)
    last = yield context.call_activity("hello", "the end")
    return results + [last]


@app.orchestration_trigger(context_name="context")
def gives_up(context: df.DurableOrchestrationContext):
    try:
        yield context.call_activity_with_retry("fails", df.RetryOptions(10, 2), None)
    except Exception as e:
        caught = "on purpose" in str(e)
    text = yield context.call_activity("hello", "after")
    return [caught, text]


@app.orchestration_trigger(context_name="context")
def waits(context: df.DurableOrchestrationContext):
    event = context.wait_for_external_event("go")
    timeout = context.create_timer(context.current_utc_datetime + datetime.timedelta(seconds=50))
    first = yield context.task_any([event, timeout])
    if not timeout.is_completed:
        timeout.cancel()
    yield context.create_timer(context.current_utc_datetime + datetime.timedelta(milliseconds=100))
    return [first == event, event.result]


@app.orchestration_trigger(context_name="context")
def parent(context: df.DurableOrchestrationContext):
    results = yield context.call_sub_orchestrator("chain", ["a", "b"])
    count = yield context.call_sub_orchestrator("again", 1)
    return [results, count]


@app.orchestration_trigger(context_name="context")
def again(context: df.DurableOrchestrationContext):
    n = context.get_input()
    yield context.call_activity("hello", n)
    if n < 3:
        context.continue_as_new(n + 1)
        return
    return n


@app.orchestration_trigger(context_name="context")
def broken(context: df.DurableOrchestrationContext):
    yield context.call_activity("hello", "x")
    raise ValueError("the orchestration is broken")


@app.activity_trigger(input_name="value")
def hello(value) -> str:
    return f"hello {json.dumps(value)}"


attempts = {}


@app.activity_trigger(input_name="key")
def flaky(key: str) -> int:
    attempts[key] = attempts.get(key, 0) + 1
    if attempts[key] < 3:
        raise ValueError("not yet")
    return attempts[key]


@app.activity_trigger(input_name="nothing")
def fails(nothing) -> None:
    raise ValueError("on purpose")
