"""Write a plugin of historyd: functions for hooks, and contexts that the plugin keeps.

    plugin = historyd.Plugin()

    @plugin.observer("new-people")
    def new_people(call: historyd.Call) -> None:
        for change in call.changes:
            print(change.key["id"], change.values)

    if __name__ == "__main__":
        plugin.run()

`run` serves both modes: a coprocess answers call after call, a oneshot plugin answers one. What the functions print goes
to the daemon's log. An exception fails the call, which the daemon repeats: as the manifest says, or as `RetryAfter` or
`Permanent` does.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Optional, Protocol, Union


@dataclass(frozen=True)
class Change:
    """What happened to a row."""

    entity: str
    #: insert, update or delete.
    operation: str
    #: The columns of the primary key and their values.
    key: dict[str, Any]
    url: str
    #: The row as of the call's `values_at`, for a hook with "values": true; None if the row is gone, or for a delete.
    values: Optional[dict[str, Any]] = None
    #: The columns whose text or blob was cut, with the full sizes in bytes.
    cut_values: dict[str, int] = field(default_factory=dict)
    #: For an update: the columns whose value changed.
    changed: list[str] = field(default_factory=list)
    #: For a delete: the preserved columns.
    tombstone: Optional[dict[str, Any]] = None


@dataclass(frozen=True)
class Transaction:
    """A transaction, in a merge hook's batch with its changes."""

    token: str
    author: Optional[str]
    context: Optional[str]
    timestamp: str
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    """What all calls have."""

    store: str
    consumer: str
    #: The hook as plugin/hook, or the context's name.
    hook: str
    #: The same when the call is repeated.
    delivery: Optional[str]
    #: Where the history ended when the values were read.
    values_at: Optional[str]
    #: False for a part of a large group or transaction, except the last part.
    is_whole: bool
    #: The members of the call as they came.
    members: dict[str, Any]

    @property
    def transaction(self) -> Transaction:
        """The transaction of an observer's call."""
        return _transaction(self.members["transaction"])

    @property
    def changes(self) -> list[Change]:
        """The changes of an observer's call, all of one entity and operation; of a batch, those of all transactions."""
        if "transactions" in self.members:
            return [change for each in self.transactions for change in each.changes]
        return [_change(each) for each in self.members.get("contexts", [])]

    @property
    def transactions(self) -> list[Transaction]:
        """The transactions of a batch."""
        return [_transaction(each) for each in self.members.get("transactions", [])]

    @property
    def is_replay(self) -> bool:
        """Whether the call is made once more because an operator moved the consumer back."""
        return bool(self.members.get("replay", False))

    @property
    def reason(self) -> str:
        """Why history was lost: expired, restored, late or recreated."""
        return str(self.members["reason"])


@dataclass(frozen=True)
class Reject:
    """A merge hook's result: later hooks and the default merge do not see these transactions."""

    tokens: list[str]


GO_ON = "goOn"
FINISH = "finish"
MergeResult = Union[None, str, Reject]


class Context(Protocol):
    """A context that the plugin keeps: an index, a cache, another database."""

    def checkpoint(self, call: Call) -> Optional[str]:
        """The token that the context is at; None if it is to be filled."""

    def merge(self, call: Call) -> None:
        """Takes in the changes, and saves `call.members["through"]` as its token."""

    def refill(self, call: Call) -> None:
        """Reads all entities from the store, and saves `call.members["through"]` as its token."""


class RetryAfter(Exception):
    """The call may succeed after some seconds: the daemon makes it again then. A oneshot plugin cannot name a time, and
    is called again after the longest delay of its manifest."""

    def __init__(self, seconds: float, reason: str = "It is too early.") -> None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"RetryAfter needs a number of seconds, not {seconds!r}.")
        super().__init__(reason)
        self.seconds = seconds


