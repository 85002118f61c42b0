#!/usr/bin/python3
"""A live program: it hears what others change in a store, by a feed, and shows it.

    feed.py SOCKET CONSUMER CONTEXT        feed.py /run/historyd/control.sock MainApp live

It may be stopped, and so may the daemon: it goes on after the last transaction that it acknowledged.
"""

import http.client
import json
import socket
import sys
import time
import urllib.parse


class Daemon(http.client.HTTPConnection):
    """One connection to the control socket, for one request."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, method, request, **query):
        self.request(method, f"/v1/{request}?{urllib.parse.urlencode(query)}")
        answer = self.getresponse()
        if answer.status >= 400:
            raise Refused(json.load(answer)["error"])
        return answer


class Refused(Exception):
    """The daemon's answer is an error."""

    def passes(self):
        return self.args[0]["code"] in (
            "stopping",
            "storeNotOpen",
            "feedInUse",
            # The store was replaced or restored: the next connection says so.
            "tokenForeign",
            "tokenAhead",
        )


def show(transaction):
    """What a program does with it: here, a line for each object."""
    for what in ("inserted", "updated", "deleted"):
        for thing in transaction[what + "ObjectIDs"]:
            print(what, thing["entityName"], json.dumps(thing["objectID"]), flush=True)


def follow(path, feed):
    """Until the daemon ends the stream, or goes."""
    for line in Daemon(path).ask("GET", "feed", **feed):
        message = json.loads(line)
        if "error" in message:
            raise Refused(message["error"])
        elif "begins" in message:
            continue
        elif "expired" in message:
            # Changes were lost. Read the store itself; what happens after this token follows.
            done = message["expired"]["after"]
            print("read everything anew", flush=True)
        else:
            show(message)
            # A transaction of very many objects comes in parts.
            if not message.get("part", {"last": True})["last"]:
                continue
            done = message["token"]
        # From here on it does not come again.
        Daemon(path).ask("POST", "feed/acknowledge", token=done, **feed)


def main(path, consumer, context):
    feed = {"consumer": consumer, "context": context}
    while True:
        try:
            follow(path, feed)
        except (OSError, http.client.HTTPException) as error:
            print(f"The daemon is gone: {error!r}.", file=sys.stderr)
        except Refused as refusal:
            if not refusal.passes():
                sys.exit(refusal.args[0]["message"])
        time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
