"""A module beside the function."""


def split(text):
    return text.split(",")
