"""A coroutine with an entry point of its own name."""

import asyncio
import typing

import azure.functions as func

from .parts import split


async def take(req: func.HttpRequest, orders: func.Out[typing.List[str]]) -> str:
    await asyncio.sleep(0)
    orders.set(split(req.get_body().decode()))
    return "taken"
