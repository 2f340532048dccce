"""fsspec's abstract tests of copy, get, put, move, open and pipe, with adlfs: run by pytest."""

import adlfs
import fsspec.tests.abstract as abstract
import pytest

from account import CONNECTION


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        fs = adlfs.AzureBlobFileSystem(connection_string=CONNECTION)
        if not fs.exists("fsspec"):
            fs.mkdir("fsspec")
        return fs

    @pytest.fixture
    def fs_path(self):
        return "fsspec"

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass
