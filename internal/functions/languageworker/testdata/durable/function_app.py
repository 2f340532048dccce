"""Orchestrations and entities with everything that the package of Durable Functions has."""

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


@app.entity_trigger(context_name="context")
def counter(context: df.DurableEntityContext):
    value = context.get_state(lambda: 0)
    operation = context.operation_name
    if operation == "add":
        value += context.get_input()
        context.set_state(value)
        context.set_result(value)
    elif operation == "get":
        context.set_result(value)
    elif operation == "reset":
        context.destruct_on_exit()
    else:
        raise ValueError("no operation " + operation)


@app.orchestration_trigger(context_name="context")
def counts(context: df.DurableOrchestrationContext):
    me = df.EntityId("counter", context.instance_id)
    context.signal_entity(me, "add", 1)
    first = yield context.call_entity(me, "add", 5)
    text = yield context.call_activity("hello", "between")
    several = yield context.task_all([context.call_entity(me, "add", n) for n in (10, 20)])
    try:
        yield context.call_entity(me, "explode")
        caught = ""
    except Exception as e:
        caught = str(e)
    context.signal_entity(me, "add", 1)
    last = yield context.call_entity(me, "get")
    return [first, text, several, caught, last]


@app.orchestration_trigger(context_name="context")
def fetches(context: df.DurableOrchestrationContext):
    base = context.get_input()
    both = yield context.task_all(
        [context.call_http("POST", base + "/api/operation", {"n": 1}), context.call_activity("hello", "beside")]
    )
    missing = yield context.call_http("GET", base + "/api/none")
    text = yield context.call_activity("hello", "after")
    return [both[0]["statusCode"], both[0]["content"], both[1], missing["statusCode"], text]


looked = {}


@app.route(route="operation/{id?}", methods=["GET", "POST"])
def operation(req: func.HttpRequest) -> func.HttpResponse:
    """An operation that is done at the third look at it."""
    number = req.route_params.get("id")
    if req.method == "POST":
        number = str(len(looked))
        looked[number] = 0
    else:
        looked[number] += 1
    if looked[number] < 3:
        headers = {"Location": "/api/operation/" + number, "Retry-After": "0"}
        return func.HttpResponse("not yet", status_code=202, headers=headers)
    return func.HttpResponse("done")


@app.route(route="entity/{key}/{operation?}", methods=["GET", "POST"])
@app.durable_client_input(client_name="client")
async def entity(req: func.HttpRequest, client) -> func.HttpResponse:
    target = df.EntityId("counter", req.route_params["key"])
    if req.method == "POST":
        body = req.get_body().decode()
        await client.signal_entity(target, req.route_params["operation"], json.loads(body) if body else None)
        return func.HttpResponse(status_code=202)
    found = await client.read_entity_state(target)
    return func.HttpResponse(json.dumps([found.entity_exists, found.entity_state]))


@app.route(route="control/{action}/{id}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def control(req: func.HttpRequest, client) -> func.HttpResponse:
    instance, action = req.route_params["id"], req.route_params["action"]
    if action == "start":
        await client.start_new(req.get_body().decode(), instance)
    elif action == "raise":
        await client.raise_event(instance, "go", "a client")
    elif action == "rewind":
        await client.rewind(instance, "by hand")
    elif action != "status":
        await getattr(client, action)(instance, "by hand")
    status = await client.get_status(instance)
    return func.HttpResponse(json.dumps([status.runtime_status.name, status.output]))


@app.orchestration_trigger(context_name="context")
def once(context: df.DurableOrchestrationContext):
    first = yield context.call_activity("hello", "once")
    second = yield context.call_activity("second_time", context.instance_id)
    return [first, second]


@app.activity_trigger(input_name="key")
def second_time(key: str) -> int:
    attempts[key] = attempts.get(key, 0) + 1
    if attempts[key] < 2:
        raise ValueError("the first time")
    return attempts[key]
