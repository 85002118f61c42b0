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
import subprocess
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


def await_consumer(bench, daemon, consumer):
    """A consumer gets to the source's newest token, once its daemon has opened the store."""
    token = bench.tokens()[-1]

    def is_there():
        try:
            bench.ctl_at(daemon, "wait", "--consumer", consumer, "--token", token, "--timeout", "20s")
            return True
        except Failure as failure:
            if "not open" not in str(failure) and "not running" not in str(failure):
                raise
            return False

    until("the store is open", is_there, 30)


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
    await_consumer(bench, "mirror", "Elsewhere")
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


def is_mirror(path):
    return query(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'historyd_mirror'")[0][0] == 1


def run(bench, name, *arguments):
    """The status of a command with a configuration, and what it says."""
    result = subprocess.run(
        [bench.program("historyd-nats"), *arguments, "--config", bench.path(name + ".json")], capture_output=True,
        text=True, timeout=120, env={"PATH": os.environ["PATH"], "STATE_DIRECTORY": bench.path("elsewhere")})
    return result.returncode, result.stderr


def promote(bench):
    """A mirror becomes the source, as planned and after the loss of the source; the old source is fenced off and follows."""
    bench.make_store()
    bench.configure()
    # The third machine, which follows whoever is the source.
    third = bench.path("third.sqlite")
    os.makedirs(bench.path("elsewhere"))
    db = bench.open("App")
    bench.start_server()
    server = json.load(open(bench.path("follow.json")))
    bench.write("follow3.json", json.dumps({**server, "follow": [{"name": "contacts", "path": third}]}))
    old, new = bench.source, bench.mirror

    def write(count=5):
        for _ in range(count):
            bench.transaction(db, 4)

    def level():
        bench.wait_level(30)
        bench.compare()

    def start(name, config, spool):
        os.makedirs(bench.path(name + ".run"), exist_ok=True)
        os.makedirs(bench.path(spool), exist_ok=True)
        bench.start(name, bench.program("historyd-nats"), "--config", bench.path(config + ".json"),
                    STATE_DIRECTORY=bench.path(spool), RUNTIME_DIRECTORY=bench.path(name + ".run"))

    write()
    bench.publish_and_follow()
    start("follow3", "follow3", "spool3")
    level()

    # Planned.
    status, said = run(bench, "follow", "promote", "contacts")
    if status != 75 or "stop it" not in said or not is_mirror(new):
        raise Failure(f"a mirror that is followed into is promoted: {said}")
    bench.kill("follow", signal.SIGTERM)
    bench.kill("publish", signal.SIGTERM)
    write()
    wanted = query(old, "SELECT count(DISTINCT origin) FROM historyd_change WHERE kind & 3 <> 3 AND id > "
                        + str(bench.newest(new)))[0][0]
    status, said = run(bench, "follow", "promote", "contacts", "--source", old)
    if status != 75 or f"{wanted} transaction" not in said:
        raise Failure(f"the loss of {wanted} transactions is not said: {said}")
    print("what would be lost is counted, and nothing is done")
    bench.start_nats("publish")
    bench.start_nats("follow")
    level()
    for configuration, key in [("publish", "publish"), ("follow", "follow")]:
        bench.kill(configuration, signal.SIGTERM)
        change(bench, configuration, key, entities=["person"])
        bench.start_nats(configuration)
        until("some tables", lambda: tables(new) == ["person"])
        bench.kill("follow", signal.SIGTERM)
        status, said = run(bench, "follow", "promote", "contacts", "--source", old)
        if status != 75 or "only some of the tables" not in said or not is_mirror(new):
            raise Failure(f"a mirror of some tables is promoted: {said}")
        change(bench, configuration, key, entities=None)
        if configuration == "publish":
            bench.kill("publish", signal.SIGTERM)
            bench.start_nats("publish")
        bench.start_nats("follow")
        until("all tables", lambda: tables(new) == sorted(bench.tables))
        level()
    print("a mirror of some tables is not promoted, whoever chose them")
    # The publisher still runs: it is fenced off.
    bench.kill("follow", signal.SIGTERM)
    epoch = bench.epoch()
    before = bench.newest(new)
    status, said = run(bench, "follow", "promote", "contacts", "--source", old)
    if status or is_mirror(new):
        raise Failure(f"it is not promoted: {said}")
    until("the refusal", lambda: "not the source of the stream any more" in nats.health(bench, "publish")[1], 30)
    if nats.health(bench, "publish")[0] != 2 or doctor(bench, "publish")[1] != 1:
        raise Failure(f"the old source is well: {nats.health(bench, 'publish')}")
    print("a planned promotion: the old publisher is fenced off and told")
    run(bench, "follow", "promote", "contacts")

    db.execute("INSERT INTO person (name) VALUES ('lost')")
    db.close()
    bench.source, bench.mirror = new, third
    db = bench.open("App")
    write(20)
    if bench.newest(new) <= before or not bench.tokens():
        raise Failure("the promoted store records nothing")
    change(bench, "publish", "publish", store=new, feed=None)
    start("publish2", "publish", "spool2")
    level()
    epochs = query(third, "SELECT epoch FROM historyd_mirror")[0][0]
    if epochs <= epoch:
        raise Failure(f"the epoch {epochs} is not later than {epoch}")
    write(5)
    level()
    # The daemon of the new source.
    bench.write("source.json", json.dumps({"version": 1, "stores": [
        {"name": "contacts", "path": new, "entities": {t: {} for t in bench.tables}, "authors": [{"name": "X"}]}]}))
    bench.start_daemon("source")
    write(5)
    await_consumer(bench, "source", "X")
    if query(new, "SELECT count(*) FROM historyd_change WHERE object IS 'recreated' AND id > " + str(before))[0][0]:
        raise Failure("the promoted store says that changes were missed")
    level()
    print("the promoted store records, is published and has a daemon")

    # The old source comes back: it publishes nothing, also after a restart; its machine becomes a follower.
    bench.kill("publish")
    with open(bench.path("publish.json")) as file:
        ours = file.read()
    change(bench, "publish", "publish", store=old)
    start("publish", "publish", "spool4")
    until("the refusal", lambda: "not the source of the stream any more" in nats.health(bench, "publish")[1], 30)
    bench.kill("publish")
    bench.write("publish.json", ours)
    for suffix in ["", "-wal", "-shm"]:
        if os.path.exists(old + suffix):
            os.rename(old + suffix, old + suffix + ".old")
    bench.write("follow.json", json.dumps({**server, "follow": [{"name": "contacts", "path": old}]}))
    start("follow", "follow", "spool4")
    bench.mirror = old
    level()
    print("the old source is fenced off when it comes back, and follows")

    # The loss of the source, and of the last transactions with it; the server is there.
    bench.kill("publish2", signal.SIGKILL)
    write(7)
    db.close()
    os.rename(new, new + ".lost")
    bench.kill("follow", signal.SIGTERM)
    status, said = run(bench, "follow", "promote", "contacts", "--source", new)
    if status != 75 or "cannot be read" not in said:
        raise Failure(f"a source that cannot be reached is not said: {said}")
    status, said = run(bench, "follow", "promote", "contacts")
    if status or "is lost" not in said:
        raise Failure(f"it is not promoted: {said}")
    bench.source, bench.mirror = old, third
    change(bench, "publish", "publish", store=old)
    start("publish3", "publish", "spool4")
    db = bench.open("App")
    write(5)
    level()
    # The second source comes back, with transactions of its own.
    os.rename(new + ".lost", new)
    change(bench, "publish", "publish", store=new)
    start("publish2", "publish", "spool2")
    until("the refusal", lambda: "not the source of the stream any more" in nats.health(bench, "publish2")[1], 30)
    write(5)
    level()
    print("after a loss, the mirror is the source, and the one that comes back is fenced off")
    # An operator decides otherwise.
    bench.kill("publish2", signal.SIGTERM)
    if nats.new_epoch(bench).returncode:
        raise Failure("the old source cannot be declared right")
    bench.source = new
    start("publish2", "publish", "spool2")
    level()
    until("the refusal", lambda: "not the source of the stream any more" in nats.health(bench, "publish3")[1], 30)
    print("an operator's word counts")


SCENARIOS = [entities, promote]

if __name__ == "__main__":
    adversity.SCENARIOS = SCENARIOS
    sys.exit(adversity.main())
