"""A feed: what other authors commit, as they commit it.

    python3 -m historyd.feed CONSUMER CONTEXT [SOCKET]      prints each change, until it is stopped
"""

from __future__ import annotations

import errno
import http.client
import json
import logging
import os
import socket
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

#: The control socket of the daemon that runs as the system's service.
SOCKET = "/run/historyd/control.sock"

_log = logging.getLogger("historyd")


def find_socket(environment: Mapping[str, str] = os.environ) -> str:
    """The control socket of the daemon, found as historyctl finds it.

    Where the environment names a folder (RUNTIME_DIRECTORY, STATE_DIRECTORY), it is the one there. Otherwise the user's
    own daemon comes before the system's: first the one that runs as a service of the user, then the one that was
    started by hand.
    """
    for name in "RUNTIME_DIRECTORY", "STATE_DIRECTORY":
        folder = environment.get(name, "").split(":")[0]
        if folder:
            return f"{folder}/control.sock"
    state = environment.get("XDG_STATE_HOME") or environment.get("HOME", "") + "/.local/state"
    places = [f"{state}/historyd/control.sock"]
    if environment.get("XDG_RUNTIME_DIR"):
        places.insert(0, environment["XDG_RUNTIME_DIR"] + "/historyd/control.sock")
    return next(filter(_is_listening, places), SOCKET)


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            # A daemon that refuses this user is one.
            return error.errno in (errno.EACCES, errno.EPERM) and os.path.lexists(path)
    return True


@dataclass(frozen=True)
class ObjectID:
    """The identity of a row, and the row if the feed has values."""

    entity: str
    #: The columns of the primary key and their values; a blob is {"base64": "…"}.
    key: dict[str, Any]
    url: str
    #: The row as of the transaction's `values_at`, if the feed is configured with "values": true; None if it is gone.
    values: Optional[dict[str, Any]] = None
    #: The columns whose text or blob was cut, with the full sizes in bytes.
    cut_values: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Transaction:
    """A transaction of another author. Each object is in the list of its final result."""

    token: str
    #: None if the writer declared no author.
    author: Optional[str]
    context: Optional[str]
    timestamp: str
    inserted: list[ObjectID] = field(default_factory=list)
    updated: list[ObjectID] = field(default_factory=list)
    deleted: list[ObjectID] = field(default_factory=list)
    #: Where the history ended when the values were read.
    values_at: Optional[str] = None
    #: False for a part of a very large transaction, except the last part.
    is_whole: bool = True


@dataclass(frozen=True)
class Expired:
    """History was lost: read the store itself, then acknowledge. The transactions after `token` follow."""

    #: expired, restored, or late.
    reason: str
    token: str
    is_whole: bool = True


FeedItem = Union[Transaction, Expired]


class Refused(Exception):
    """The daemon answered with an error."""

    #: Errors that pass without a change of the program: the daemon restarts, or the store is replaced or restored.
    TEMPORARY = ("stopping", "storeNotOpen", "feedInUse", "tooManyConnections", "tokenForeign", "tokenAhead")

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.code: str = error.get("code", "")

    @property
    def is_temporary(self) -> bool:
        return self.code in self.TEMPORARY


_PASSING = (OSError, http.client.HTTPException, Refused)


class _Pause:
    """Growing pauses between attempts to reach the daemon."""

    def __init__(self) -> None:
        self._seconds = 0.02
        self._silent_until = 0.0

    def wait(self, after: Optional[Exception] = None) -> None:
        """Waits, or raises an error that does not pass by itself."""
        if isinstance(after, PermissionError) or (isinstance(after, Refused) and not after.is_temporary):
            raise after
        if after is not None and time.monotonic() >= self._silent_until:
            advice = "" if isinstance(after, Refused) else ". Start historyd, or name its socket"
            _log.warning("The daemon cannot be reached, and is tried again: %s%s", after, advice)
            self._silent_until = time.monotonic() + 300
        time.sleep(self._seconds)
        self._seconds = min(self._seconds * 2, 5.0)