class Permanent(Exception):
    """The call will never succeed: what the manifest's "onFailure" says happens at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


#: Exit statuses of a oneshot plugin that mean the same (sysexits.h).
_DATA_ERROR, _TEMPORARY_FAILURE = 65, 75


class UnknownMethod(Exception):
    """There is no function for this call."""


class Plugin:
    """The functions of a plugin, by the names of its hooks in the manifest."""

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, Optional[str]], Callable[[Call], Any]] = {}
        self._contexts: dict[str, Context] = {}

    def observer(self, hook: Optional[str] = None) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
        """Names the function of an observer hook; without a name, of all that have none."""
        return self._name("observe", hook)

    def merge(
        self, hook: Optional[str] = None
    ) -> Callable[[Callable[[Call], MergeResult]], Callable[[Call], MergeResult]]:
        """Names the function of a merge hook. It returns GO_ON (or None), FINISH, or Reject."""
        return self._name("merge", hook)

    def expired(self, hook: Optional[str] = None) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
        """Names the function that is called when history was lost, before any other call of the hook."""
        return self._name("expired", hook)

    def context(self, name: str, kept: Context) -> None:
        """Keeps the context of this name."""
        self._contexts[name] = kept

    def _name(self, method: str, hook: Optional[str]) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        def named(body: Callable[[Call], Any]) -> Callable[[Call], Any]:
            self._hooks[method, hook] = body
            return body

        return named

    def answer(self, method: str, members: dict[str, Any]) -> Any:
        """The result of a call, as the protocol has it. Raises UnknownMethod if there is no function for it."""
        call = Call(
            store=members.get("store", ""), consumer=members.get("consumer", ""),
            hook=members.get("hook", members.get("context", "")), delivery=members.get("delivery"),
            values_at=members.get("valuesAt"), is_whole=members.get("part", {"last": True})["last"], members=members)
        if method.startswith("context."):
            kept = self._contexts.get(call.hook)
            body = getattr(kept, method.removeprefix("context."), None)
        else:
            name = call.hook.rpartition("/")[2]
            body = self._hooks.get((method, name)) or self._hooks.get((method, None))
        if body is None:
            raise UnknownMethod(f"There is no function for {method} of {call.hook!r}.")
        result = body(call)
        if isinstance(result, Reject):
            return {"verdict": GO_ON, "reject": result.tokens}
        return GO_ON if method == "merge" and result is None else result

    def run(self) -> None:
        """Answers the daemon's calls: one if it says so in the environment, else until standard input ends."""
        # Bytes, so that the locale does not matter.
        calls, answers = sys.stdin.buffer, sys.stdout.buffer
        # Standard output is the protocol's; what is printed goes to the log.
        sys.stdout = sys.stderr
        if "HISTORYD_METHOD" in os.environ:
            self._answer_once(os.environ["HISTORYD_METHOD"], calls, answers)
        else:
            for line in calls:
                answers.write(json.dumps(self._response(json.loads(line))).encode() + b"\n")
                answers.flush()

    def _answer_once(self, method: str, calls: BinaryIO, answers: BinaryIO) -> None:
        try:
            result = self.answer(method, json.loads(calls.readline()))
        except UnknownMethod:
            # A oneshot plugin has no other way to say that a loss is of no concern.
            if method != "expired":
                raise
            return
        except (RetryAfter, Permanent) as error:
            traceback.print_exc()
            # The last line is the reason.
            print(str(error).replace("\n", " "), file=sys.stderr, flush=True)
            sys.exit(_DATA_ERROR if isinstance(error, Permanent) else _TEMPORARY_FAILURE)
        if method == "merge":
            answers.write(json.dumps(result).encode() + b"\n")
            answers.flush()

    def _response(self, request: dict[str, Any]) -> dict[str, Any]:
        response = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = self.answer(request["method"], request["params"])
            return {**response, "result": result if request["method"] in ("merge", "context.checkpoint") else None}
        except UnknownMethod as error:
            return {**response, "error": {"code": -32601, "message": str(error)}}
        except Exception as error:
            traceback.print_exc()
            failure: dict[str, Any] = {"code": -32000, "message": f"{type(error).__name__}: {error}"}
            if isinstance(error, RetryAfter):
                failure["data"] = {"retryAfter": error.seconds}
            elif isinstance(error, Permanent):
                failure["data"] = {"permanent": True}
            return {**response, "error": failure}


def _transaction(found: dict[str, Any]) -> Transaction:
    return Transaction(
        found["token"], found.get("author"), found.get("context"), found.get("timestamp", ""),
        [_change(each) for each in found.get("changes", [])])


def _change(found: dict[str, Any]) -> Change:
    return Change(
        entity=found["entityName"], operation=found["operation"], key=_values(found["objectID"]) or {},
        url=found["objectIDURL"], values=_values(found.get("values")), cut_values=found.get("cutValues", {}),
        changed=found.get("changedProperties", []), tombstone=_values(found.get("tombstone", {}).get("values")))


def _values(found: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
    """With blobs, and text that is not UTF-8, as bytes."""
    if found is None:
        return None
    return {
        name: base64.b64decode(next(iter(value.values()))) if isinstance(value, dict) else value
        for name, value in found.items()
    }
