"""Declares who writes, for a Python whose sqlite3 can not load extensions."""
import contextlib
import os
import secrets
import time


class Author:
    def __init__(self, connection, author, context=""):
        self.connection, self.who, self.origin = connection, (author, context), None
        connection.create_function(
            "sqlite_compileoption_get", 1, lambda n: self.origin if n == 1212765012 else None)

    @contextlib.contextmanager
    def transaction(self):
        # A key for each transaction; process; milliseconds; author; context.
        origin = secrets.token_hex(8), os.getpid(), time.time_ns() // 1_000_000, *self.who
        self.origin = "\t".join(map(str, origin))
        try:
            with self.connection:  # commits, or rolls back
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
        finally:
            self.origin = None
