"""NAME: a workflow with an activity, and an HTTP function that starts it."""

import azure.durable_functions as df
import azure.functions as func

bp = df.Blueprint()


@bp.route(route="NAME/start", methods=["POST"])
@bp.durable_client_input(client_name="client")
async def NAME_start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    instance = await client.start_new("NAME", client_input=["Tokyo", "Seattle", "London"])
    return client.create_check_status_response(req, instance)


@bp.orchestration_trigger(context_name="context")
def NAME(context: df.DurableOrchestrationContext):
    greetings = []
    for city in context.get_input():
        greetings.append((yield context.call_activity("NAME_greet", city)))
    return greetings


@bp.activity_trigger(input_name="city")
def NAME_greet(city: str) -> str:
    return f"Hello, {city}!"
