#!/usr/bin/python3
"""A merge hook in mode "coprocess": merges duplicate rows into one.

Several programs, or devices that synchronize, may insert the same thing. For each inserted row (and
each row in which the column that says so was changed) this hook looks for rows with the same value in
that column, keeps one of them, and deletes the others. If rows of other tables, or of the same one,
refer to a deleted row by a foreign key, they are changed to refer to the kept row. If such a row then
is a duplicate itself, by a primary key or a UNIQUE constraint, it is deleted. Each merge is one
transaction with the hook's own author, so every consumer receives it.

What cannot be merged without loss or damage is left as it is, and the reason is logged: a constraint
or a trigger of the table is against it, a foreign key would refer to nothing, or other rows refer to a
row that would have to be deleted. Rows in which the column is NULL are no duplicates.

Environment:
  DEDUP_STORE      the store's file
  DEDUP_ENTITY     the table
  DEDUP_KEY        rows with the same value in this column are duplicates
  DEDUP_ORDER      the column that says which row is older (default: the primary key or rowid)
  DEDUP_KEEP       oldest (default), newest, or merge: the oldest, in which each NULL is replaced by
                   the value of the oldest other row that has one
  DEDUP_AUTHOR     default: Deduplication; make it a batch author in the configuration
  DEDUP_EXTENSION  default: libhistory.so in the folder above this file's
"""

import base64
import collections
import json
import os
import sqlite3
import sys


def setting(name, default=None):
    value = os.environ.get("DEDUP_" + name, default)
    if value is None:
        sys.exit(f"DEDUP_{name} is missing: set it in the manifest, under \"environment\".")
    return value


STORE, ENTITY, KEY = setting("STORE"), setting("ENTITY"), setting("KEY")
KEEP = setting("KEEP", "oldest")
FOLDER = os.path.dirname(os.path.realpath(__file__))
if KEEP not in ("oldest", "newest", "merge"):
    sys.exit(f"DEDUP_KEEP is {KEEP!r}; allowed are oldest, newest and merge.")


class Refusal(Exception):
    """Why rows are left as they are."""


def connect():
    connection = sqlite3.connect(f"file:{STORE}?mode=rw", uri=True, isolation_level=None, timeout=20)
    # Text is only shown, and need not be valid: values never leave SQLite.
    connection.text_factory = lambda text: text.decode(errors="replace")
    # Rows are changed and deleted one by one, and no action of a foreign key may add to that.
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.enable_load_extension(True)
    connection.load_extension(setting("EXTENSION", os.path.dirname(FOLDER) + "/libhistory.so").removesuffix(".so"))
    connection.execute("SELECT history_author(?, 'dedup')", (setting("AUTHOR", "Deduplication"),)).fetchall()
    return connection


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def pairs(names, operator, left, others, right, joint):
    """For example: a."x" = b.i0 AND a."y" = b.i1"""
    return joint.join(f"{left}{quoted(a)} {operator} {right}{quoted(b)}" for a, b in zip(names, others))


def numbered(letter, names):
    return [f"{letter}{index}" for index in range(len(names))]


class Table:
    """What the schema says of a table."""

    def __init__(self, connection, name):
        found = connection.execute(
            "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE", (name,)
        ).fetchone()
        if found is None or found[1] != "table":
            raise ValueError(f"there is no table {name!r} in {STORE}" if found is None else f"{name!r} is no table")
        self.name, self.sql = found[0], f"main.{quoted(found[0])}"
        columns = connection.execute("SELECT name, pk, hidden FROM pragma_table_xinfo(?)", (self.name,)).fetchall()
        self.columns = [column for column, _, _ in columns]
        self.generated = {column for column, _, hidden in columns if hidden}
        self.key = [column for column, pk, _ in sorted(columns, key=lambda column: column[1]) if pk]
        # What a row is found by while its values change.
        taken = {column.lower() for column in self.columns}
        rowid = next((each for each in ("rowid", "_rowid_", "oid") if each not in taken), None)
        self.identity = self.key if found[2] else [rowid]
        self.places = numbered("i", self.identity)
        if self.identity == [None]:
            raise Refusal(f"the rowid of table {self.name!r} has no name left")

    def column(self, name):
        for column in self.columns:
            if column.lower() == name.lower():
                return column
        raise ValueError(f"table {self.name!r} has no column {name!r}")

    def same_row(self, left, right):
        return pairs(self.identity, "=", left, self.places, right, " AND ")


