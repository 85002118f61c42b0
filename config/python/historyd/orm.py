"""Authors for SQLAlchemy and Django."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

from .author import declare, install

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine


def declare_sqlalchemy(
    engine: Union[Engine, AsyncEngine],
    author: str,
    context: Optional[str] = None,
    *,
    extension: Optional[str] = None,
) -> None:
    """Declares the author on each connection that an engine opens, also an asynchronous one (aiosqlite). Call it before
    the engine is used."""
    from sqlalchemy import event

    _prepare(extension)

    def connected(connection: Any, _: Any) -> None:
        declare(connection, author, context, extension=extension)

    event.listen(getattr(engine, "sync_engine", engine), "connect", connected)


def declare_django(
    author: str,
    context: Optional[str] = None,
    *,
    using: str = "default",
    extension: Optional[str] = None,
) -> None:
    """Declares the author on each connection that Django opens to a database, and on this thread's if it is open.

    Call it in `AppConfig.ready`. A later call for the same database replaces the author.
    """
    from django.db import connections
    from django.db.backends.signals import connection_created

    _prepare(extension)

    def connected(connection: Any, **_: Any) -> None:
        if connection.alias == using and connection.vendor == "sqlite":
            declare(connection.connection, author, context, extension=extension)

    connection_created.disconnect(dispatch_uid=("historyd", using))
    connection_created.connect(connected, weak=False, dispatch_uid=("historyd", using))
    if connections[using].connection is not None:
        connected(connections[using])


def _prepare(extension: Optional[str]) -> None:
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        install(extension)
