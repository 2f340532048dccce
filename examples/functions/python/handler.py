"""A custom handler for Azure Functions in Python, with the standard library alone.

The host posts every invocation to /<function> as {"Data": {...}, "Metadata": {...}} and takes {"Outputs": {...}, "Logs": [...],
"ReturnValue": ...}. Texts in Data hold JSON: a queue message "hi" comes as "\"hi\"".
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def hello(data, metadata):
    name = data["req"]["Params"].get("name") or data["req"]["Query"].get("name") or "world"
    return {"Outputs": {"res": {"statusCode": 200, "body": f"Hello, {name}!"}}}


def order(data, metadata):
    body = json.loads(data["req"]["Body"])
    if "id" not in body:
        return {"Outputs": {"res": {"statusCode": 400, "body": {"error": "an order needs an id"}}}}
    return {
        "Outputs": {"message": json.dumps(body), "res": {"statusCode": 202, "body": {"accepted": body["id"]}}},
        "Logs": [f"order {body['id']} accepted"],
    }


def ship(data, metadata):
    order = json.loads(json.loads(data["order"]))
    if not order.get("item"):
        raise ValueError("there is nothing to ship")  # 500: tried again, and in the end put to orders-poison
    return {
        "Outputs": {
            "slip": f"{order['item']} for order {order['id']}, attempt {metadata.get('DequeueCount', 1)}",
            "row": {"RowKey": str(order["id"]), "Item": order["item"], "Pieces": order.get("pieces", 1)},
        },
        "ReturnValue": [f"order {order['id']} is on its way", f"invoice for order {order['id']}"],
        "Logs": [f"order {order['id']} shipped"],
    }


def upper(data, metadata):
    return {"ReturnValue": json.loads(data["text"]).upper()}


def tick(data, metadata):
    return {"Outputs": {"ticks": "past due" if data["timer"]["IsPastDue"] else "on time"}}


FUNCTIONS = {"/" + f.__name__: f for f in (hello, order, ship, upper, tick)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # An answer is written in two pieces; the second is not to wait

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, None
        try:
            answer = FUNCTIONS[self.path](call["Data"], call["Metadata"])
        except Exception as e:
            status, answer = 500, {"error": repr(e)}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        pass


if __name__ == "__main__":
    port = int(os.environ["FUNCTIONS_CUSTOMHANDLER_PORT"])
    print(f"listening on port {port}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
