"""A queue function that fails once for each message."""

import azure.functions as func


def main(msg: func.QueueMessage) -> str:
    if msg.dequeue_count == 1:
        raise ValueError("on purpose")
    return f"{msg.get_body().decode()} {msg.dequeue_count}"
