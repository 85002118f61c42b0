"""Declare who writes to a SQLite store that historyd tracks, and follow what others write.

    store = historyd.connect("contacts.sqlite", author="Importer")
    with store:
        store.execute("INSERT INTO person (name) VALUES ('Grace')")
    print(historyd.token(store))

The package needs nothing but Python's standard library. Install it, or copy its folder.
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
