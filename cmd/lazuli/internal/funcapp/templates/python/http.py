

@app.route(route="NAME", methods=["GET", "POST"], auth_level=func.AuthLevel.LEVEL)
def NAME(req: func.HttpRequest) -> func.HttpResponse:
    name = req.params.get("name") or req.get_body().decode() or "world"
    logging.info("NAME was called by %s", name)
    return func.HttpResponse(f"Hello, {name}!")
