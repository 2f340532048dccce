"""Code that the functions share; it is no function."""


def greeting(name: str) -> str:
    return f"hello {name}"