def references(connection, parent):
    """The foreign keys that refer to a table: the table, its columns, the columns they refer to."""
    keys = collections.defaultdict(list)
    for child, key, column, to in connection.execute(
        """SELECT t.name, f.id, f."from", f."to" FROM pragma_table_list t, pragma_foreign_key_list(t.name) f
           WHERE t.schema = 'main' AND t.type = 'table' AND f."table" = ? COLLATE NOCASE ORDER BY t.name, f.id, f.seq""",
        (parent.name,),
    ):
        keys[child, key].append((column, to))
    for (child, _), columns in keys.items():
        table = Table(connection, child)
        try:
            to = parent.key if columns[0][1] is None else [parent.column(column) for _, column in columns]
            if len(to) == len(columns):
                yield table, [table.column(column) for column, _ in columns], to
                continue
        except ValueError:
            pass
        raise Refusal(f"a foreign key of {child!r} does not match {parent.name!r}")


def violations(connection, tables):
    """The rows whose foreign keys refer to nothing; an application may live with some."""
    try:
        return collections.Counter(
            row for name in tables for row in connection.execute("SELECT * FROM pragma_foreign_key_check(?)", (name,))
        )
    except sqlite3.OperationalError as error:
        raise Refusal(str(error)) from error


def attempt(connection, sql, values=()):
    """Runs a statement; false if a row that is there already is against it."""
    try:
        connection.execute(sql, values)
        return True
    except sqlite3.IntegrityError as error:
        if str(error).startswith("UNIQUE constraint failed"):
            return False
        raise


def redirect(connection, table, child, columns, to):
    """Has the rows that refer to a row that will be deleted refer to the kept one."""
    if child.generated.intersection(columns):
        raise Refusal(f"{child.name!r} refers to it by a generated column")
    connection.execute("DROP TABLE IF EXISTS temp.dedup_child")
    connection.execute(f"CREATE TEMP TABLE dedup_child (n INTEGER PRIMARY KEY, {', '.join(child.places)})")
    connection.execute(
        f"""INSERT INTO temp.dedup_child ({', '.join(child.places)})
            SELECT {', '.join('c.' + quoted(each) for each in child.identity)} FROM {child.sql} c
            WHERE EXISTS (SELECT 1 FROM temp.dedup_row r JOIN {table.sql} p ON {table.same_row('p.', 'r.')}
                          WHERE r.place > 1 AND {pairs(to, '=', 'p.', columns, 'c.', ' AND ')})"""
    )
    if not connection.execute("SELECT count(*) FROM temp.dedup_child").fetchone()[0]:
        return
    kept = {column: kept_value(table, column) for column in to}
    for column, value in kept.items():
        if connection.execute(f"SELECT {value} IS NULL").fetchone()[0]:
            raise Refusal(f"{child.name!r} refers to {column!r}, which is NULL in the row to keep")
    assignments = ", ".join(f"{quoted(column)} = {kept[each]}" for column, each in zip(columns, to))
    update = f"UPDATE OR ABORT {child.sql} AS c SET {assignments} WHERE EXISTS (SELECT 1 FROM temp.dedup_child x WHERE "
    match = child.same_row("c.", "x.")
    if attempt(connection, f"{update} {match})"):
        return
    for (n,) in connection.execute("SELECT n FROM temp.dedup_child").fetchall():
        if attempt(connection, f"{update} x.n = ? AND {match})", (n,)):
            continue
        this = f"SELECT 1 FROM temp.dedup_child x WHERE x.n = ? AND {match}"
        if child.name == table.name:
            leaving = f"SELECT 1 FROM temp.dedup_row r WHERE r.place > 1 AND {table.same_row('c.', 'r.')}"
            if connection.execute(
                f"SELECT 1 FROM {child.sql} c WHERE EXISTS ({this}) AND EXISTS ({leaving})", (n,)).fetchone():
                continue
            raise Refusal("rows of the table would be duplicates by another constraint")
        for other, others, referred in references(connection, child):
            if connection.execute(
                f"""SELECT 1 FROM {child.sql} c JOIN {other.sql} o ON {pairs(referred, '=', 'c.', others, 'o.', ' AND ')}
                    WHERE EXISTS ({this}) LIMIT 1""", (n,)
            ).fetchone():
                raise Refusal(f"{other.name!r} refers to a row of {child.name!r} that would be a duplicate")
        connection.execute(f"DELETE FROM {child.sql} AS c WHERE EXISTS ({this})", (n,))