class Feed:
    """Iterates over the transactions of other authors, and reconnects by itself.

    An acknowledged transaction does not come again. After a reconnection, all others do. Without a `socket_path`, the
    daemon is found by `find_socket`. While it cannot be reached, the logger "historyd" says so at first, and then every
    five minutes.

        for item in Feed("MainApp", "live"):
            …
            feed.acknowledge(item)
    """

    def __init__(
        self, consumer: str, context: str, *, store: Optional[str] = None, socket_path: Optional[str] = None
    ) -> None:
        self._socket_path = socket_path
        self._query = {"consumer": consumer, "context": context}
        if store is not None:
            self._query["store"] = store

    def __iter__(self) -> Iterator[FeedItem]:
        pause = _Pause()
        while True:
            try:
                for line in self._request("GET", "feed"):
                    item = _item(json.loads(line))
                    pause = _Pause()
                    if item is not None:
                        yield item
                pause.wait()
            except _PASSING as error:
                pause.wait(error)

    def acknowledge(self, item: FeedItem) -> None:
        """Tells the daemon that the program has processed an item and all items before it.

        Returns when the daemon has saved that. While the daemon does not run, waits for it.
        """
        pause = _Pause()
        while item.is_whole:
            try:
                with self._request("POST", "feed/acknowledge", token=item.token) as answer:
                    answer.read()
                return
            except _PASSING as error:
                # If the store was replaced or restored, the next item says what to do. If the daemon was restarted,
                # it sends the item again.
                if isinstance(error, Refused) and error.code in ("tokenForeign", "tokenAhead", "tokenNotSent"):
                    return
                pause.wait(error)

    def _request(self, method: str, name: str, **more: str) -> http.client.HTTPResponse:
        connection = _UnixConnection(self._socket_path or find_socket())
        query = urllib.parse.urlencode({**self._query, **more}, quote_via=urllib.parse.quote)
        connection.request(method, f"/v1/{name}?{query}")
        answer = connection.getresponse()
        if answer.status >= 400:
            raise Refused(json.load(answer)["error"])
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(self._path)
        except OSError as error:
            self.sock.close()
            error.filename = self._path
            raise


def _item(line: dict[str, Any]) -> Optional[FeedItem]:
    if "error" in line:
        raise Refused(line["error"])
    if "expired" in line:
        return Expired(line["expired"]["reason"], line["expired"]["after"])
    if "token" not in line:
        return None
    return Transaction(
        token=line["token"],
        author=line["author"],
        context=line["context"],
        timestamp=line["timestamp"],
        inserted=_objects(line["insertedObjectIDs"]),
        updated=_objects(line["updatedObjectIDs"]),
        deleted=_objects(line["deletedObjectIDs"]),
        values_at=line.get("valuesAt"),
        is_whole=line.get("part", {"last": True})["last"],
    )


def _objects(found: list[dict[str, Any]]) -> list[ObjectID]:
    return [
        ObjectID(
            each["entityName"], each["objectID"], each["objectIDURL"], each.get("values"), each.get("cutValues", {}))
        for each in found
    ]


def main(consumer: str, context: str, socket_path: Optional[str] = None) -> None:
    feed = Feed(consumer, context, socket_path=socket_path)
    for item in feed:
        if isinstance(item, Expired):
            print("read everything again", flush=True)
        else:
            for what in ("inserted", "updated", "deleted"):
                for each in getattr(item, what):
                    print(what, each.entity, json.dumps(each.key), flush=True)
        feed.acknowledge(item)


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit("usage: python3 -m historyd.feed CONSUMER CONTEXT [SOCKET]")
    try:
        main(*sys.argv[1:])
    except Refused as refusal:
        sys.exit(str(refusal))
    except KeyboardInterrupt:
        pass
