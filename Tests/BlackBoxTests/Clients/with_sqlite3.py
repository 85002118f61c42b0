"""The work of ClientWorkTests.swift in the manner of Python's sqlite3: STORE LIBRARY [AUTHOR]"""
import sqlite3
import sys

store, library, *author = sys.argv[1:]
connection = sqlite3.connect(store, timeout=60)
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
    connection.execute("SAVEPOINT s")
    connection.execute("INSERT INTO tag VALUES ('x', 'undone')")
    connection.execute("ROLLBACK TO s")
    connection.execute("RELEASE s")
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
        connection.execute("INSERT INTO author VALUES (3, 'Bob', NULL)")
        raise SystemExit("the name is taken")
    except sqlite3.IntegrityError:
        pass
    connection.execute("UPDATE author SET score = 2 WHERE id = 2")

with connection:
    connection.execute("DELETE FROM author WHERE id = 1")

with connection:
    connection.execute("REPLACE INTO author VALUES (4, 'Bob', 4)")

with connection:
    connection.execute("UPDATE author SET name = name")
connection.close()
