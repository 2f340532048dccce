"""Fixtures of pytest."""

import pytest

import lazuli


@pytest.fixture(scope="session")
def lazuli_server():
    """A server for the session, without data on disk: its connection_string is the development account's."""
    with lazuli.start() as server:
        yield server
