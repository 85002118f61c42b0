"""Authors for SQLAlchemy and Django."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .author import declare, install

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine


def declare_sqlalchemy(
    engine: Engine, author: str, context: Optional[str] = None, *, extension: Optional[str] = None
) -> None:
    """Declares the author on each connection that an engine opens. Call it before the engine is used."""
    from sqlalchemy import event

    _prepare(extension)

    def connected(connection: Any, _: Any) -> None:
        declare(connection, author, context, extension=extension)

    event.listen(engine, "connect", connected)


def declare_django(
    author: str,
    context: Optional[str] = None,
    *,
    using: str = "default",
    extension: Optional[str] = None,
) -> None:
    """Declares the author on each connection that Django opens to a database.

    Call it once, in `AppConfig.ready`.
    """
    from django.db.backends.signals import connection_created

    _prepare(extension)

    def connected(connection: Any, **_: Any) -> None:
        if connection.alias == using and connection.vendor == "sqlite":
            declare(connection.connection, author, context, extension=extension)

    connection_created.connect(connected, weak=False, dispatch_uid=("historyd", using))


def _prepare(extension: Optional[str]) -> None:
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        install(extension)
