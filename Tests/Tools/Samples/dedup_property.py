"""dedup.py on random schemas: FOLDER HISTORYCTL EXTENSION DEDUP FIRST COUNT

Each seed makes a store whose foreign keys hold, tracks it, and lets dedup.py look at every row. Then the store is
whole, no foreign key refers to nothing, every group of duplicates is one row or was left with a reason, the row that
was kept is the right one, every row that referred to one of them still refers to it or was a duplicate itself, nothing
else has changed, and the history brings a copy of the store to the same content.
"""

import base64
import json
import os
import random
import sqlite3
import subprocess
import sys

folder, historyctl, extension, dedup, first, count = sys.argv[1:]


def q(name):
    return '"' + name.replace('"', '""') + '"'


def connect(path):
    c = sqlite3.connect(path, isolation_level=None)
    c.text_factory = bytes
    return c


class Case:
    def __init__(self, seed):
        self.random = r = random.Random(seed)
        self.path = f"{folder}/{seed}.sqlite"
        self.keep = r.choice(["oldest", "newest", "merge"])
        self.order = r.choice([None, "made"])
        self.entity = r.choice(["person", 'odd "name"', "order"])
        kind = r.choice(["integer", "text", "blob", "badtext", "composite", "rowid"])
        self.kind = kind
        without = kind in ("text", "blob", "composite") and r.random() < 0.5
        key = {"integer": "id INTEGER PRIMARY KEY", "text": "id TEXT PRIMARY KEY", "blob": "id BLOB PRIMARY KEY",
               "badtext": "id TEXT PRIMARY KEY", "composite": "id INTEGER, part TEXT", "rowid": "other INTEGER"}[kind]
        if kind in ("text", "blob", "badtext"):
            key += " NOT NULL"
        self.collation = r.choice(["", " COLLATE NOCASE"])
        columns = [key, f"name TEXT{self.collation}", "made", "code TEXT UNIQUE", "a", "b"]
        if r.random() < 0.4:
            columns.append("made_up AS (upper(name))" + r.choice(["", " STORED"]))
        if r.random() < 0.2:
            columns.append("CHECK (a IS NULL OR b IS NULL)")
        if r.random() < 0.2:
            columns[4] = f"a UNIQUE ON CONFLICT {r.choice(['REPLACE', 'IGNORE', 'ABORT'])}"
        self.has_self = kind in ("integer", "text") and r.random() < 0.6
        if self.has_self:
            columns.insert(-1 if "CHECK" in columns[-1] else len(columns),
                f"parent REFERENCES {q(self.entity)} ON DELETE {r.choice(['CASCADE', 'SET NULL', 'RESTRICT'])}")
        if kind == "composite":
            columns.append("PRIMARY KEY (id, part)")
        self.schema = [f"CREATE TABLE {q(self.entity)} ({', '.join(columns)}){' WITHOUT ROWID' if without else ''}"]
        self.children = []  # name, columns, referred
        target = {"composite": ["id", "part"], "rowid": ["code"]}.get(kind, ["id"])
        for i in range(r.randint(0, 3)):
            name, to = f"child{i}", target if r.random() < 0.7 else ["code"]
            self.add_child(name, to)
        if r.random() < 0.3:
            self.schema.append(
                f"CREATE TRIGGER app AFTER DELETE ON {q(self.entity)} BEGIN INSERT INTO log VALUES (old.name); END")
        elif r.random() < 0.15:
            what = r.choice(["RAISE(ABORT, 'no')", "RAISE(IGNORE)", "RAISE(ROLLBACK, 'no')"])
            self.schema.append(
                f"CREATE TRIGGER app BEFORE DELETE ON {q(self.entity)} WHEN old.made = 1 BEGIN SELECT {what}; END")
        self.schema.append("CREATE TABLE log (what)")

    def add_child(self, name, to):
        r = self.random
        of = [f"r{i}" for i in range(len(to))]
        action = r.choice(["", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE"])
        reference = f"REFERENCES {q(self.entity)}" + ("" if to == ["id"] and r.random() < 0.5 else
                                                     f" ({', '.join(map(q, to))})") + action
        columns = [f"{each} TEXT" if t in ("code", "part") else each for each, t in zip(of, to)]
        foreign = f"FOREIGN KEY ({', '.join(of)}) {reference}"
        kind = r.choice(["list", "join", "one", "checked"])
        if kind == "list":
            sql = f"(id INTEGER PRIMARY KEY, {', '.join(columns)}, x, {foreign})"
        elif kind == "join":
            conflict = r.choice(["", " ON CONFLICT REPLACE", " ON CONFLICT IGNORE"])
            sql = f"({', '.join(columns)}, tag, x, PRIMARY KEY ({', '.join(of)}, tag){conflict}, {foreign}) " + r.choice(
                ["", "WITHOUT ROWID"])
        elif kind == "one":
            sql = f"(id INTEGER PRIMARY KEY, {', '.join(columns)}, x, UNIQUE ({', '.join(of)}), {foreign})"
        else:
            sql = f"(id INTEGER PRIMARY KEY, {', '.join(columns)}, x NOT NULL CHECK (x <> {of[0]}), {foreign})"
        self.schema.append(f"CREATE TABLE {name} {sql}")
        self.children.append((name, of, to))
        if kind != "list" and r.random() < 0.4 and "WITHOUT" not in sql and kind != "join":
            self.schema.append(f"CREATE TABLE of_{name} (id INTEGER PRIMARY KEY, r REFERENCES {name} ON DELETE CASCADE)")

    def fill(self, c):
        r = self.random
        c.create_function("pick", 0, lambda: r.randint(0, 1 << 30))
        names = [None, "Ada", "ADA", "ada", "Bob", "", "Ünal"]
        for i in range(r.randint(2, 9)):
            values = {"name": r.choice(names), "made": r.choice([1, 2, 3, None, "x"]),
                      "code": r.choice([None, f"c{i}"]), "a": r.choice([None, i]), "b": r.choice([None, i])}
            if self.kind == "integer": values["id"] = r.choice([i + 1, 2**53 + i, -i - 1])
            if self.kind == "text": values["id"] = f"k{i}é"
            if self.kind == "blob": values["id"] = bytes([i, 255])
            if self.kind == "composite": values |= {"id": i % 3, "part": f"p{i}"}
            columns = list(values)
            marks = ["CAST(? AS TEXT)" if self.kind == "badtext" and each == "id" else "?" for each in columns]
            if self.kind == "badtext":
                columns.append("id"); marks.append("CAST(? AS TEXT)"); values["id"] = bytes([97 + i, 0xE9])
            try:
                c.execute(f"INSERT INTO {q(self.entity)} ({', '.join(map(q, columns))}) VALUES ({', '.join(marks)})",
                          [values[each] for each in columns])
            except sqlite3.IntegrityError:
                pass
        for name, of, to in self.children:
            for i in range(r.randint(0, 10)):
                more = {"x": i, "tag": r.choice("xy")}
                there = {row[1].decode() for row in c.execute(f"PRAGMA table_info({name})")}
                more = {key: value for key, value in more.items() if key in there}
                try:
                    c.execute(
                        f"INSERT INTO {name} ({', '.join(of + list(more))}) SELECT {', '.join(map(q, to))}, "
                        f"{', '.join('?' * len(more))} FROM {q(self.entity)} ORDER BY abs(pick() % 7 + {i}) LIMIT 1 OFFSET ?",
                        [*more.values(), r.randint(0, 6)])
                except sqlite3.IntegrityError:
                    pass
            if c.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (f"of_{name}",)).fetchone():
                c.execute(f"INSERT INTO of_{name} (r) SELECT id FROM {name} WHERE id % 3 = 0")
        if self.has_self:
            c.execute(f"UPDATE {q(self.entity)} SET parent = (SELECT id FROM {q(self.entity)} ORDER BY abs(pick() % 5) "
                      f"LIMIT 1 OFFSET {r.randint(0, 3)}) WHERE abs(pick() % 2)")


def content(c):
    tables = [row[0].decode() for row in c.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd%' ORDER BY 1")]
    return {name: c.execute(f"SELECT * FROM {q(name)}").fetchall() for name in tables}


def ctl(*arguments):
    return subprocess.run([historyctl, *arguments], check=True, capture_output=True, text=True).stdout


def unjson(value):
    return base64.b64decode(next(iter(value.values()))) if isinstance(value, dict) else value


def replay(copy, store, changes):
    """What a replica does: the rows that the history names are taken from the store."""
    copy.execute("PRAGMA foreign_keys = OFF")
    for (name,) in copy.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        copy.execute(f"DROP TRIGGER {q(name.decode())}")
    found = {(each["entityName"], json.dumps(each["objectID"])) for each in changes}
    rows = []
    for entity, key in found:
        key = json.loads(key)
        marks = " AND ".join(f"{q(column)} IS " + (
            "CAST(? AS TEXT)" if isinstance(value, dict) and "base64Text" in value else "?") for column, value in key.items())
        values = [unjson(value) for value in key.values()]
        columns = [row[0].decode() for row in store.execute(
            "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (entity,))]
        if list(key) == ["rowid"]: columns.append("rowid")
        copy.execute(f"DELETE FROM {q(entity)} WHERE {marks}", values)
        rows += [(entity, columns, marks, values)]
    for entity, columns, marks, values in rows:
        # A blob of what Python cannot have as text: its type is given beside it.
        listed = ", ".join(f"typeof({q(each)}), CAST({q(each)} AS BLOB), {q(each)}" for each in columns)
        store.text_factory = bytes
        for row in store.execute(f"SELECT {listed} FROM {q(entity)} WHERE {marks}", values):
            given, marked = [], []
            for i in range(len(columns)):
                is_text = row[3 * i] == b"text"
                marked.append("CAST(? AS TEXT)" if is_text else "?")
                given.append(row[3 * i + 1] if is_text else row[3 * i + 2])
            copy.execute(f"INSERT INTO {q(entity)} ({', '.join(map(q, columns))}) VALUES ({', '.join(marked)})", given)


def check(seed):
    case = Case(seed)
    c = connect(case.path)
    c.execute("PRAGMA foreign_keys = ON")
    for sql in case.schema:
        c.execute(sql)
    case.fill(c)
    before = content(c)
    assert not c.execute("PRAGMA foreign_key_check").fetchall()
    e = q(case.entity)
    key = {"composite": ["id", "part"], "rowid": ["rowid"]}.get(case.kind, ["id"])
    order = ", ".join(f"{each} {'DESC' if case.keep == 'newest' else ''}" for each in ([case.order] if case.order else []) + key)
    groups = {row[0]: row[1:] for row in c.execute(f"""
        SELECT DISTINCT lower(hex(name)), count(*) OVER w, first_value(hex({key[0]})) OVER (w ORDER BY {order}
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        FROM {e} WHERE name IS NOT NULL WINDOW w AS (PARTITION BY name)""")}
    groups = {name: found for name, found in groups.items() if found[0] > 1}
    referring = {(name, i): c.execute(
        f"""SELECT count(*), count(DISTINCT p.name) FROM {name} c JOIN {e} p ON """
        + " AND ".join(f"p.{q(t)} = c.{o}" for o, t in zip(of, to))).fetchone()
        for i, (name, of, to) in enumerate(case.children)}
    c.close()
    copy_path = case.path + ".copy"
    subprocess.run(["cp", case.path, copy_path], check=True)
    ctl("track", case.path, "--all")
    c = connect(case.path)
    objects = []
    for row in c.execute(f"SELECT {', '.join(f'typeof({each}), CAST({each} AS BLOB), {each}' for each in key)} FROM {e}"):
        object_id = {}
        for i, name in enumerate(key):
            kind, raw, value = row[3 * i:3 * i + 3]
            if kind == b"text":
                try: value = raw.decode()
                except UnicodeDecodeError: value = {"base64Text": base64.b64encode(raw).decode()}
            elif kind == b"blob": value = {"base64": base64.b64encode(raw).decode()}
            object_id[name] = value
        objects.append({"entityName": case.entity, "operation": "insert", "objectID": object_id})
    case.random.shuffle(objects)
    c.close()
    if case.random.random() < 0.8:
        call = {"method": "merge", "params": {"transactions": [{"changes": objects}]}}
    else:
        call = {"method": "expired", "params": {}}
    environment = {"DEDUP_STORE": case.path, "DEDUP_ENTITY": case.entity.upper() if case.random.random() < 0.3 else case.entity,
                   "DEDUP_KEY": "name", "DEDUP_KEEP": case.keep, "DEDUP_EXTENSION": extension}
    if case.order: environment["DEDUP_ORDER"] = case.order
    run = subprocess.run(["/usr/bin/python3", dedup], input=json.dumps({"id": 1, **call}) + "\n",
                         capture_output=True, text=True, env=environment, timeout=60)
    assert "result" in json.loads(run.stdout), (run.stdout, run.stderr)
    left = run.stderr.count("are left as they are")
    c = connect(case.path)
    assert c.execute("PRAGMA integrity_check").fetchall() == [(b"ok",)]
    violated = c.execute("PRAGMA foreign_key_check").fetchall()
    assert not violated, violated
    remaining = c.execute(f"SELECT count(*) FROM (SELECT 1 FROM {e} GROUP BY name HAVING count(name) > 1)").fetchone()[0]
    assert remaining <= left and (remaining > 0) == (left > 0), (remaining, left, run.stderr)
    for name, (_, kept) in groups.items():
        rows = c.execute(f"SELECT hex({key[0]}) FROM {e} WHERE name = CAST(? AS TEXT)", (bytes.fromhex(name.decode()),)).fetchall()
        assert len(rows) > 1 or rows == [(kept.encode() if isinstance(kept, str) else kept,)], (rows, kept)
    for i, (name, of, to) in enumerate(case.children):
        now = c.execute(f"SELECT count(*), count(DISTINCT p.name) FROM {name} c JOIN {e} p ON "
                        + " AND ".join(f"p.{q(t)} = c.{o}" for o, t in zip(of, to))).fetchone()
        was = referring[name, i]
        # A row that is a duplicate itself goes; of each group at least one stays.
        unique = "UNIQUE" in next(s for s in case.schema if s.startswith(f"CREATE TABLE {name} ")) or "PRIMARY KEY (" in next(
            s for s in case.schema if s.startswith(f"CREATE TABLE {name} "))
        assert now[0] == was[0] or unique and now[0] < was[0], (name, was, now)
        assert now[1] == was[1], (name, was, now)
    if not groups:
        assert content(c) == before
    history = [json.loads(line) for line in ctl("history", case.path, "--format", "json").splitlines()]
    assert all(each["author"] == "Deduplication" for each in history), history
    copy = connect(copy_path)
    replay(copy, c, [change for each in history for change in each["changes"]])
    assert {n: sorted(rows, key=repr) for n, rows in content(copy).items()} == {
        n: sorted(rows, key=repr) for n, rows in content(c).items()}
    copy.close(); c.close()
    return len(groups), left, [line.split("are left as they are: ")[1] for line in run.stderr.splitlines() if "are left" in line]


merged, reasons = 0, {}
for seed in range(int(first), int(first) + int(count)):
    try:
        groups, left, why = check(seed)
    except BaseException:
        print(f"seed {seed}", file=sys.stderr)
        raise
    merged += groups - left
    for each in why: reasons[each.split(":")[0]] = reasons.get(each.split(":")[0], 0) + 1
print(f"{count} seeds from {first}: {merged} groups merged, left: {reasons}")
