"""The account that the programs use."""

import os

CONNECTION = os.environ["LAZULI_CONNECTION_STRING"]
SETTINGS = dict(part.split("=", 1) for part in CONNECTION.rstrip(";").split(";"))
ACCOUNT, KEY = SETTINGS["AccountName"], SETTINGS["AccountKey"]
BLOB, QUEUE = SETTINGS["BlobEndpoint"], SETTINGS["QueueEndpoint"]
