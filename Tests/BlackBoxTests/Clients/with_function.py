"""The work of ClientWorkTests.swift where sqlite3 cannot load extensions: STORE LIBRARY [AUTHOR]"""
import contextlib
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "config/python"))
sys.dont_write_bytecode = True
from historyd import Author

store, _, *author = sys.argv[1:]
connection = sqlite3.connect(store, timeout=60, isolation_level=None)
connection.execute("PRAGMA foreign_keys = ON")


@contextlib.contextmanager
def undeclared():
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


transaction = Author(connection, *author, "client").transaction if author else undeclared

with transaction():
    connection.executemany("INSERT INTO author VALUES (?, ?, ?)", [(1, "Ann", 1.5), (2, "Bob", None)])
    connection.executemany(
        "INSERT INTO book (title, author_id) VALUES (?, ?)", [("One", 1), ("Two", 2), ("Three", 1)])

with transaction():
    connection.execute("UPDATE author SET name = 'Anna', score = 1.5 WHERE id = 1")
    connection.execute("SAVEPOINT s")
    connection.execute("INSERT INTO tag VALUES ('x', 'undone')")
    connection.execute("ROLLBACK TO s")
    connection.execute("RELEASE s")
    connection.execute("INSERT INTO tag VALUES ('a', 'first')")

try:
    with transaction():
        connection.execute("DELETE FROM book")
        raise KeyError("changed my mind")
except KeyError:
    pass

with transaction():
    connection.executemany(
        "INSERT INTO tag VALUES (?, ?) ON CONFLICT DO UPDATE SET label = excluded.label",
        [("a", "again"), ("b", None)])

with transaction():
    connection.execute("UPDATE book SET title = upper(title) WHERE id = 2")
    try:
        connection.execute("INSERT INTO author VALUES (3, 'Bob', NULL)")
        raise SystemExit("the name is taken")
    except sqlite3.IntegrityError:
        pass
    connection.execute("UPDATE author SET score = 2 WHERE id = 2")

with transaction():
    connection.execute("DELETE FROM author WHERE id = 1")

with transaction():
    connection.execute("REPLACE INTO author VALUES (4, 'Bob', 4)")

with transaction():
    connection.execute("UPDATE author SET name = name")
connection.close()