def kept_value(table, column):
    """The value of the row that is kept, when all is done."""
    place = f"c{table.columns.index(column)}"
    fills = KEEP == "merge" and column not in table.key
    if fills and column in table.generated:
        raise Refusal(f"a foreign key refers to the generated column {column!r}")
    condition = f"{place} IS NOT NULL ORDER BY place LIMIT 1" if fills else "place = 1"
    return f"(SELECT {place} FROM temp.dedup_value WHERE {condition})"


def read_values(connection, table):
    connection.execute("DELETE FROM temp.dedup_value")
    connection.execute(
        f"""INSERT INTO temp.dedup_value SELECT r.place, {', '.join('t.' + quoted(each) for each in table.columns)}
            FROM temp.dedup_row r JOIN {table.sql} t ON {table.same_row('t.', 'r.')}"""
    )


def fill(connection, table):
    """Takes values of the deleted rows where the kept one has none."""
    missing = [
        column for index, column in enumerate(table.columns)
        if column not in table.key and column not in table.generated and connection.execute(
            f"SELECT count(c{index}) > 0 AND max(place = 1 AND c{index} IS NULL) FROM temp.dedup_value").fetchone()[0]
    ]
    if missing:
        assignments = ", ".join(f"{quoted(column)} = {kept_value(table, column)}" for column in missing)
        connection.execute(
            f"""UPDATE OR ABORT {table.sql} AS t SET {assignments}
                WHERE EXISTS (SELECT 1 FROM temp.dedup_row r WHERE r.place = 1 AND {table.same_row('t.', 'r.')})"""
        )


def merge_rows(connection, table):
    """Merges the rows in dedup_row; the first one is kept."""
    keys = list(references(connection, table))
    tables = {table.name, *(child.name for child, _, _ in keys)}
    before = violations(connection, tables)
    read_values(connection, table)
    for child, columns, to in keys:
        redirect(connection, table, child, columns, to)
    read_values(connection, table)  # the rows may refer to each other
    there = f"FROM {table.sql} AS t WHERE EXISTS (SELECT 1 FROM temp.dedup_row r WHERE {table.same_row('t.', 'r.')}"
    # Before their values are copied: the values may have to be unique.
    connection.execute(f"DELETE {there} AND r.place > 1)")
    if KEEP == "merge":
        fill(connection, table)
    if connection.execute(f"SELECT group_concat(r.place) FROM temp.dedup_row r, {table.sql} t "
                          f"WHERE {table.same_row('t.', 'r.')}").fetchone()[0] != "1":
        raise Refusal("a trigger is against it")
    for name, _, parent, _ in violations(connection, tables) - before:
        raise Refusal(f"a row of {name!r} would refer to a row of {parent!r} that is not there")


def find_rows(connection, table, value, values):
    """Puts the rows that have a value in the column into dedup_row, in order."""
    for name, columns in ("row", table.places), ("value", numbered("c", table.columns)):
        connection.execute(f"DROP TABLE IF EXISTS temp.dedup_{name}")
        connection.execute(f"CREATE TEMP TABLE dedup_{name} (place INTEGER PRIMARY KEY, {', '.join(columns)})")
    order, direction = os.environ.get("DEDUP_ORDER"), "DESC" if KEEP == "newest" else "ASC"
    columns = ([table.column(order)] if order else []) + table.key + table.identity
    connection.execute(
        f"""INSERT INTO temp.dedup_row SELECT row_number() OVER
                (ORDER BY {', '.join(f'{quoted(each)} {direction}' for each in columns)}),
                {', '.join(map(quoted, table.identity))}
            FROM {table.sql} WHERE {quoted(table.column(KEY))} = ({value})""", values
    )


