"""kazoo_client.py HOST:PORT ROOT EXPECTED JSON: one kazoo client with the options in JSON. Prints "done" or a reason.

EXPECTED is the identity that the server must see, as scheme:id, or "refused" or "auth-failed"."""

import json
import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL

address, root, expected, options = sys.argv[1:]
client = KazooClient(address, **json.loads(options))
seen = None
try:
    # Not start(): it asks for the state after it was woken, and calls a refusal that has arrived by then a time-out.
    client.start_async().wait(4 if expected == "refused" else 20)
    if not client.connected:
        raise AuthFailedError if client.client_state == KeeperState.AUTH_FAILED else KazooTimeoutError
    data = bytes(i * 31 % 256 for i in range(900_000))
    client.create(root, data, acl=CREATOR_ALL_ACL)
    if client.get(root)[0] != data:
        sys.exit("the long value came back changed")
    identity = client.get_acls(root)[0][0].id
    seen = f"{identity.scheme}:{identity.id}"
    creates = [client.create_async(f"{root}/n{i}", ephemeral=True) for i in range(200)]
    for create in creates:
        create.get(timeout=30)
    client.stop()
except KazooTimeoutError:
    seen = "refused"
except (AuthFailedError, ConnectionClosedError):
    # Which of the two depends on whether the reply or the close is seen first.
    seen = "auth-failed"
print("done" if seen == expected else f"the result is {seen}")
sys.stdout.flush()
# Threads of a client that never connected must not keep the process.
os._exit(0 if seen == expected else 1)
