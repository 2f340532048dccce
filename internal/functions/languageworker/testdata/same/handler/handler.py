"""The functions of ../function_app.py as a custom handler."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def order(call):
    body = json.loads(call["Data"]["req"]["Body"])
    response = {"statusCode": 202, "body": "thanks for " + body["item"], "headers": {"X-Item": body["item"]}}
    return {"Outputs": {"res": response, "message": [body, {"item": "poison"}]}}


def work(call):
    item = json.loads(json.loads(call["Data"]["job"]))["item"]
    attempt = int(call["Metadata"]["DequeueCount"])
    if attempt < 3 or item == "poison":
        raise ValueError("attempt %d" % attempt)
    return {"Outputs": {"out": "attempt %d of %s" % (attempt, item)}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, answer = 200, {"/order": order, "/work": work}[self.path](call)
        except ValueError as e:
            status, answer = 500, {"error": str(e)}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


ThreadingHTTPServer(("127.0.0.1", int(os.environ["FUNCTIONS_CUSTOMHANDLER_PORT"])), Handler).serve_forever()
