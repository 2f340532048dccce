"""Starts the workflow and answers with its result, or with its addresses after ten seconds."""

import azure.durable_functions as df
import azure.functions as func


async def main(req: func.HttpRequest, starter: str) -> func.HttpResponse:
    client = df.DurableOrchestrationClient(starter)
    instance = await client.start_new("flow", client_input=req.get_body().decode())
    return await client.wait_for_completion_or_create_check_status_response(req, instance, 10_000, 50)
