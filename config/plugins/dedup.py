#!/usr/bin/python3
"""A merge hook in mode "coprocess": merges duplicate rows into one.

Several programs, or devices that synchronize, may insert the same thing. For each inserted row (and
each row whose key was changed) this hook looks for rows with the same value in a column, keeps one of
them, and deletes the others. If rows of other tables refer to a deleted row by a foreign key, they are
changed to refer to the kept row. All of it is one transaction with its own author, so every consumer
receives it.

Environment:
  DEDUP_STORE      the store's file
  DEDUP_ENTITY     the table, which has a primary key of one column
  DEDUP_KEY        rows with the same value in this column are duplicates, except NULL
  DEDUP_ORDER      the column that says which row is older (default: the primary key)
  DEDUP_KEEP       oldest (default), newest, or merge: the oldest, in which each NULL is replaced by
                   the value of the oldest other row that has one
  DEDUP_AUTHOR     default: Deduplication; make it a batch author in the configuration
  DEDUP_EXTENSION  default: libhistory.so in the folder above this file's
"""

import json
import os
import sqlite3
import sys


def setting(name, default=None):
    value = os.environ.get("DEDUP_" + name, default)
    if value is None:
        sys.exit(f"DEDUP_{name} is missing: set it in the manifest, under \"environment\".")
    return value


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


STORE, ENTITY, KEY = setting("STORE"), setting("ENTITY"), setting("KEY")
KEEP = setting("KEEP", "oldest")
FOLDER = os.path.dirname(os.path.realpath(__file__))
if KEEP not in ("oldest", "newest", "merge"):
    sys.exit(f"DEDUP_KEEP is {KEEP!r}; allowed are oldest, newest and merge.")


def connect():
    connection = sqlite3.connect(f"file:{STORE}?mode=rw", uri=True, isolation_level=None, timeout=20)
    connection.row_factory = sqlite3.Row
    connection.enable_load_extension(True)
    connection.load_extension(setting("EXTENSION", os.path.dirname(FOLDER) + "/libhistory.so").removesuffix(".so"))
    connection.execute("SELECT history_author(?, 'dedup')", (setting("AUTHOR", "Deduplication"),)).fetchall()
    return connection


def primary_key(connection):
    columns = [c["name"] for c in connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0", (ENTITY,))]
    if len(columns) != 1:
        raise ValueError(f"table {ENTITY!r} has no primary key of one column")
    return columns[0]


def references(connection, identity):
    """Each column that refers to the table's primary key."""
    return connection.execute(
        """SELECT t.name AS child, f."from" AS "column" FROM pragma_table_list t, pragma_foreign_key_list(t.name) f
           WHERE t.schema = 'main' AND t.type = 'table' AND f."table" = ? COLLATE NOCASE
           AND (f."to" IS NULL OR f."to" = ? COLLATE NOCASE)""",
        (ENTITY, identity),
    ).fetchall()


def deduplicate(connection, identity, key_value):
    table, key, pk = quoted(ENTITY), quoted(KEY), quoted(identity)
    order = quoted(os.environ.get("DEDUP_ORDER") or identity)
    direction = "DESC" if KEEP == "newest" else "ASC"
    rows = connection.execute(
        f"SELECT * FROM {table} WHERE {key} = ? ORDER BY {order} {direction}, {pk} {direction}", (key_value,)
    ).fetchall()
    if len(rows) < 2:
        return
    kept, others = rows[0], rows[1:]
    for other in others:
        for child, column in references(connection, identity):
            connection.execute(
                f"UPDATE {quoted(child)} SET {quoted(column)} = ? WHERE {quoted(column)} = ?",
                (kept[identity], other[identity]),
            )
        # Delete the rows before their values are copied: the values may have to be unique.
        connection.execute(f"DELETE FROM {table} WHERE {pk} = ?", (other[identity],))
    if KEEP == "merge":
        for column in kept.keys():
            value = next((row[column] for row in rows if row[column] is not None), None)
            if kept[column] is None and value is not None:
                connection.execute(f"UPDATE {table} SET {quoted(column)} = ? WHERE {pk} = ?", (value, kept[identity]))
    deleted = ", ".join(str(row[identity]) for row in others)
    print(f"{ENTITY} {KEY}={key_value!r}: kept {kept[identity]}, deleted {deleted}", file=sys.stderr, flush=True)


def merge(call):
    changed = [
        change["objectID"]
        for transaction in call["transactions"]
        for change in transaction["changes"]
        if change["entityName"] == ENTITY
        and (change["operation"] == "insert" or KEY in change.get("changedProperties", ()))
    ]
    if not changed:
        return "goOn"
    connection = connect()
    try:
        connection.execute("BEGIN IMMEDIATE")
        identity = primary_key(connection)
        for object_id in changed:
            row = connection.execute(
                f"SELECT {quoted(KEY)} FROM {quoted(ENTITY)} WHERE {quoted(identity)} = ?", (object_id[identity],)
            ).fetchone()
            # It may have been deleted since, perhaps by this hook.
            if row is not None and row[0] is not None:
                deduplicate(connection, identity, row[0])
        connection.execute("COMMIT")
    finally:
        connection.close()  # rolls back what was not committed
    return "goOn"


for line in sys.stdin.buffer:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        answer["result"] = merge(request["params"]) if request["method"] == "merge" else None
    except Exception as error:  # the hook has failed, and is called again
        answer["error"] = {"code": -32000, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
