"""Where the programs find the dfs endpoint: at the host name of the account, as SDKs expect."""

import json
import os
import time
import urllib.parse
import urllib.request

from azure.core.credentials import AccessToken

from account import ACCOUNT, KEY, SETTINGS

ENDPOINT = urllib.parse.urlsplit(SETTINGS["DfsEndpoint"])
DFS = f"{ENDPOINT.scheme}://{ACCOUNT}.dfs.localhost:{ENDPOINT.port}"

# The libraries find the account's name in hosts of Azure alone.
KEY_CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}


def token_credential():
    """A credential with tokens of the built-in issuer."""
    class Token:
        def get_token(self, *scopes, **kwargs):
            r = urllib.request.Request(
                os.environ["IDENTITY_ENDPOINT"] + "?resource=https://storage.azure.com&api-version=2019-08-01",
                headers={"X-IDENTITY-HEADER": os.environ["IDENTITY_HEADER"]})
            with urllib.request.urlopen(r) as answer:
                return AccessToken(json.load(answer)["access_token"], int(time.time()) + 3600)

    return Token()
