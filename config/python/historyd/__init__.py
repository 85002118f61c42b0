"""Declare the author of changes to an SQLite store that historyd tracks, follow what other authors write, and write plugins.

    store = historyd.connect("contacts.sqlite", author="Importer")
    with store:
        store.execute("INSERT INTO person (name) VALUES ('Grace')")
    print(historyd.token(store))

The package needs only Python's standard library. Install it, or copy its folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .author import Author, ExtensionError, connect, declare, install, token
from .orm import declare_django, declare_sqlalchemy

if TYPE_CHECKING:
    from .feed import Expired, Feed, FeedItem, ObjectID, Refused, Transaction, find_socket
    from .plugin import Call, Change, Context, Permanent, Plugin, Reject, RetryAfter

__all__ = [
    "Author",
    "Call",
    "Change",
    "Context",
    "Expired",
    "ExtensionError",
    "Feed",
    "FeedItem",
    "ObjectID",
    "Permanent",
    "Plugin",
    "Refused",
    "Reject",
    "RetryAfter",
    "Transaction",
    "connect",
    "declare",
    "declare_django",
    "declare_sqlalchemy",
    "find_socket",
    "install",
    "token",
]


def __getattr__(name: str) -> Any:
    # Imported when it is used: `python3 -m historyd.feed` would otherwise warn that it is there already.
    if name in __all__:
        from . import feed, plugin

        return getattr(feed if hasattr(feed, name) else plugin, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
