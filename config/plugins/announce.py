#!/usr/bin/python3
"""A plugin in mode "coprocess": it is started once and answers JSON-RPC 2.0 requests, one in each line.

Its observer hook writes a line to standard error for each group of changes; historyd logs it.
Its merge hook rejects the transactions of the authors in ANNOUNCE_REJECT (separated by commas),
and accepts all others.
"""

import json
import os
import sys

REJECTED = {name for name in os.environ.get("ANNOUNCE_REJECT", "").split(",") if name}


def observe(call):
    """One transaction's changes of one entity and operation. Any result means success."""
    changes = call["contexts"]
    author = call["transaction"]["author"] or "an unknown author"
    first = changes[0]
    print(
        f"{author}: {len(changes)} {first['operation']} of {first['entityName']} in {call['store']},"
        f" for {call['consumer']}",
        file=sys.stderr,
        flush=True,
    )


def merge(call):
    """A batch of transactions: "goOn", "finish", or a verdict with single ones rejected."""
    rejected = [t["token"] for t in call["transactions"] if t["author"] in REJECTED]
    return {"verdict": "goOn", "reject": rejected} if rejected else "goOn"


METHODS = {"observe": observe, "merge": merge}


def answer(line):
    """The answer to one request. A hook that raises an exception has failed: it is called again."""
    request_id = None
    try:
        request = json.loads(line)
        request_id = request["id"]
        method = METHODS.get(request["method"])
        if method is None:
            return failure(request_id, -32601, f"Unknown method {request['method']!r}.")
        return {"jsonrpc": "2.0", "id": request_id, "result": method(request["params"])}
    except Exception as error:  # report every failure to the daemon, and continue
        return failure(request_id, -32603, f"{type(error).__name__}: {error}")


def failure(request_id, code, message):
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


# Bytes, so that the locale does not matter. Standard input ends when the daemon stops.
for line in sys.stdin.buffer:
    print(json.dumps(answer(line)), flush=True)
