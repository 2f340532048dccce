"""An HTTP function."""

import logging

import azure.functions as func
from shared import greeting


def main(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    logging.warning("a warning of %s", context.function_name)
    return func.HttpResponse(greeting(req.route_params["name"]), status_code=201, headers={"X-A": req.params.get("q", "")})
