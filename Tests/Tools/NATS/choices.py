#!/usr/bin/python3
"""Tests what goes through to mirrors, and the promotion of one; beside `nats.py`, whose bench it uses.

    choices.py FOLDER-OF-PROGRAMS SCENARIO

`NATS_SERVER` names another nats-server than the system's.
"""

import contextlib
import glob
import json
import os
import signal
import sqlite3
import sys

import adversity
import nats
from adversity import until
from nats import Failure, doctor, once


def change(bench, name, key, **values):
    """Changes the first publication or mirror of a configuration; None removes a key."""
    with open(bench.path(name + ".json")) as file:
        configuration = json.load(file)
    configuration[key][0].update(values)
    configuration[key][0] = {k: v for k, v in configuration[key][0].items() if v is not None}
    bench.write(name + ".json", json.dumps(configuration))


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as db:
        return db.execute(sql).fetchall()


def tables(path):
    return sorted(row[0] for row in query(
        path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'"))


def history(path, names):
    quoted = ", ".join(f"'{name}'" for name in names)
    return query(path, "SELECT id, origin, kind, object, detail FROM historyd_change JOIN historyd_entity "
                       f"ON shape = kind >> 2 AND kind & 3 <> 3 AND name IN ({quoted}) ORDER BY id")


def compare(bench, names, level=True):
    if level:
        bench.wait_level()
    if tables(bench.mirror) != sorted(names):
        raise Failure(f"the mirror has {tables(bench.mirror)}, and {sorted(names)} were chosen")
    for table in names:
        columns = [row[0] for row in query(bench.source, f"SELECT name FROM pragma_table_xinfo('{table}')")]
        if bench.rows(bench.source, table, columns) != bench.rows(bench.mirror, table, columns):
            raise Failure(f'"{table}" is not as in the source')
    if history(bench.source, names) != history(bench.mirror, names):
        raise Failure("the history of what was chosen is not the source's")
    rest = query(bench.mirror, "SELECT count(*) FROM historyd_change WHERE kind & 3 = 3")[0][0]
    if rest > 1 or query(bench.mirror, "PRAGMA integrity_check") != [("ok",)]:
        raise Failure(f"{rest} rows stand for what was passed over")


def left(bench, word):
    """Whether a word is in the server's files."""
    return any(word in open(name, "rb").read()
               for name in glob.glob(bench.path("jetstream", "**", "*"), recursive=True) if os.path.isfile(name))


def entities(bench):
    """Chosen tables, at the follower, at the publisher, at both; lists that change; a mirror with a daemon behind it."""
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    bench.start_server()
    change(bench, "follow", "follow", entities=["person", "Loose", "later"])

    def write(count=10):
        for _ in range(count):
            bench.transaction(db, 4)
        db.execute("INSERT OR REPLACE INTO real_key (k, v) VALUES (1.5, 'topsecret' || random())")

    def restart(name):
        bench.kill(name, signal.SIGTERM)
        bench.start_nats(name)

    write()
    bench.publish_and_follow()
    bench.wait_level()
    bench.start_daemon("mirror")
    for _ in range(5):
        write()
        compare(bench, ["person", "loose"])
    if '"later"' not in bench.log("follow"):
        raise Failure("that a table is not there is not said:\n" + bench.log("follow"))
    db.execute("CREATE TABLE later (x)")
    bench.ctl("track", bench.source, "later")
    db.execute("INSERT INTO later VALUES (1)")
    compare(bench, ["person", "loose", "later"])
    token = bench.tokens()[-1]
    bench.ctl_at("mirror", "wait", "--consumer", "Elsewhere", "--token", token, "--timeout", "20s")
    print("the mirror has the chosen tables, a daemon behind it the position of all")

    change(bench, "follow", "follow", entities=["item", "person"])
    restart("follow")
    until("a refill", lambda: tables(bench.mirror) == ["item", "person"])
    write()
    compare(bench, ["item", "person"])
    bench.kill("follow", signal.SIGTERM)
    change(bench, "follow", "follow", entities=None)
    if once(bench, "follow")[0]:
        raise Failure("--once with another list is not level")
    bench.compare()
    bench.start_nats("follow")
    print("another list leads to a snapshot")

    if not left(bench, b"topsecret"):
        raise Failure("the server's files do not show what they have")
    bench.kill("publish", signal.SIGTERM)
    nats.delete_streams(bench)
    epoch = bench.epoch()
    change(bench, "publish", "publish", entities=["person", "item"])
    bench.start_nats("publish")
    until("a new epoch", lambda: bench.epoch() > epoch)
    for _ in range(3):
        write()
        compare(bench, ["item", "person"])
    db.execute("DELETE FROM real_key")
    db.execute("ALTER TABLE real_key ADD COLUMN secretcolumn")
    bench.ctl("track", bench.source)
    write()
    db.execute("INSERT OR REPLACE INTO real_key (k, v, secretcolumn) VALUES (1.5, 'topsecret', 1)")
    compare(bench, ["item", "person"])
    for word in [b"topsecret", b"real_key", b"secretcolumn"]:
        if left(bench, word):
            raise Failure(f"{word} has left the machine")
    print("what was not chosen has not left the machine")

    for number, names in enumerate([["person", "item", "word"], ["word", "nothing"], None]):
        epoch = bench.epoch()
        change(bench, "publish", "publish", entities=names)
        restart("publish")
        # Nothing is written: the list alone makes the epoch.
        until("a new epoch", lambda: bench.epoch() > epoch)
        known = names and [name for name in names if name != "nothing"]
        compare(bench, known or [*bench.tables, "later"])
        restart("publish")
        write(2)
        compare(bench, known or [*bench.tables, "later"])
        if number == 1 and '"nothing"' not in (doctor(bench, "publish")[0]["store"] or ""):
            raise Failure(f"the doctor does not know: {doctor(bench, 'publish')}")
    bench.compare()
    print("another list of the publisher's makes a new epoch")


SCENARIOS = [entities]

if __name__ == "__main__":
    adversity.SCENARIOS = SCENARIOS
    sys.exit(adversity.main())
