"""An activity."""

from shared import greeting


def main(name: str) -> str:
    return greeting(name)
