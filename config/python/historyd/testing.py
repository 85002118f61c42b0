"""Test a plugin without a daemon: with pytest, or anything else.

    calls = historyd.testing.Calls(plugin)
    calls.observe("new-people", calls.insert("person", {"id": 1}, values={"id": 1, "name": "Ada"}))

With the plugin's command instead of its `Plugin`, the calls go to a process, over the protocol of a coprocess:

    with historyd.testing.Calls(["python3", "search.py"]) as calls: …

For pytest, `plugin_calls` is a fixture that makes such calls and ends the process after the test. It is there if the
package is installed; else name it in conftest.py: pytest_plugins = ["historyd.testing"].
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Optional, Union

from .plugin import Plugin

STORE = "00000000-0000-4000-8000-000000000001"


class CallFailed(Exception):
    """The plugin answered with an error, or not at all, or could not be started."""


class Calls:
    """Makes calls as the daemon does, and gives their results."""

    def __init__(
        self, plugin: Union[Plugin, list[str]], *, store: str = "test", consumer: str = "Test",
        author: Optional[str] = "Writer", path: str = "", environment: Optional[dict[str, str]] = None,
    ) -> None:
        self._members = {"store": store, "consumer": consumer}
        self._author, self._path = author, path
        self._number = 0
        self._plugin = plugin if isinstance(plugin, Plugin) else None
        self._process: Optional[subprocess.Popen[bytes]] = None
        if not isinstance(plugin, Plugin):
            self._process = _started(plugin, environment)

    def __enter__(self) -> Calls:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process as the daemon does: it closes standard input."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()

    # Changes

    def insert(self, entity: str, key: dict[str, Any], *, values: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        return self._change("insert", entity, key, values)

    def update(
        self, entity: str, key: dict[str, Any], changed: list[str], *, values: Optional[dict[str, Any]] = None
    ) -> dict[str, Any]:
        return {**self._change("update", entity, key, values), "changedProperties": changed}

    def delete(self, entity: str, key: dict[str, Any], *, tombstone: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        change = self._change("delete", entity, key, None)
        if tombstone is not None:
            change["tombstone"] = {"attributes": {}, "values": _encoded(tombstone)}
        return change

    # Calls

    def observe(self, hook: str, *changes: dict[str, Any]) -> None:
        """A call for one transaction; the changes are of one entity and operation."""
        self.call("observe", hook=f"plugin/{hook}", transaction=self._transaction(), contexts=list(changes))

    def merge(self, hook: str, *transactions: list[dict[str, Any]]) -> Any:
        """A call for a batch, and its result: "goOn", "finish" or a verdict."""
        batch = [{**self._transaction(), "changes": changes} for changes in transactions]
        return self.call("merge", hook=f"plugin/{hook}", transactions=batch, contexts=[])

    def expired(self, hook: str, reason: str = "expired") -> None:
        after = self._token()
        self.call("expired", hook=f"plugin/{hook}", reason=reason, lost=f"{STORE}:0", after=after)

    def checkpoint(self, context: str) -> Optional[str]:
        token: Optional[str] = self.call("context.checkpoint", context=context, path=self._path)
        return token

    def merge_into(self, context: str, *changes: dict[str, Any]) -> None:
        """Merges one transaction into a context that the plugin keeps."""
        after = f"{STORE}:{self._number}"
        transaction = {**self._transaction(), "changes": list(changes)}
        self.call(
            "context.merge", context=context, path=self._path, after=after, through=transaction["token"],
            transactions=[transaction])

    def refill(self, context: str, *entities: str) -> None:
        self.call(
            "context.refill", context=context, path=self._path, through=f"{STORE}:{self._number}",
            entities=list(entities))

    def call(self, method: str, **members: Any) -> Any:
        """Any call; raises what the plugin raises, or CallFailed."""
        members = {**self._members, "delivery": f"test/{self._number}/{method}", **members}
        if self._plugin is not None:
            # Over JSON, as it would come.
            return self._plugin.answer(method, json.loads(json.dumps(members)))
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise CallFailed("The process has ended.")
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": members}
        line = b""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise CallFailed(f"The process ended without an answer, with status {self._process.wait()}.")
        answer = json.loads(line)
        if answer.get("id") != self._number or "error" in answer:
            raise CallFailed(answer.get("error", {}).get("message", f"The answer has the wrong id: {answer}"))
        return answer.get("result")

    def _token(self) -> str:
        self._number += 1
        return f"{STORE}:{self._number}"

    def _transaction(self) -> dict[str, Any]:
        return {
            "token": self._token(), "author": self._author, "context": None, "processID": 1,
            "timestamp": "2026-01-07T10:30:00.250Z",
        }

    def _change(
        self, operation: str, entity: str, key: dict[str, Any], values: Optional[dict[str, Any]]
    ) -> dict[str, Any]:
        name = ",".join(str(value) for value in key.values())
        change = {
            "entityName": entity, "operation": operation, "objectID": _encoded(key),
            "objectIDURL": f"x-history://{STORE}/{entity}/p{name}",
        }
        return change if values is None else {**change, "values": _encoded(values)}


def _started(command: list[str], environment: Optional[dict[str, str]]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    except OSError as error:
        advice = "Check its path, and the interpreter in its first line."
        if isinstance(error, PermissionError):
            advice = f'Run "chmod +x {command[0]}", or name its interpreter before it.'
        raise CallFailed(f"{command[0]} cannot be started: {error.strerror}. {advice}") from error


def _encoded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in values.items()
    }


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def plugin_calls() -> Iterator[Callable[..., Calls]]:
        """Makes `Calls`, whose processes end with the test."""
        made: list[Calls] = []

        def make(plugin: Union[Plugin, list[str]], **options: Any) -> Calls:
            made.append(Calls(plugin, **options))
            return made[-1]

        yield make
        for calls in made:
            calls.close()
