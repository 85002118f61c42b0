"""Authors of connections."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Iterator
from typing import Any, Optional

#: Where the extension is looked for, after the environment variable HISTORYD_EXTENSION.
PLACES = ("/usr/local/lib/historyd/libhistory.so", "/usr/lib/historyd/libhistory.so")

#: The argument with which the triggers call `sqlite_compileoption_get` to get the origin of a change.
WHO_WRITES = 1212765012

_installed: Optional[ctypes.CDLL] = None


class ExtensionError(RuntimeError):
    """The extension libhistory.so is missing, or this Python cannot use it."""


def connect(
    database: str,
    author: str,
    context: Optional[str] = None,
    *,
    extension: Optional[str] = None,
    **arguments: Any,
) -> sqlite3.Connection:
    """Opens a store under an author's name. Other arguments are those of `sqlite3.connect`."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        install(extension)
    connection: sqlite3.Connection = sqlite3.connect(database, **arguments)
    try:
        declare(connection, author, context, extension=extension)
    except BaseException:
        connection.close()
        raise
    return connection


def declare(
    connection: Any,
    author: str,
    context: Optional[str] = None,
    *,
    extension: Optional[str] = None,
) -> Optional[Awaitable[None]]:
    """Declares the author of a connection's transactions from now on.

    The connection is one of sqlite3, or of a library that wraps it and has the same methods. One of aiosqlite does it
    on its own thread, before any statement that is executed later: `await` the result to get its errors.
    """
    if hasattr(connection, "run_async"):  # SQLAlchemy's, around one of aiosqlite.
        connection.run_async(lambda driver: declare(driver, author, context, extension=extension))
        return None
    if hasattr(connection, "__aenter__"):
        return _declare_on_its_thread(connection, author, context, extension)
    if not _knows_authors(connection):
        _load(connection, extension)
    connection.execute("SELECT history_author(?, ?)", (author, context)).fetchall()
    return None


def _declare_on_its_thread(
    connection: Any, author: str, context: Optional[str], extension: Optional[str]
) -> Awaitable[None]:
    try:
        # What SQLAlchemy uses of aiosqlite as well: the functions for the thread, in order.
        underlying, functions = connection._conn, connection._tx
    except AttributeError:
        raise TypeError(
            f"The author of a {type(connection).__name__} cannot be declared: it is neither sqlite3's connection nor "
            "aiosqlite's. Declare it on sqlite3's connection, on that one's thread."
        ) from None
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    work = functools.partial(declare, underlying, author, context, extension=extension)
    functions.put_nowait((result, work))
    return result


def token(connection: sqlite3.Connection) -> Optional[str]:
    """The token of the connection's last committed transaction that recorded something; None before the first one.

    Raises LookupError if no store of the connection is tracked: nothing is recorded then.
    """
    found: Optional[str] = connection.execute("SELECT history_token()").fetchone()[0]
    if found is None:
        names = [row[0] for row in connection.execute("SELECT name FROM pragma_database_list").fetchall()]
        tracked = "SELECT count(*) FROM \"{}\".sqlite_master WHERE name = 'historyd_change'"
        if not any(connection.execute(tracked.format(name.replace('"', '""'))).fetchone()[0] for name in names):
            raise LookupError(
                "No store of this connection is tracked, so nothing is recorded. Track it: historyctl track STORE TABLE"
            )
    return found


