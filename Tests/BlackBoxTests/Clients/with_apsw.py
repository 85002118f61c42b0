"""The work of ClientWorkTests.swift in the manner of apsw, which has an SQLite of its own: STORE LIBRARY [AUTHOR]"""
import sys

import apsw

store, library, *author = sys.argv[1:]
connection = apsw.Connection(store)
connection.set_busy_timeout(60_000)
connection.execute("PRAGMA foreign_keys = ON")
if author:
    connection.enable_load_extension(True)
    connection.load_extension(library)
    connection.execute("SELECT history_author(?, 'client')", author)

with connection:
    connection.executemany("INSERT INTO author VALUES (?, ?, ?)", [(1, "Ann", 1.5), (2, "Bob", None)])
    connection.executemany(
        "INSERT INTO book (title, author_id) VALUES (?, ?)", [("One", 1), ("Two", 2), ("Three", 1)])

with connection:
    connection.execute("UPDATE author SET name = 'Anna', score = 1.5 WHERE id = 1")
    try:
        with connection:  # a savepoint
            connection.execute("INSERT INTO tag VALUES ('x', 'undone')")
            raise KeyError("changed my mind")
    except KeyError:
        pass
    connection.execute("INSERT INTO tag VALUES ('a', 'first')")

try:
    with connection:
        connection.execute("DELETE FROM book")
        raise KeyError("changed my mind")
except KeyError:
    pass

with connection:
    connection.executemany(
        "INSERT INTO tag VALUES (?, ?) ON CONFLICT DO UPDATE SET label = excluded.label",
        [("a", "again"), ("b", None)])

with connection:
    connection.execute("UPDATE book SET title = upper(title) WHERE id = 2")
    try:
        with connection:
            connection.execute("INSERT INTO author VALUES (3, 'Bob', NULL)")
        raise SystemExit("the name is taken")
    except apsw.ConstraintError:
        pass
    connection.execute("UPDATE author SET score = 2 WHERE id = 2")

connection.execute("DELETE FROM author WHERE id = 1")
connection.execute("REPLACE INTO author VALUES (4, 'Bob', 4)")
connection.execute("UPDATE author SET name = name")
connection.close()
