"""A blueprint with a coroutine."""

import asyncio

import azure.functions as func

blueprint = func.Blueprint()


@blueprint.route(route="blue")
async def blue(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(0)
    return func.HttpResponse("blue async")