def install(extension: Optional[str] = None) -> None:
    """Adds the extension's functions to each connection that this process opens from now on.

    Use it with a Python that was built without `enable_load_extension`, as pyenv builds it by default. Call it
    before the first connection is opened. It passes the extension's entry point to `sqlite3_auto_extension`, as
    a program that links the extension does.
    """
    global _installed
    if _installed is not None:
        return
    try:
        import _sqlite3

        # Resolved in the SQLite of Python's module: a process may have several.
        sqlite = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        register = sqlite.sqlite3_auto_extension
        history = ctypes.CDLL(_find(extension))
        entry = ctypes.cast(history.sqlite3_history_init, ctypes.c_void_p)
    except (ImportError, OSError, AttributeError) as error:
        raise ExtensionError(
            f"The extension cannot be installed: {error}. Use a Python whose sqlite3 can load extensions "
            "(PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions pyenv install …), the package apsw, or "
            "historyd.Author."
        ) from error
    register.argtypes, register.restype = [ctypes.c_void_p], ctypes.c_int
    result = register(entry)
    if result != sqlite3.SQLITE_OK:
        raise ExtensionError(f"SQLite refuses the extension with result {result}.")
    _installed = history  # Never unloaded: SQLite keeps its address.


class Author:
    """An author for a connection that cannot load extensions. It needs no extension.

    The triggers call a built-in SQL function to get the author. This class overrides that function on the
    connection, as any binding can that registers functions. Changes outside of `transaction()` are recorded
    without an author. A connection with `autocommit=False` (Python 3.12) always is in a transaction: `transaction()`
    commits first what was changed in it before.
    """

    def __init__(
        self, connection: sqlite3.Connection, author: str, context: Optional[str] = None
    ) -> None:
        self.connection = connection
        self._who = _checked("author", author), _checked("context", context) if context else ""
        self._origin: Optional[str] = None
        connection.create_function(
            "sqlite_compileoption_get", 1, lambda number: self._origin if number == WHO_WRITES else None
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction under the author's name: committed at the end, rolled back after an exception."""
        # Not by `with connection`, which with autocommit=True does nothing.
        begins_again = getattr(self.connection, "autocommit", True) is False
        if begins_again:
            self._end("COMMIT")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            # A key of this transaction alone, process, milliseconds, author, context.
            origin = secrets.token_hex(8), os.getpid(), time.time_ns() // 1_000_000, *self._who
            self._origin = "\t".join(map(str, origin))
            yield self.connection
            self._end("COMMIT")
        except BaseException:
            self._end("ROLLBACK")
            raise
        finally:
            self._origin = None
            # As sqlite3 does it after a commit of its own.
            if begins_again and not self.connection.in_transaction:
                self.connection.execute("BEGIN")

    def _end(self, how: str) -> None:
        # The body, or ON CONFLICT ROLLBACK, may have ended it.
        if self.connection.in_transaction:
            self.connection.execute(how)


def _checked(what: str, name: str) -> str:
    """A name as the extension takes it: others would be recorded as another author, or as none."""
    if not isinstance(name, str):
        problem = "must be text"
    elif not 0 < len(name.encode()) <= 255:
        problem = "must have 1 to 255 bytes"
    elif min(name) < " ":
        problem = "must not contain control characters"
    else:
        return name
    raise ValueError(f"The {what} {problem}.")


def _knows_authors(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM pragma_function_list WHERE name = 'history_author'"
    return connection.execute(query).fetchone() is not None


def _load(connection: sqlite3.Connection, extension: Optional[str]) -> None:
    if not hasattr(connection, "enable_load_extension"):
        raise ExtensionError(
            "This Python's sqlite3 cannot load extensions. Call historyd.install() before the connection is opened."
        )
    connection.enable_load_extension(True)
    try:
        connection.load_extension(_find(extension).removesuffix(".so"))
    except sqlite3.OperationalError as error:
        raise ExtensionError(f"The extension cannot be loaded: {error}.") from error
    finally:
        connection.enable_load_extension(False)


def _find(extension: Optional[str]) -> str:
    named = extension or os.environ.get("HISTORYD_EXTENSION")
    if named:
        return named if named.endswith(".so") else named + ".so"
    for place in PLACES:
        if os.path.exists(place):
            return place
    raise ExtensionError(
        f"libhistory.so is not at {' or '.join(PLACES)}. Set the environment variable HISTORYD_EXTENSION to its path."
    )