def deduplicate(connection, table, value, values):
    """Merges the rows that have the value of a query in the column."""
    if len(connection.execute(
        f"SELECT 1 FROM {table.sql} WHERE {quoted(table.column(KEY))} = ({value}) LIMIT 2", values).fetchall()) < 2:
        return
    connection.execute("BEGIN IMMEDIATE")
    ids, what = [], f"{table.name} {KEY}={connection.execute(f'SELECT quote(({value}))', values).fetchone()[0]}"
    try:
        table = Table(connection, ENTITY)
        find_rows(connection, table, value, values)
        shown = " || ',' || ".join(f"quote({each})" for each in table.places)
        ids = [row[0] for row in connection.execute(f"SELECT {shown} FROM temp.dedup_row ORDER BY place")]
        if len(ids) > 1:
            merge_rows(connection, table)
            print(f"{what}: kept {ids[0]}, deleted {', '.join(ids[1:])}", file=sys.stderr, flush=True)
        connection.execute("COMMIT")
    except (Refusal, sqlite3.IntegrityError) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        print(f"{what}: {', '.join(ids)} are left as they are: {error}", file=sys.stderr, flush=True)


def bound(value):
    """A value of an object id, as SQL and as what is bound to it."""
    if isinstance(value, dict):
        (kind, text), = value.items()
        return ("?" if kind == "base64" else "CAST(? AS TEXT)"), base64.b64decode(text)
    return "?", value


def row_of(object_id):
    """The column's value in a row, as a query."""
    found = {column: bound(value) for column, value in object_id.items()}
    condition = " AND ".join(f"{quoted(column)} IS {sql}" for column, (sql, _) in found.items())
    return condition, [value for _, value in found.values()]


def run(work):
    connection = connect()
    try:
        table = Table(connection, ENTITY)
        for column in KEY, os.environ.get("DEDUP_ORDER") or KEY:
            table.column(column)
        work(connection, table)
    finally:
        connection.close()  # rolls back what was not committed


def merge(call):
    def work(connection, table):
        key = table.column(KEY)
        for change in changes:
            if change["operation"] == "update" and key not in table.generated and not (
                change.get("changedPropertiesUnknown") or key in change.get("changedProperties", ())
            ):
                continue
            condition, values = row_of(change["objectID"])
            # It may have been deleted since, perhaps by this hook; then nothing is equal to it.
            deduplicate(connection, table, f"SELECT {quoted(key)} FROM {table.sql} WHERE {condition}", values)

    changes = [
        change
        for transaction in call["transactions"]
        for change in transaction["changes"]
        if change["entityName"].lower() == ENTITY.lower() and change["operation"] != "delete"
    ]
    if changes:
        run(work)
    return "goOn"


def expired(call):
    """History was lost, or the table was made again: each value is looked at."""
    def work(connection, table):
        key = quoted(table.column(KEY))
        connection.execute("CREATE TEMP TABLE dedup_double (n INTEGER PRIMARY KEY, value)")
        connection.execute(
            f"INSERT INTO temp.dedup_double (value) SELECT {key} FROM {table.sql} GROUP BY {key} HAVING count({key}) > 1")
        for (n,) in connection.execute("SELECT n FROM temp.dedup_double").fetchall():
            deduplicate(connection, table, "SELECT value FROM temp.dedup_double WHERE n = ?", (n,))

    run(work)


def answer(request):
    try:
        method = {"merge": merge, "expired": expired}.get(request["method"])
        return {"result": method(request["params"]) if method else None}
    except Exception as error:  # the hook has failed, and is called again
        return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}


for line in sys.stdin.buffer:
    request = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}), flush=True)
