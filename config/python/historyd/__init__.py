"""Declare the author of changes to an SQLite store that historyd tracks, and follow what other authors write.

    store = historyd.connect("contacts.sqlite", author="Importer")
    with store:
        store.execute("INSERT INTO person (name) VALUES ('Grace')")
    print(historyd.token(store))

The package needs only Python's standard library. Install it, or copy its folder.
"""

from .author import Author, ExtensionError, connect, declare, install, token
from .feed import Expired, Feed, FeedItem, ObjectID, Refused, Transaction
from .orm import declare_django, declare_sqlalchemy

__all__ = [
    "Author",
    "Expired",
    "ExtensionError",
    "Feed",
    "FeedItem",
    "ObjectID",
    "Refused",
    "Transaction",
    "connect",
    "declare",
    "declare_django",
    "declare_sqlalchemy",
    "install",
    "token",
]
