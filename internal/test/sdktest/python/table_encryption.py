"""Client-side encryption of azure-cosmosdb-table, the library that defines the format: writes an entity and reads another.

    python table_encryption.py CONNECTION_STRING TABLE

The entity (p, go) must be there and say what the test in tables/python_test.go has written; (p, python) is written. The key with the id "k1" is 32
bytes of 1.
"""

import sys

from azure.cosmosdb.table import EdmType, Entity, EntityProperty, TableService
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap


class Key:
    key = bytes([1]) * 32

    def wrap_key(self, key):
        return aes_key_wrap(self.key, key)

    def unwrap_key(self, key, algorithm):
        assert algorithm == "A256KW", algorithm
        return aes_key_unwrap(self.key, key)

    def get_key_wrap_algorithm(self):
        return "A256KW"

    def get_kid(self):
        return "k1"


def main():
    connection_string, table = sys.argv[1:]
    service = TableService(connection_string=connection_string)
    service.key_encryption_key = Key()
    service.require_encryption = True
    got = service.get_entity(table, "p", "go")
    assert got.Text == "from Go: Grüße 🙂", got
    assert got.Subject == "plain", got
    service.encryption_resolver_function = None
    written = Entity(PartitionKey="p", RowKey="python", Subject="plain")
    written.Text = EntityProperty(EdmType.STRING, "from Python: Grüße 🙂", encrypt=True)
    service.insert_entity(table, written)


main()
