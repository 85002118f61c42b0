#!/usr/bin/python3
"""Tests historyd-nats against a real nats-server on 127.0.0.1, in folders of their own.

    nats.py FOLDER-OF-PROGRAMS basic
    nats.py FOLDER-OF-PROGRAMS losses
    nats.py FOLDER-OF-PROGRAMS stale
    nats.py FOLDER-OF-PROGRAMS foreign|foreign-all 0 [SEED]
    nats.py FOLDER-OF-PROGRAMS operating
    nats.py FOLDER-OF-PROGRAMS permissions
    nats.py FOLDER-OF-PROGRAMS requests
    nats.py FOLDER-OF-PROGRAMS abandoned
    nats.py FOLDER-OF-PROGRAMS slow
    nats.py FOLDER-OF-PROGRAMS disks
    nats.py FOLDER-OF-PROGRAMS limits
    nats.py FOLDER-OF-PROGRAMS idle
    nats.py FOLDER-OF-PROGRAMS overtaken
    nats.py FOLDER-OF-PROGRAMS ddl
    nats.py FOLDER-OF-PROGRAMS payload
    nats.py FOLDER-OF-PROGRAMS samples PYTHON [SEED]
    nats.py FOLDER-OF-PROGRAMS faults SECONDS [SEED]

`basic`: a writer, a daemon, a publisher, a server, a follower, a daemon on the mirror: the mirror is equal row by row,
and a hook behind it has every transaction in order. `losses`: the source restored and diverged, history cleaned past the
publisher, the stream's limits past the follower, the mirror removed: each time a snapshot makes it equal. `stale`: streams lost,
trimmed, expired, or of another store, with nothing written afterwards. `foreign`: messages of somebody else.
`requests`: a follower's
request for the first snapshot is lost on its way to the server. `abandoned`: the publisher of a snapshot ends while the
follower applies it. `slow`: a network that takes longer for a snapshot than the store to be read. `disks`: a full disk
under the source's spool folder, the server and the mirror (as root). `limits`: a line of 720 MB, parts without an end, and a
snapshot that trickles (as root). `idle`: how often both wake up while nothing happens. `overtaken`: a new epoch that only its
snapshot has. `payload`: a server whose messages are smaller than a
part. `ddl`: tables altered, renamed, made again between and within groups. `samples`: the two consumers of the page *NATS*, by a Python that has nats-py and psycopg, the second one with
PostgreSQL, which is killed at random instants. `faults`: the same while publisher, follower and server are killed,
the server is set back to an older copy of its folder, a second publisher takes over, and the schema changes.
"""

import base64
import contextlib
import json
import os
import glob
import pwd
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import credentials

SCHEMA = """
CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, data BLOB);
CREATE TABLE item (code TEXT, number INTEGER, price REAL, PRIMARY KEY (code, number)) WITHOUT ROWID;
CREATE TABLE loose (a, b, c);
CREATE TABLE word (w TEXT PRIMARY KEY COLLATE NOCASE, n NUMERIC, length INT AS (length(w)) VIRTUAL);
CREATE TABLE real_key (k REAL PRIMARY KEY, v);
CREATE TABLE blob_key (k BLOB PRIMARY KEY NOT NULL, v ANY) STRICT;
CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, name);
CREATE INDEX person_name ON person (name);
"""

SERVER = shutil.which("nats-server", path="/usr/local/bin:/usr/bin:/usr/sbin:/usr/local/sbin") or "nats-server"

PLUGIN = """
import json, sys
out = open(sys.argv[1], "a")
for line in sys.stdin:
    call = json.loads(line)
    if call.get("method") == "expired": print("expired", json.dumps(call["params"]), file=out, flush=True)
    if call.get("method") == "observe":
        params, context = call["params"], call["params"]["contexts"][0]
        print(params["transaction"]["token"], params["delivery"], context["entityName"], context["operation"], file=out, flush=True)
    if "id" in call: print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": None}), flush=True)
"""


class Failure(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    def __init__(self, programs, seed):
        self.programs = os.path.abspath(programs)
        self.folder = tempfile.mkdtemp(prefix="historyd-nats-")
        self.random = random.Random(seed)
        self.port = free_port()
        self.running = {}
        self.source = self.path("source.sqlite")
        self.mirror = self.path("mirror.sqlite")
        self.spool = self.folder
        self.tables = ["person", "item", "loose", "word", "real_key", "blob_key", "parent", "child"]
        self.encoding = "UTF-8"
        self.count = {}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    # Processes

    def start(self, name, *command, **environment):
        log = open(self.path(name + ".log"), "ab")
        self.running[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": self.folder, **environment})
        self.count[name] = self.count.get(name, 0) + 1

    def kill(self, name, number=signal.SIGKILL):
        process = self.running.pop(name, None)
        if process:
            process.send_signal(number)
            process.wait(20)

    def start_server(self, **more):
        """With further settings, such as max_payload."""
        settings = "".join(f"{name}: {value}\n" for name, value in more.items())
        self.write("server.conf", f'jetstream {{ store_dir: "{self.path("jetstream")}" }}\n{settings}')
        self.start("server", SERVER, "-c", self.path("server.conf"), "-a", "127.0.0.1", "-p", str(self.port))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise Failure("nats-server does not listen:\n" + self.log("server"))

    def log(self, name):
        with open(self.path(name + ".log"), errors="replace") as file:
            return "".join(file.readlines()[-30:])

    def program(self, name):
        return os.path.join(self.programs, name)

    def start_daemon(self, name):
        os.makedirs(self.path(name), exist_ok=True)
        self.start(
            name, self.program("historyd"), "--config", self.path(name + ".json"), STATE_DIRECTORY=self.path(name),
            RUNTIME_DIRECTORY=self.path(name))

    def start_nats(self, name, **environment):
        os.makedirs(self.path(name + ".run"), exist_ok=True)
        config = "publish" if name.startswith("publish") else "follow"
        self.start(
            name, self.program("historyd-nats"), "--config", self.path(config + ".json"),
            STATE_DIRECTORY=self.spool, RUNTIME_DIRECTORY=self.path(name + ".run"), **environment)

    def publish_and_follow(self):
        for name in ["publish", "follow"]:
            self.start_nats(name)

    def end(self):
        for name in list(self.running):
            self.kill(name)

    # Configuration

    def configure(self, authors=("App",), more_publish=None, clean=None):
        server = [f"nats://127.0.0.1:{self.port}"]
        store = {"name": "contacts", "path": self.source, "entities": {t: {} for t in self.tables},
                 "authors": [{"name": "nats", "contexts": [{"name": "stream", "kind": "feed", "window": 10000}]}]}
        if clean:
            store["clean"] = clean
        self.write("source.json", json.dumps({"version": 1, "stores": [store]}))
        self.write("mirror.json", json.dumps({"version": 1, "plugins": [self.path("plugins.json")], "stores": [
            {"name": "contacts", "path": self.mirror, "mirror": True, "authors": [{"name": "Elsewhere"}]}]}))
        self.write("plugin.py", PLUGIN)
        self.write("plugins.json", json.dumps({"version": 1, "plugins": [
            {"name": "audit", "mode": "coprocess",
             "command": ["/usr/bin/python3", self.path("plugin.py"), self.path("calls")],
             "hooks": [{"name": "all", "kind": "observer"}]}]}))
        publish = {"store": self.source, "name": "contacts", "hold": "1s",
                   "feed": {"consumer": "nats", "context": "stream", "socket": self.path("source", "control.sock")}}
        publish.update(more_publish or {})
        self.write("publish.json", json.dumps({"version": 1, "servers": server, "publish": [publish]}))
        self.write("follow.json", json.dumps({"version": 1, "servers": server, "follow": [
            {"name": "contacts", "path": self.mirror}]}))

    def make_store(self):
        connection = sqlite3.connect(self.source, isolation_level=None)
        connection.executescript(f"PRAGMA encoding = '{self.encoding}'; PRAGMA journal_mode = WAL;" + SCHEMA)
        connection.close()
        self.ctl("track", self.source, *self.tables)

    def ctl(self, *arguments):
        result = subprocess.run([self.program("historyctl"), *arguments], capture_output=True, text=True, timeout=60,
                                env={"PATH": os.environ["PATH"], "HOME": self.folder})
        if result.returncode:
            raise Failure(f"historyctl {arguments}: {result.stderr}")
        return result.stdout

    def ctl_at(self, daemon, *arguments):
        result = subprocess.run([self.program("historyctl"), *arguments], capture_output=True, text=True, timeout=120,
                                env={"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": self.path(daemon)})
        if result.returncode:
            raise Failure(f"historyctl {arguments}: {result.stderr}")
        return result.stdout

    # Writing

    def open(self, author=None):
        connection = sqlite3.connect(self.source, isolation_level=None, timeout=30)
        connection.execute("PRAGMA foreign_keys = ON")
        if author:
            connection.enable_load_extension(True)
            connection.load_extension(self.program("libhistory.so"))
            connection.execute("SELECT history_author(?)", [author])
        return connection

    def value(self):
        r = self.random
        return r.choice([
            lambda: None, lambda: r.randint(-9, 9), lambda: r.randint(-2**63, 2**63 - 1), lambda: r.random() * 1e300,
            lambda: float("inf"), lambda: float("-inf"), lambda: -0.0, lambda: 3.0, lambda: "text " + str(r.randint(0, 50)),
            lambda: "nul\0inside", lambda: "ä\"\\\n\x1f😀", lambda: r.randbytes(r.randint(0, 40)), lambda: "",
            lambda: b"", lambda: "x" * r.randint(0, 3000)])()

    def statement(self, db):
        r = self.random
        kind = r.randint(0, 18)
        n = r.randint(1, 40)
        if kind == 16:
            db.execute("INSERT OR IGNORE INTO parent (id, name) VALUES (?, ?)", [n % 9, self.value()])
            db.execute("INSERT OR REPLACE INTO child (id, parent, name) VALUES (?, ?, ?)", [n, n % 9, self.value()])
        elif kind == 17:
            db.execute("DELETE FROM parent WHERE id = ?", [n % 9])
        elif kind == 18:
            db.execute("UPDATE OR IGNORE parent SET id = id + 1 WHERE id = ?", [n % 9])
        elif kind <= 3:
            db.execute("INSERT OR REPLACE INTO person (id, name, email, data) VALUES (?,?,?,?)", [n, self.value(), r.randint(0, 30), self.value()])
        elif kind == 4:
            db.execute("UPDATE OR IGNORE person SET id = id + ?, name = CAST(x'ff80' AS TEXT) WHERE id = ?", [r.randint(1, 9), n])
        elif kind == 5:
            db.execute("DELETE FROM person WHERE id BETWEEN ? AND ?", [n, n + 5])
        elif kind <= 7:
            db.execute("INSERT OR REPLACE INTO item (code, number, price) VALUES (?,?,?)", [r.choice(["a", "b", "x\0y", "É"]), n, self.value()])
        elif kind == 8:
            db.execute("DELETE FROM item WHERE number > ?", [n])
        elif kind == 9:
            db.execute("INSERT INTO loose (a, b, c) VALUES (?,?,?)", [self.value(), self.value(), self.value()])
        elif kind == 10:
            db.execute("DELETE FROM loose WHERE rowid % 7 = ?", [n % 7])
        elif kind == 11:
            db.execute("INSERT OR REPLACE INTO word (w, n) VALUES (?,?)", [r.choice(["one", "ONE", "One", "two", "Two"]), self.value()])
        elif kind == 12:
            db.execute("INSERT OR REPLACE INTO real_key (k, v) VALUES (?,?)", [r.choice([None, 1.5, 2, float("inf"), -0.0, 0.0]), self.value()])
        elif kind == 13:
            db.execute("INSERT OR REPLACE INTO blob_key (k, v) VALUES (?,?)", [r.randbytes(1), self.value()])
        elif kind == 14:
            db.execute("UPDATE loose SET b = ? WHERE rowid % 3 = 0", [self.value()])
        else:
            db.execute("UPDATE person SET data = zeroblob(?) WHERE id = ?", [r.randint(0, 5000), n])

    def transaction(self, db, statements):
        db.execute("BEGIN IMMEDIATE")
        for _ in range(statements):
            try:
                self.statement(db)
            except sqlite3.IntegrityError:
                pass
        db.execute("COMMIT" if self.random.random() < 0.95 else "ROLLBACK")

    def restore(self, name):
        """Puts a backup in the place of the source, which no writer has open."""
        for suffix in ["-wal", "-shm"]:
            if os.path.exists(self.source + suffix):
                os.remove(self.source + suffix)
        os.replace(self.path(name), self.source)

    # Comparing

    @staticmethod
    def rows(path, table, columns):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
        connection.text_factory = bytes
        # With the table's name: SQLite takes a quoted name that nothing has for a text.
        types = ", ".join(f'typeof("{table}"."{c}")' for c in columns)
        names = ", ".join(f'"{table}"."{c}"' for c in columns)
        rowid = ", rowid" if table == "loose" else ""
        try:
            return sorted(map(repr, connection.execute(f'SELECT {names}, {types}{rowid} FROM "{table}"')))
        finally:
            connection.close()

    def newest(self, path):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute("SELECT max(id) FROM historyd_change").fetchone()[0] or 0
        except sqlite3.Error:
            return -1
        finally:
            connection.close()

    def tracked(self):
        connection = sqlite3.connect(self.source)
        names = [row[0] for row in connection.execute("SELECT name FROM historyd_entity WHERE tracked = 1")]
        connection.close()
        return sorted(names)

    def compare(self):
        for table in self.tracked():
            connection = sqlite3.connect(self.source)
            columns = [row[0] for row in connection.execute("SELECT name FROM pragma_table_xinfo(?)", [table])]
            connection.close()
            here, there = self.rows(self.source, table, columns), self.rows(self.mirror, table, columns)
            if here != there:
                lacks = [row for row in here if row not in there][:3]
                more = [row for row in there if row not in here][:3]
                raise Failure(f'"{table}": {len(here)} rows here, {len(there)} there; lacks {lacks}; has more {more}')
        columns = ["id", "origin", "kind", "object", "detail"]
        here = set(self.rows(self.source, "historyd_change", columns))
        there = set(self.rows(self.mirror, "historyd_change", columns))
        if here - there:
            raise Failure(f"the mirror's history lacks {sorted(here - there)[:3]}")

    def wait_level(self, limit=60):
        deadline = time.monotonic() + limit
        wanted = self.newest(self.source)
        while True:
            found = self.newest(self.mirror) if os.path.exists(self.mirror) else -1
            if found == wanted:
                return
            if time.monotonic() > deadline:
                raise Failure(
                    f"the mirror is at {found}, the source at {wanted}\n{self.status('publish')}{self.status('follow')}"
                    f"publisher:\n{self.log('publish')}\nfollower:\n{self.log('follow')}")
            time.sleep(0.05)

    def epoch(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.mirror}?mode=ro", uri=True)) as mirror:
            return mirror.execute("SELECT epoch FROM historyd_mirror").fetchone()[0]

    def compare_schema(self):
        """The tables and indexes that a mirror has are in the source's words."""
        def objects(path, own):
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            rows = connection.execute(
                "SELECT type, tbl_name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL "
                "AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'").fetchall()
            connection.close()
            return sorted(row for row in rows if row[1] in own)
        tracked = self.tracked()
        here, there = objects(self.source, tracked), objects(self.mirror, tracked)
        if here != there:
            raise Failure(f"the schema here is {here}, there {there}")

    def status(self, name):
        return subprocess.run(
            [self.program("historyd-nats"), "status", "--socket", self.path(name + ".run", "status.sock")],
            capture_output=True, text=True).stdout

    def await_problem(self, name, text, limit=90):
        """Waits until a status has a problem, by a regular expression."""
        deadline = time.monotonic() + limit
        while True:
            status = self.status(name)
            if re.search(text, status):
                return
            if time.monotonic() > deadline:
                others = "".join(self.status(other) for other in ("publish", "follow") if other in self.running)
                raise Failure(f"no \"{text}\" in the status of {name}: {others}\n{self.log(name)}")
            # To ask starts a program.
            time.sleep(0.3)

    def mount(self, folder, size):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)

    def enlarge(self, folder, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)

    def tokens(self, *options):
        lines = self.ctl("history", self.source, "--format", "json", *options).splitlines()
        return [json.loads(line)["token"] for line in lines]

    def calls(self):
        """The transactions of the calls since history was last lost, in their order, and whether it was lost.

        There is a call for each entity and operation. It comes once more, with the id of its delivery, where the daemon
        was killed before it had saved it.
        """
        with open(self.path("calls")) as file:
            lines = file.read().split("\n")[:-1]
        losses = [index for index, line in enumerate(lines) if line.startswith("expired")]
        tokens, deliveries, groups = [], {}, {}
        for line in lines[losses[-1] + 1 if losses else 0:]:
            token, delivery, group = line.split(" ", 2)
            if deliveries.setdefault(delivery, (token, group)) != (token, group):
                raise Failure(f"two deliveries with one id: {line} and {deliveries[delivery]}")
            known = groups.setdefault((token, group), delivery)
            if known != delivery:
                raise Failure(f"a delivery with two ids: {line} and {known}")
            if tokens[-1:] != [token] and token not in tokens:
                tokens.append(token)
        return tokens, bool(losses)


def basic(bench):
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    for _ in range(30):
        bench.transaction(db, 8)
    bench.start_server()
    bench.publish_and_follow()
    bench.start_daemon("source")
    bench.wait_level()
    bench.compare()
    print("a new mirror is equal")
    bench.start_daemon("mirror")
    for number in range(200):
        bench.transaction(db, bench.random.randint(1, 6))
        if number == 100:
            db.execute("ALTER TABLE person ADD COLUMN note TEXT DEFAULT 'n'")
            bench.ctl("track", bench.source)
    db.execute("INSERT INTO person (id, data) VALUES (1000, randomblob(3000000))")
    token = db.execute("SELECT history_token()").fetchone()[0]
    bench.wait_level()
    bench.compare()
    print("after transactions, a new column and a row larger than a message it is equal")
    bench.ctl_at("mirror", "wait", "--consumer", "Elsewhere", "--token", token, "--timeout", "60")
    if bench.calls()[0] != bench.tokens():
        raise Failure(f"the hook behind the mirror had {bench.calls()[0][:5]}…, not {bench.tokens()[:5]}…")
    print("a hook behind the mirror had every transaction, in order")
    foreign = sqlite3.connect(bench.mirror)
    for sql in ["INSERT INTO person (id) VALUES (5)", "UPDATE item SET price = 1", "DELETE FROM loose"]:
        try:
            foreign.execute(sql)
            raise Failure(f"the mirror takes: {sql}")
        except sqlite3.IntegrityError as error:
            if "mirror" not in str(error):
                raise
    foreign.close()
    refused = subprocess.run([bench.program("historyctl"), "track", bench.mirror, "person"], capture_output=True, text=True)
    if refused.returncode == 0 or "mirror" not in refused.stderr:
        raise Failure(f"track of a mirror: {refused}")
    print("other writers are refused")
    reload(bench, db)
    status = subprocess.run(
        [bench.program("historyd-nats"), "status", "--socket", bench.path("follow.run", "status.sock")],
        capture_output=True, text=True)
    if "connected" not in status.stdout:
        raise Failure(f"status: {status}")
    print(status.stdout.strip())


def reload(bench, db):
    def ask():
        return subprocess.run(
            [bench.program("historyd-nats"), "reload", "--socket", bench.path("publish.run", "status.sock")],
            capture_output=True, text=True, timeout=60)

    with open(bench.path("publish.json")) as file:
        before = file.read()
    for wrong, said in [(before.replace('"publish"', '"publsh"'), "did you mean"), ("{", "publish.json:1:")]:
        bench.write("publish.json", wrong)
        refused = ask()
        if refused.returncode != 78 or said not in refused.stderr:
            raise Failure(f"reload of a wrong configuration: {refused}")
    bench.transaction(db, 6)
    bench.wait_level()
    bench.write("publish.json", json.dumps({**json.loads(before), "logLevel": "debug"}))
    if ask().returncode != 0:
        raise Failure(f"reload: {ask()}")
    bench.running["publish"].send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 20
    while bench.log("publish").count("event=natsReloaded") < 2:
        if time.monotonic() > deadline or bench.running["publish"].poll() is not None:
            raise Failure("SIGHUP does not reload:\n" + bench.log("publish"))
        time.sleep(0.05)
    for _ in range(10):
        bench.transaction(db, 6)
    bench.wait_level()
    bench.compare()
    print("a wrong configuration is refused, a right one is in force, and the mirror goes on")


def losses(bench):
    bench.make_store()
    bench.configure(more_publish={"stream": {"maxBytes": "300KiB"}, "window": 8})
    db = bench.open("App")
    bench.start_server()

    def write(count):
        for _ in range(count):
            bench.transaction(db, 6)

    epochs = []

    def expect(what, wanted):
        """The mirror is equal, in the epoch of this number, of those that there were."""
        bench.wait_level()
        bench.compare()
        if bench.epoch() not in epochs:
            epochs.append(bench.epoch())
        if len(epochs) != wanted or bench.epoch() != max(epochs):
            raise Failure(f"{what}: the epochs were {epochs}, and {wanted} are right; now it is {bench.epoch()}")
        print(f"{what}: the mirror is equal, in epoch {wanted}")

    def copy(name):
        target = sqlite3.connect(bench.path(name))
        db.backup(target)
        target.close()

    def restore(name):
        nonlocal db
        db.close()
        bench.restore(name)
        db = bench.open("App")

    write(20)
    bench.publish_and_follow()
    write(20)
    expect("begun", 1)

    copy("backup")
    write(30)
    bench.wait_level()
    restore("backup")
    write(3)
    expect("restored from a backup, with the publisher running", 2)

    copy("twin")
    write(10)
    bench.wait_level()
    bench.kill("publish")
    restore("twin")
    write(40)
    bench.start_nats("publish")
    deadline = time.monotonic() + 20
    while "another transaction" not in bench.log("publish"):
        if time.monotonic() > deadline:
            raise Failure("a source that has diverged is not refused:\n" + bench.log("publish"))
        time.sleep(0.1)
    bench.kill("publish")
    subprocess.run([bench.program("historyd-nats"), "publish", "--new-epoch", "contacts", "--config",
                    bench.path("publish.json")], check=True, capture_output=True)
    bench.start_nats("publish")
    write(2)
    expect("diverged, and declared to be right", 3)

    bench.kill("publish")
    write(10)
    newest = bench.newest(bench.source)
    db.execute("DELETE FROM historyd_change WHERE id < ?", [newest])
    db.execute("UPDATE historyd_store SET value = ? WHERE key = 'floor'", [newest - 1])
    bench.start_nats("publish")
    write(5)
    expect("history cleaned past the publisher", 3)

    bench.kill("follow")
    for _ in range(10):
        write(20)
        time.sleep(0.1)
    bench.start_nats("follow")
    expect("the stream's limits past the follower", 3)

    bench.kill("follow")
    for suffix in ["", "-wal", "-shm"]:
        if os.path.exists(bench.mirror + suffix):
            os.remove(bench.mirror + suffix)
    bench.start_nats("follow")
    write(5)
    expect("the mirror removed", 3)


def api(bench, subject, body=None):
    """The server's answer to a request of JetStream."""
    return exchange(bench, [("$JS.API." + subject, None, json.dumps(body or {}).encode())])[0]


def exchange(bench, messages):
    """Publishes messages, of a subject, headers and a body, and returns the answers; nothing checks what they are."""
    with socket.create_connection(("127.0.0.1", bench.port), 10) as connection:
        file = connection.makefile("rwb")
        file.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB answer 1\r\n')
        answers = []
        for subject, fields, content in messages:
            head = b""
            if fields is not None:
                head = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
                head = head.encode()
            word = b"HPUB" if head else b"PUB"
            sizes = f"{len(head)} {len(head) + len(content)}" if head else f"{len(content)}"
            file.write(b"%s %s answer %s\r\n%s%s\r\n" % (word, subject.encode(), sizes.encode(), head, content))
            file.flush()
            while not (line := file.readline()).startswith((b"MSG", b"HMSG")):
                if not line or line.startswith(b"-ERR"):
                    raise Failure(f"the server says {line} to {subject}")
                if line.startswith(b"PING"):
                    file.write(b"PONG\r\n")
            answer = file.read(int(line.split()[-1]) + 2)[:-2]
            answers.append(json.loads(answer[answer.find(b"{"):]) if b"{" in answer else {})
    return answers


def last_headers(bench, stream, **which):
    """The headers of a message: of `seq`, or the last one."""
    if not which:
        which = {"seq": api(bench, f"STREAM.INFO.{stream}")["state"]["last_seq"]}
    message = api(bench, f"STREAM.MSG.GET.{stream}", which)["message"]
    text = base64.b64decode(message.get("hdrs", "")).decode()
    return dict(line.split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line)


def delete_streams(bench):
    for stream in ["HISTORY_contacts", "HISTORY_contacts_SNAPSHOT"]:
        api(bench, "STREAM.DELETE." + stream)


def once(bench, name):
    """The status of `--once`, and what it says."""
    result = subprocess.run(
        [bench.program("historyd-nats"), "--once", "--config", bench.path(name + ".json")], capture_output=True,
        text=True, timeout=120, env={"PATH": os.environ["PATH"], "STATE_DIRECTORY": bench.spool})
    return result.returncode, result.stderr


def new_epoch(bench, configuration="publish.json"):
    return subprocess.run(
        [bench.program("historyd-nats"), "publish", "--new-epoch", "contacts", "--config", bench.path(configuration)],
        capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], "STATE_DIRECTORY": bench.spool})


def stale(bench):
    """What a mirror that is silently stale was: nothing is written that would heal it."""
    bench.make_store()
    bench.configure(more_publish={"stream": {"maxBytes": "1MiB"}})
    db = bench.open("App")
    bench.start_server()

    def write(count):
        for number in range(count):
            db.execute("INSERT INTO person (name) VALUES (?)", [str(number)])

    write(20)
    bench.publish_and_follow()
    bench.wait_level()

    bench.kill("publish")
    if (result := new_epoch(bench)).returncode:
        raise Failure(f"new epoch: {result.stderr}")
    bench.start_nats("publish")
    write(5)
    bench.wait_level()
    bench.kill("publish")
    write(5)
    delete_streams(bench)
    bench.start_nats("publish")
    bench.wait_level()
    bench.compare()
    print("the streams lost after a change of the epoch: the mirror is equal")

    bench.kill("publish")
    write(5)
    delete_streams(bench)
    for file in glob.glob(os.path.join(bench.spool, "*.epoch.json")):
        os.remove(file)
    bench.start_nats("publish")
    bench.wait_level()
    bench.compare()
    print("and the publisher's memory as well: the mirror is equal")

    bench.kill("follow")
    db.execute("INSERT INTO person (id, data) VALUES (4711, randomblob(3000000))")
    wait_published(bench)
    bench.start_nats("follow")
    bench.wait_level()
    bench.compare()
    print("a stream that was trimmed inside a group: the mirror is equal")

    for name in ["publish", "follow"]:
        bench.kill(name)
    write(3)
    status, said = once(bench, "follow")
    if status != 0:
        raise Failure(f"--once of a follower that has everything: {status}, {said}")
    delete_streams(bench)
    status, said = once(bench, "follow")
    if status != 75:
        raise Failure(f"--once without a stream: {status}, {said}")
    for name in ["publish", "follow"]:
        status, said = once(bench, name)
        if status != 0:
            raise Failure(f"--once of {name}: {status}, {said}")
    bench.compare()
    print("--once says whether it is level")

    # Another store under the name.
    db.close()
    other = bench.path("other.sqlite")
    first, bench.source = bench.source, other
    bench.make_store()
    db = bench.open("App")
    write(7)
    bench.configure()
    delete_streams(bench)
    status, said = once(bench, "publish")
    if status != 75 or "another store" not in said:
        raise Failure(f"another store under the name: {status}, {said}")
    for file in glob.glob(os.path.join(bench.spool, "*.epoch.json")):
        os.remove(file)
    bench.publish_and_follow()
    bench.wait_level()
    bench.compare()
    print("another store is refused where the publisher remembers, else the mirror becomes equal to it")

    # The follower is away for longer than the stream keeps messages, and nothing is written when it comes back.
    for name in ["publish", "follow"]:
        bench.kill(name)
    delete_streams(bench)
    bench.configure(more_publish={"stream": {"maxAge": "2s"}, "snapshot": {"every": "1s"}})
    bench.publish_and_follow()
    bench.wait_level()
    bench.kill("follow")
    write(5)
    wait_published(bench)
    newest = bench.newest(bench.source)
    deadline = time.monotonic() + 60
    while True:
        state = api(bench, "STREAM.INFO.HISTORY_contacts")["state"]
        head = last_headers(bench, "HISTORY_contacts_SNAPSHOT", last_by_subj="history_snapshot.contacts.head")
        if state["messages"] == 0 and int(head["Historyd-Through"].split()[0]) == newest:
            break
        if time.monotonic() > deadline:
            raise Failure(f"the stream's messages do not expire: {state}, {head}")
        time.sleep(0.1)
    bench.kill("publish")
    bench.start_nats("follow")
    bench.wait_level()
    bench.compare()
    print("away for longer than the stream keeps messages: the mirror is filled from the snapshot")


def forged(bench, kind, **changes):
    """The headers of a message as the publisher would send it, with changes."""
    known = last_headers(bench, "HISTORY_contacts_SNAPSHOT", last_by_subj="history_snapshot.contacts.head")
    fields = {name: value for name, value in known.items() if name.startswith("Historyd-")}
    fields.update({"Historyd-Kind": kind, "Historyd-Part": "0", "Nats-Msg-Id": "stranger/" + uuid.uuid4().hex})
    fields.update({"Historyd-" + name.replace("_", "-"): str(value) for name, value in changes.items()})
    return fields


def following(bench, count, **more):
    """The headers of a group behind the stream's end, which the source has not."""
    newest = bench.newest(bench.source)
    last = last_headers(bench, "HISTORY_contacts")["Historyd-Through"].split()
    return forged(bench, "group", After=" ".join(last), Through=f"{newest + count} 0123456789abcdef {last[2]}",
                  **{"Last": 1, **more})


# What a header may say that is no number, or one that nobody can count on from.
NONSENSE = ["", "-1", "0", str(2**63 - 1), str(-2**63), str(2**64), "1e9", "9" * 400, "é", "0 - -", f"{2**63 - 1} f s",
            f"{2**62} f s", "5 " * 200, "begin", "head"]


def foreign(bench, isShort=True):
    """Messages of somebody else, of which one at most is well formed: nothing ends, and the mirror is equal afterwards."""
    bench.make_store()
    bench.configure()
    db, r = bench.open("App"), bench.random
    for _ in range(10):
        bench.transaction(db, 6)
    bench.start_server()
    bench.publish_and_follow()
    bench.wait_level()
    subjects = ["history.contacts.x", "history.contacts._begin", "history.contacts.App", "history_snapshot.contacts.head",
                "history_snapshot.contacts.begin", "history_snapshot.contacts.part"]

    def head_and(*messages):
        return [(subject, fields() if callable(fields) else fields, content) for subject, fields, content in messages]

    far = 2**63 - 1
    listed = {
        "a word": [("history.contacts.x", None, b"hello")],
        "a word for a head": [("history_snapshot.contacts.head", None, b"hello")],
        "a word for a beginning": [("history.contacts._begin", {"X": "y"}, b"hello")],
        "the last epoch": [("history.contacts._begin", lambda: forged(bench, "begin", Epoch=far), b"")],
        "a head of the last epoch": [("history_snapshot.contacts.head", lambda: forged(bench, "head", Epoch=far), b"")],
        "a format of the future": [("history.contacts.App", lambda: forged(bench, "group", Format=2, Last=1), b"?")],
        "a head of parts that there are not": [
            ("history_snapshot.contacts.head", lambda: forged(bench, "head", First=far >> 2, Parts=1 << 29), b"")],
        "a head of the future": [("history_snapshot.contacts.head", lambda: forged(bench, "head", Time=8 * 10**15), b"")],
        "a group that cannot be applied": [
            ("history.contacts.App", lambda: following(bench, 1),
             b'{"rows":"person","columns":["id"],"whole":false}\n["text"]\n')],
        "a change of no table": [
            ("history.contacts.App", lambda: following(bench, 1),
             b'{"changes":["id","origin","kind","object","detail"]}\n[%d,1,4000,1,null]\n' % (bench.newest(bench.source) + 1))],
        "parts without an end": [
            ("history.contacts.App", lambda part=part: following(bench, 9, Part=part, Last=0), b"[1," * 1000) for part in range(40)],
        "a snapshot that is abandoned": [
            ("history_snapshot.contacts.begin", lambda: forged(bench, "begin"), b""),
            ("history_snapshot.contacts.part", lambda: forged(bench, "snapshot"), b"[1,")],
    }

    def check(what):
        for _ in range(2):
            db.execute("INSERT INTO person (name) VALUES (?)", [what])
            bench.transaction(db, 4)
        bench.wait_level(90)
        bench.compare()
        for name in ["publish", "follow"]:
            if bench.running[name].poll() is not None or bench.count[name] > starts[name]:
                raise Failure(f"{what}: {name} ended by itself:\n{bench.log(name)}")

    for what, messages in r.sample(sorted(listed.items(), key=lambda each: each[0]), 3 if isShort else len(listed)):
        starts = dict(bench.count)
        exchange(bench, head_and(*messages))
        check(what)
        # With it as the last message at each of their beginnings, and for one that is new.
        exchange(bench, head_and(*messages))
        for name in ["publish", "follow"]:
            bench.kill(name)
        for suffix in ["", "-wal", "-shm"]:
            if os.path.exists(bench.mirror + suffix):
                os.remove(bench.mirror + suffix)
        bench.publish_and_follow()
        starts = dict(bench.count)
        check(what)
        bench.kill("publish")
        exchange(bench, head_and(*messages))
        if (result := new_epoch(bench)).returncode:
            raise Failure(f"{what}: --new-epoch: {result.stderr}")
        bench.start_nats("publish")
        starts = dict(bench.count)
        check(what)
        print(f"{what}: passed by")
    exchange(bench, head_and(*listed["a word"]))
    starts = dict(bench.count)
    check("a word")
    status = json.loads(subprocess.run(
        [bench.program("historyd-nats"), "status", "--format", "json", "--socket", bench.path("follow.run", "status.sock")],
        capture_output=True, text=True).stdout)
    if status[0]["foreign"] < 1 or "natsMessageForeign" not in bench.log("follow"):
        raise Failure(f"foreign messages are not counted: {status}\n{bench.log('follow')}")

    count = 4 if isShort else 40
    for _ in range(count):
        starts = dict(bench.count)
        kind = r.choice(["begin", "group", "snapshot", "head"])
        fields = forged(bench, kind)
        for name in r.sample(sorted(name for name in fields if name != "Nats-Msg-Id"), r.randint(1, 3)):
            fields[name] = r.choice(NONSENSE).encode("ascii", "replace").decode()
        subject = r.choice(subjects)
        body = r.choice([b"", b"[", b"{}\n", b"[1]\n", r.randbytes(50), b'{"schema":{}}\n'])
        exchange(bench, [(subject, fields, body)])
        if r.random() < 0.5:
            name = r.choice(["publish", "follow"])
            bench.kill(name)
            bench.start_nats(name)
            starts = dict(bench.count)
        try:
            check("at random")
        except Failure as failure:
            raise Failure(f"{subject} {fields} {body}: {failure}")
    print(f"{count} messages at random: passed by")


def health(bench, name):
    result = subprocess.run(
        [bench.program("historyd-nats"), "health", "--socket", bench.path(name + ".run", "status.sock")],
        capture_output=True, text=True)
    return result.returncode, result.stdout


def doctor(bench, name):
    """What it finds wrong, by what was checked, and its status."""
    result = subprocess.run(
        [bench.program("historyd-nats"), "doctor", "--format", "json", "--socket", bench.path(name + ".run", "status.sock")],
        capture_output=True, text=True, timeout=60)
    findings = json.loads(result.stdout)
    return {finding["check"]: finding.get("problem") for finding in findings}, result.returncode


def await_log(bench, name, text, limit=60):
    deadline = time.monotonic() + limit
    while text not in bench.log(name):
        if time.monotonic() > deadline:
            raise Failure(f"{name} does not say \"{text}\":\n{bench.log(name)}\n{bench.status(name)}")
        time.sleep(0.1)


def operating(bench):
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    bench.write("plain.conf", "")
    bench.start("server", SERVER, "-c", bench.path("plain.conf"), "-a", "127.0.0.1", "-p", str(bench.port))
    bench.publish_and_follow()
    await_log(bench, "publish", "no JetStream answers here: put")
    status, said = health(bench, "publish")
    if status == 0 or "JetStream" not in said:
        raise Failure(f"health without JetStream: {status}, {said}")
    found, status = doctor(bench, "publish")
    if status != 1 or "JetStream" not in found["stream"] or "does not answer" not in found["feed"] or found["server"]:
        raise Failure(f"doctor without JetStream and daemon: {status}, {found}")
    bench.kill("server")
    bench.start_server()
    for name in ["publish", "follow"]:
        bench.await_problem(name, " connected .* at 0  level")
    print("where nothing has happened yet, both have all of it")
    for _ in range(5):
        bench.transaction(db, 6)
    bench.wait_level()
    deadline = time.monotonic() + 20
    while any(health(bench, name)[0] for name in ["publish", "follow"]):
        if time.monotonic() > deadline:
            raise Failure(f"not healthy: {health(bench, 'publish')}, {health(bench, 'follow')}")
        time.sleep(0.3)
    metrics = subprocess.run(
        [bench.program("historyd-nats"), "status", "--metrics", "--socket", bench.path("follow.run", "status.sock")],
        capture_output=True, text=True).stdout
    for name in ["lag_seconds", "health", "foreign_messages_total", "refusals_total"]:
        if f"historyd_nats_{name}" + '{role="follow",stream="contacts"} 0' not in metrics:
            raise Failure(f"no {name}: {metrics}")
    print("a server without JetStream is named; then both are healthy, with no lag")
    bench.start_daemon("source")
    deadline = time.monotonic() + 20
    while any(doctor(bench, name)[1] for name in ["publish", "follow"]):
        if time.monotonic() > deadline:
            raise Failure(f"doctor: {doctor(bench, 'publish')}, {doctor(bench, 'follow')}")
        time.sleep(0.3)
    print("doctor names what is wrong, and then nothing")

    # Both behind a server that does not answer any more.
    bench.kill("follow")
    bench.kill("publish")
    proxy = SwallowingProxy(bench.port)
    for name in ["publish", "follow"]:
        configuration = json.load(open(bench.path(name + ".json")))
        bench.write(name + ".json", json.dumps({**configuration, "servers": [f"nats://127.0.0.1:{proxy.port}"]}))
    bench.publish_and_follow()
    for _ in range(3):
        bench.transaction(db, 6)
    bench.wait_level()
    for name in ["publish", "follow"]:
        bench.await_problem(name, " connected")
    proxy.silent.set()
    start = time.monotonic()
    for name in ["publish", "follow"]:
        bench.await_problem(name, "not connected")
    print(f"a silent server is noticed after {time.monotonic() - start:.0f} s")
    proxy.silent.clear()
    db.execute("INSERT INTO person (name) VALUES ('later')")
    bench.wait_level()

    bench.kill("follow")
    with open(bench.mirror, "r+b") as file:
        file.write(b"no database at all")
    bench.start_nats("follow")
    await_log(bench, "follow", "event=mirrorMovedAside")
    bench.wait_level()
    bench.compare()
    print("a damaged mirror is moved aside and filled again")

    # A stream that is behind its mirror, and whose publisher is away.
    bench.kill("publish")
    bench.kill("server")
    shutil.copytree(bench.path("jetstream"), bench.path("older"))
    bench.start_server()
    bench.start_nats("publish")
    for _ in range(3):
        db.execute("INSERT INTO person (name) VALUES ('newer')")
    bench.wait_level()
    bench.kill("publish")
    bench.kill("server")
    shutil.rmtree(bench.path("jetstream"))
    shutil.move(bench.path("older"), bench.path("jetstream"))
    bench.start_server()
    await_log(bench, "follow", "event=mirrorStale")
    status, said = health(bench, "follow")
    if status != 2 or "the stream ends at" not in said:
        raise Failure(f"health of a mirror that is ahead: {status}, {said}")
    status, said = once(bench, "follow")
    if status != 75:
        raise Failure(f"--once of a mirror that is ahead: {status}, {said}")
    bench.start_nats("publish")
    bench.await_problem("follow", " connected")
    bench.compare()
    print("a mirror that is ahead of a server that was set back says so, and goes on when the publisher is back")

    bench.write("missing.json", json.dumps({
        "version": 1, "servers": ["nats://h"], "credentials": "none.creds", "tls": {"ca": "none.pem"},
        "follow": [{"name": "a", "path": "m"}]}))
    result = subprocess.run([bench.program("historyd-nats"), "--check-config", "--config", bench.path("missing.json")],
                            capture_output=True, text=True)
    if result.returncode != 78 or "credentials: expected a file" not in result.stderr or "tls.ca" not in result.stderr:
        raise Failure(f"--check-config of missing files: {result}")
    print("--check-config names files that there are not")


def page_block(language, number=0):
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../Sources/PersistentHistory/"
                        "PersistentHistory.docc/Nats.md")
    with open(page) as file:
        return re.findall("```" + language + "\n(.*?)```", file.read(), re.S)[number]


def permissions(bench):
    """The server's configuration of the page, with keys, certificates and folders of this test."""
    publisher, follower = credentials.Key("user"), credentials.Key("user")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=bench.folder)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-keyout", "ca.key",
            "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    bench.write("names", "subjectAltName=DNS:localhost")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "server.pem")
    text = page_block("conf")
    for old, new in [("UPUBLISHER", publisher.public), ("UFOLLOWER", follower.public), ("/etc/nats", bench.folder),
                     ("/var/lib/nats", bench.path("jetstream")), ("port: 4222", f'listen: "127.0.0.1:{bench.port}"')]:
        if old not in text:
            raise Failure(f"the page's configuration of the server has no {old}")
        text = text.replace(old, new)
    bench.write("server.conf", text)
    bench.make_store()
    bench.configure()
    for name, key in [("publish", publisher), ("follow", follower)]:
        configuration = json.load(open(bench.path(name + ".json")))
        bench.write(name + ".seed", key.seed)
        bench.write(name + ".json", json.dumps({
            **configuration, "servers": [f"tls://localhost:{bench.port}"], "nkey": key.public,
            "nkeySeed": name + ".seed", "tls": {"ca": "ca.pem"}}))
    db = bench.open("App")
    for _ in range(10):
        bench.transaction(db, 6)
    bench.start("server", SERVER, "-c", bench.path("server.conf"))
    bench.publish_and_follow()
    bench.wait_level()
    for _ in range(10):
        bench.transaction(db, 6)
    bench.wait_level()
    bench.compare()
    print("the permissions of the page are enough to publish and to follow")
    if (result := new_epoch(bench)).returncode:
        raise Failure(f"--new-epoch: {result.stderr}")
    db.execute("INSERT INTO person (name) VALUES ('later')")
    bench.wait_level()
    bench.kill("publish")
    configuration = json.load(open(bench.path("publish.json")))
    bench.write("publish.json", json.dumps({**configuration, "nkey": follower.public, "nkeySeed": "follow.seed"}))
    db.execute("INSERT INTO person (name) VALUES ('never')")
    status, said = once(bench, "publish")
    if status != 75 or "Permissions Violation" not in said:
        raise Failure(f"a follower's user publishes: {status}, {said}")
    print("a follower's user cannot publish, and the server's reason is told")

    bench.kill("server")
    bench.write("server.conf", text.replace("tls { ", 'tls { verify: true, ca_file: "ca.pem", '))
    bench.start("server", SERVER, "-c", bench.path("server.conf"))
    deadline = time.monotonic() + 30
    while "client's certificate" not in (answer := once(bench, "follow"))[1]:
        if time.monotonic() > deadline:
            raise Failure(f"a client without a certificate: {answer}")
        time.sleep(0.2)
    if answer[0] != 75:
        raise Failure(f"a client without a certificate: {answer}")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=edge", "-keyout", "edge.key", "-out", "edge.csr")
    openssl("x509", "-req", "-in", "edge.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", "edge.pem")
    configuration = json.load(open(bench.path("follow.json")))
    configuration["tls"].update(certificate="edge.pem", key="edge.key")
    bench.write("follow.json", json.dumps(configuration))
    status, said = once(bench, "follow")
    if status != 0:
        raise Failure(f"a client with a certificate: {status}, {said}")
    print("a missing certificate of the client is named")


class Proxy:
    """Between a program and the server; `let_through` says what goes on of what the program sends."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self.server))
            for source, target, change in [(client, server, self.let_through), (server, client, bytes)]:
                threading.Thread(target=self.carry, args=[source, target, change], daemon=True).start()

    def let_through(self, data):
        return data

    def carry(self, source, target, change):
        try:
            # libnats sends a message at once and whole.
            while (data := source.recv(1 << 16)) and (data := change(data)) is not None:
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in [source, target]:
                end.close()


class LosingProxy(Proxy):
    """It loses the first request for messages."""

    REQUEST = re.compile(rb"PUB \$JS\.API\.CONSUMER\.MSG\.NEXT\.\S+ \S+ (\d+)\r\n")

    def __init__(self, server):
        self.lost = threading.Event()
        super().__init__(server)

    def let_through(self, data):
        found = None if self.lost.is_set() else self.REQUEST.search(data)
        if not found:
            return data
        self.lost.set()
        return data[:found.start()] + data[found.end() + int(found[1]) + 2:]


def make_streams(bench):
    """Empty ones, as the publisher makes them."""
    with socket.create_connection(("127.0.0.1", bench.port)) as connection:
        file = connection.makefile("rwb")
        file.write(b'CONNECT {"verbose":false}\r\nSUB answer 1\r\n')
        for name, subject in [("HISTORY_contacts", "history"), ("HISTORY_contacts_SNAPSHOT", "history_snapshot")]:
            body = json.dumps({"name": name, "subjects": [f"{subject}.contacts.>"]}).encode()
            file.write(b"PUB $JS.API.STREAM.CREATE.%s answer %d\r\n%s\r\n" % (name.encode(), len(body), body))
        file.flush()
        made = 0
        while made < 2:
            made += b"stream_create_response" in file.readline()


def begin_with_streams(bench):
    """A store with a transaction, and a server whose streams are there before the publisher."""
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    bench.transaction(db, 6)
    bench.start_server()
    make_streams(bench)
    return db


def requests(bench):
    db = begin_with_streams(bench)
    proxy = LosingProxy(bench.port)
    follow = json.load(open(bench.path("follow.json")))
    bench.write("follow.json", json.dumps({**follow, "servers": [f"nats://127.0.0.1:{proxy.port}"]}))
    bench.start_nats("follow")
    if not proxy.lost.wait(60):
        raise Failure("the follower does not ask for a snapshot:\n" + bench.log("follow"))
    bench.start_nats("publish")
    bench.wait_level()
    bench.compare()
    print("the request for the first snapshot lost: the mirror is equal")


STEPPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>
static volatile int watched = -1;
int timerfd_settime(int timer, int flags, const struct itimerspec *new, struct itimerspec *old) {
    static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
    if (!real) real = dlsym(RTLD_NEXT, "timerfd_settime");
    if (flags & 2) watched = timer; /* TFD_TIMER_CANCEL_ON_SET */
    return real(timer, flags, new, old);
}
ssize_t read(int file, void *bytes, size_t count) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    if (file != watched) return real(file, bytes, count);
    while (unlink(getenv("CLOCK_STEP")) != 0) usleep(10000);
    errno = ECANCELED;
    return -1;
}
"""


def clock(bench):
    """The clock is set: libnats measures by it, so publisher and follower begin new sessions."""
    db = begin_with_streams(bench)
    bench.write("clock.c", STEPPING_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", bench.path("clock.so"), bench.path("clock.c"), "-ldl"], check=True)
    for name in ["publish", "follow"]:
        bench.start_nats(name, LD_PRELOAD=bench.path("clock.so"), CLOCK_STEP=bench.path(name + ".step"))
    bench.wait_level()
    for name in ["publish", "follow"]:
        bench.write(name + ".step", "")
        deadline = time.monotonic() + 60
        while "clock was set" not in bench.log(name):
            if time.monotonic() > deadline:
                raise Failure(f"{name} does not notice that the clock was set:\n" + bench.log(name))
            time.sleep(0.05)
        bench.transaction(db, 6)
        bench.wait_level()
        bench.compare()
    print("after steps of the clock the mirror is equal")


def abandoned(bench):
    """A publisher that ended in the middle of a snapshot, which the follower had begun to apply."""
    db = begin_with_streams(bench)
    bench.start_nats("follow")
    section = {"changes": ["id", "origin", "kind", "object", "detail"]}
    lines = [section] + [[number, "1767225600000", 3, None, None] for number in range(1, 1000)]
    body = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    position = {"Historyd-Store": str(uuid.uuid4()), "Historyd-Epoch": 1, "Historyd-After": "0 - -",
                "Historyd-Through": "999 - 0123456789abcdef"}
    messages = [("begin", {"Historyd-Kind": "begin", "Historyd-Part": 0}, b"")]
    messages += [("part", {"Historyd-Kind": "snapshot", "Historyd-Part": part}, body if part == 0 else b"[1") for part in (0, 1)]
    with socket.create_connection(("127.0.0.1", bench.port)) as connection:
        file = connection.makefile("rwb")
        file.write(b'CONNECT {"verbose":false,"headers":true}\r\nSUB answer 1\r\n')
        for number, (subject, fields, content) in enumerate(messages):
            fields = {"Nats-Msg-Id": f"gone/{number}", "Historyd-Format": 1, **fields, **position}
            head = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
            file.write(b"HPUB history_snapshot.contacts.%s answer %d %d\r\n%s%s\r\n" % (
                subject.encode(), len(head), len(head) + len(content), head.encode(), content))
        file.flush()
        stored = 0
        while stored < len(messages):
            stored += b'"seq":' in file.readline()
    # What is not whole is not seen.
    bench.await_problem("follow", "the snapshot at 999, which comes slowly", 30)
    if os.path.exists(bench.mirror):
        raise Failure("a snapshot is seen that is not whole")
    bench.start_nats("publish")
    bench.wait_level()
    bench.compare()
    if "The snapshot at 999 was not completed" not in bench.log("follow"):
        raise Failure("the follower did not begin with the snapshot that was abandoned:\n" + bench.log("follow"))
    print("a snapshot abandoned in the middle: the mirror is equal")


class SwallowingProxy(Proxy):
    """It carries nothing while it is silent, in neither direction, and closes nothing."""

    def __init__(self, server):
        self.silent = threading.Event()
        super().__init__(server)

    def carry(self, source, target, change):
        super().carry(source, target, lambda data: b"" if self.silent.is_set() else data)


class CuttingProxy(Proxy):
    """It ends the connection at the beginning of a session."""

    def let_through(self, data):
        return None if b"HPUB history.contacts._begin" in data else data


def overtaken(bench):
    """A new epoch whose snapshot is there, and whose session did not begin, beside a publisher that runs."""
    bench.make_store()
    bench.configure(more_publish={"stream": {"maxBytes": "1MiB"}})
    db = bench.open("App")
    db.execute("INSERT INTO person (name) VALUES ('before')")
    bench.start_server()
    bench.publish_and_follow()
    bench.wait_level()
    proxy = CuttingProxy(bench.port)
    publish = json.load(open(bench.path("publish.json")))
    bench.write("cut.json", json.dumps({**publish, "servers": [f"nats://127.0.0.1:{proxy.port}"]}))

    def overtake():
        before = bench.epoch()
        result = new_epoch(bench, "cut.json")
        if result.returncode != 75:
            raise Failure(f"--new-epoch without a session: {result}")
        bench.kill("follow")
        bench.start_nats("follow")
        deadline = time.monotonic() + 60
        while bench.epoch() == before:
            if time.monotonic() > deadline:
                raise Failure(f"the mirror does not take the new epoch:\n{bench.log('follow')}")
            time.sleep(0.1)
        db.execute("INSERT INTO person (name) VALUES ('after')")

    overtake()
    # The publisher looks at its stream every four minutes, and before each snapshot. Until then the mirror takes nothing of
    # the earlier epoch, and says so.
    bench.await_problem("follow", "in an epoch that is over for the mirror", 30)
    if (status := once(bench, "follow")[0]) != 75:
        raise Failure(f"--once of an overtaken mirror: {status}")
    if not health(bench, "follow")[0]:
        raise Failure("an overtaken mirror is healthy")
    bench.wait_level(400)
    bench.compare()
    # Its own snapshot would hide the later epoch from all who look for one.
    overtake()
    # More than half of what the stream keeps: then a snapshot is made.
    db.execute("INSERT INTO person (data) VALUES (randomblob(600000))")
    db.execute("INSERT INTO person (name) VALUES ('last')")
    bench.wait_level(60)
    bench.compare()
    print("a snapshot of a later epoch without its session: the publisher begins a later one, and the mirror is equal")


class SlowProxy(Proxy):
    """It takes 1 MB a second until it is told to hurry."""

    def __init__(self, server):
        self.carried = 0
        self.hurry = threading.Event()
        super().__init__(server)

    def let_through(self, data):
        self.hurry.wait(len(data) / 1e6)
        self.carried += len(data)
        return data


def slow(bench):
    """A network that takes much longer for a snapshot than the store to be read."""
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    db.execute("WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 6000) "
               "INSERT INTO person (id, data) SELECT n + 1000, hex(randomblob(5000)) FROM number")
    # Something has to be in the log: else its reader does without it.
    db.execute("PRAGMA wal_autocheckpoint = 0")
    bench.transaction(db, 6)
    bench.start_server()
    make_streams(bench)
    proxy = SlowProxy(bench.port)
    publish = json.load(open(bench.path("publish.json")))
    bench.write("publish.json", json.dumps({**publish, "servers": [f"nats://127.0.0.1:{proxy.port}"]}))
    bench.start_nats("publish")
    deadline = time.monotonic() + 30
    while proxy.carried < 1 << 20:
        if time.monotonic() > deadline:
            raise Failure("no snapshot begins:\n" + bench.log("publish"))
        time.sleep(0.05)
    # The log can be reset when no reader needs what is in it.
    db.execute("PRAGMA busy_timeout = 0")
    while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
        if proxy.carried > 30 << 20:
            raise Failure("the store is still being read when half of its snapshot was sent")
        time.sleep(0.05)
    print(f"the store had been read when {proxy.carried} bytes were sent")
    proxy.hurry.set()
    bench.start_nats("follow")
    bench.wait_level(60)
    bench.compare()
    print("the mirror is equal")


def disks(bench):
    """In a mount namespace of its own: see `main`."""
    small, spool = bench.path("small"), bench.path("spool")
    bench.mount(small, "3m")
    bench.mount(spool, "64m")
    bench.mount(bench.path("jetstream"), "14m")
    bench.mirror, bench.spool = os.path.join(small, "mirror.sqlite"), spool
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    for _ in range(20):
        bench.transaction(db, 6)
    bench.start_server()
    bench.publish_and_follow()
    bench.wait_level()
    bench.compare()

    def fill(count, size):
        for number in range(count):
            db.execute("INSERT OR REPLACE INTO person (id, data) VALUES (?, randomblob(?))", [5000 + number, size])

    # Of the database, or of the file that a group waits in.
    full = "full|No space left"
    fill(10, 350_000)
    bench.await_problem("follow", full)
    before = bench.newest(bench.mirror)
    bench.transaction(db, 6)
    bench.await_problem("follow", full)
    if bench.newest(bench.mirror) != before or before >= bench.newest(bench.source):
        raise Failure("a mirror on a full disk moves")
    bench.enlarge(small, "64m")
    bench.wait_level(120)
    bench.compare()
    print("a full disk of the mirror: it stays at a state that the source had, and goes on when there is space")

    bench.kill("publish", signal.SIGTERM)
    bench.enlarge(spool, "1m")
    db.execute("BEGIN")
    fill(4, 900_000)
    db.execute("COMMIT")
    bench.start_nats("publish")
    bench.await_problem("publish", "No space left")
    bench.enlarge(spool, "64m")
    bench.wait_level(120)
    bench.compare()
    print("a full disk of the publisher's spool folder: the group is published when there is space")

    deadline = time.monotonic() + 60
    while not re.search("insufficient|no space|unavailable|not available|timeout|503|no stream", bench.log("publish"), re.I):
        fill(2, 700_000)
        if time.monotonic() > deadline:
            raise Failure("the server's disk is not full:\n" + bench.log("publish") + bench.log("server"))
        time.sleep(0.2)
    for _ in range(10):
        bench.transaction(db, 6)
    for name in ["publish", "follow"]:
        if bench.running[name].poll() is not None:
            raise Failure(f"{name} ended by itself:\n{bench.log(name)}")
    # The server turns JetStream off, until it is started again.
    bench.kill("server")
    bench.enlarge(bench.path("jetstream"), "200m")
    bench.start_server()
    bench.wait_level(120)
    bench.compare()
    print("a full disk of the server: everything is published when it has space")


def limits(bench):
    """Messages without measure, of somebody who may publish: they get no more memory, disk and time than there is.

    In a mount namespace of its own: see `main`.
    """
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    bench.transaction(db, 6)
    bench.start_server(max_payload=8 << 20)
    bench.publish_and_follow()
    bench.wait_level()

    def heal(what):
        if (result := new_epoch(bench)).returncode not in (0, 75):
            raise Failure(f"{what}: --new-epoch: {result.stderr}")
        db.execute("INSERT INTO person (name) VALUES (?)", [what])
        bench.wait_level(300)
        bench.compare()
        print(f"{what}: the mirror is equal")

    def stored(*message):
        if "seq" not in (answer := exchange(bench, [message])[0]):
            raise Failure(f"the server does not store {message[:2]}: {answer}")

    def parts(count, size, isWhole):
        """A session of one group, as a publisher would send it."""
        session = uuid.uuid4().hex
        group = following(bench, 9, Epoch=last_headers(bench, "HISTORY_contacts")["Historyd-Epoch"])
        begin = {**group, "Historyd-Kind": "begin", "Historyd-Through": group["Historyd-After"], "Nats-Msg-Id": session + "/0"}
        stored("history.contacts._begin", begin, b"")
        for part in range(count):
            fields = {**group, "Historyd-Part": str(part), "Historyd-Last": str(int(isWhole and part == count - 1)),
                      "Nats-Msg-Id": f"{session}/{part + 1}"}
            stored("history.contacts.App", fields, b"[" * size)

    bench.kill("publish")
    parts(90, 8_000_000, True)
    await_log(bench, "follow", "a line is longer than", 120)
    with open(f"/proc/{bench.running['follow'].pid}/status") as file:
        peak = int(re.search(r"VmHWM:\s*(\d+)", file.read())[1]) >> 10
    if peak > 700:
        raise Failure(f"the follower has taken {peak} MiB for a line")
    bench.start_nats("publish")
    heal(f"a line of 720 MB, for which the follower took {peak} MiB")

    bench.kill("follow")
    small = bench.path("small")
    bench.mount(small, "96m")
    bench.mirror = os.path.join(small, "mirror.sqlite")
    bench.configure()
    bench.start_nats("follow")
    # Behind all that the stream has.
    bench.wait_level(300)
    bench.kill("publish")
    parts(11, 8_000_000, False)
    await_log(bench, "follow", "No space left")
    free = os.statvfs(small)
    if free.f_bavail * free.f_frsize < 40 << 20:
        raise Failure(f"parts without an end fill the disk: {free}")
    bench.start_nats("publish")
    heal("parts without an end")

    # A snapshot of a later epoch, of which a part comes now and then.
    bench.kill("publish")
    later = int(last_headers(bench, "HISTORY_contacts_SNAPSHOT",
                             last_by_subj="history_snapshot.contacts.head")["Historyd-Epoch"]) + 1
    stored("history.contacts._begin", {**forged(bench, "begin", Epoch=later), "Nats-Msg-Id": "stranger/0"}, b"")
    bench.await_problem("follow", "waits for a snapshot")
    stored("history_snapshot.contacts.begin", forged(bench, "begin", Epoch=later), b"")
    for part in range(20):
        stored("history_snapshot.contacts.part", forged(bench, "snapshot", Epoch=later, Part=part), b"[1,")
        time.sleep(1)
        with contextlib.closing(sqlite3.connect(bench.mirror, timeout=0, isolation_level=None)) as mirror:
            try:
                mirror.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise Failure(f"a trickling snapshot locks the mirror: {error}:\n{bench.log('follow')}")
    print("a trickling snapshot locks nothing")
    bench.start_nats("publish")
    heal("a trickling snapshot")


def idle(bench):
    """While nothing happens, the follower looks at its stream every 7 s, and the publisher every 10 s: two wake-ups or three
    each time."""
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    bench.start_server()
    bench.start_daemon("source")
    bench.publish_and_follow()
    db.execute("INSERT INTO person (name) VALUES ('a')")
    bench.wait_level()
    # What follows a commit is over, the acknowledgement of the feed included.
    time.sleep(15)

    def wake_ups(name):
        count = 0
        for path in glob.glob(f"/proc/{bench.running[name].pid}/task/*/status"):
            with open(path) as file:
                count += int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", file.read())[1])
        return count

    before = {name: wake_ups(name) for name in ["publish", "follow"]}
    time.sleep(60)
    for name, count in before.items():
        count = wake_ups(name) - count
        if count > 60:
            raise Failure(f"{name} wakes up {count} times in 60 s of idleness")
        print(f"{name} woke up {count} times in 60 s of idleness")


def payload(bench):
    bench.make_store()
    bench.configure(more_publish={"window": 8})
    db = bench.open("App")
    for _ in range(20):
        bench.transaction(db, 6)
    bench.start_server(max_payload=20_000)
    bench.publish_and_follow()
    bench.wait_level()

    def large(size):
        db.execute("INSERT OR REPLACE INTO person (id, data) VALUES (?, randomblob(?))", [7000, size])
        for _ in range(5):
            bench.transaction(db, 6)
        bench.wait_level()
        bench.compare()

    large(200_000)
    print("messages of 20,000 bytes: the mirror is equal")
    for size in [1_048_576, 8_000]:
        bench.kill("server")
        bench.start_server(max_payload=size)
        large(200_000)
        print(f"then of {size}: the mirror is equal")
    bench.kill("server")
    bench.start_server(max_payload=3000)
    # Not a transaction of the generator's, which may be rolled back.
    db.execute("INSERT OR REPLACE INTO person (id, data) VALUES (7001, x'00')")
    bench.await_problem("publish", "max_payload")
    print("of 3,000, which is too small: the status says so")
    bench.kill("server")
    bench.start_server()
    large(1_500_000)
    print("without a limit of its own: the mirror is equal")


DDL = [
    "ALTER TABLE {table} ADD COLUMN c{n} DEFAULT {n}",
    "ALTER TABLE {table} RENAME COLUMN {column} TO c{n}",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "DROP TABLE {table}; CREATE TABLE {table} (id INTEGER PRIMARY KEY, c{n} TEXT, again)",
    "DROP TABLE {table}; CREATE TABLE {table} (k TEXT, n INTEGER, c{n}, PRIMARY KEY (n, k)) WITHOUT ROWID",
    "CREATE TABLE made{n} (a, b); INSERT INTO made{n} VALUES (1, x'00'), ('x', 2.0)",
    "CREATE INDEX i{n} ON {table} ({column})",
    "ALTER TABLE {table} RENAME TO renamed{n}",
    "DROP TABLE {table}",
    "VACUUM",
]


def ddl(bench):
    """Tables of every kind are altered at random; the publisher sees each change, or several of them in one group."""
    r = bench.random
    bench.tables = ["t0", "t1", "t2"]
    connection = sqlite3.connect(bench.source, isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL;" + "".join(
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, a TEXT, b);" for table in bench.tables))
    connection.close()
    bench.ctl("track", bench.source, "--all")
    bench.configure(more_publish={"window": 4})
    bench.start_server()
    bench.publish_and_follow()
    db = bench.open("App")
    done, numbers = {}, 0

    def tables():
        return [row[0] for row in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'")]

    def columns(table):
        return [row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", [table])]

    def change():
        for _ in range(r.randint(1, 4)):
            db.execute("BEGIN IMMEDIATE")
            for _ in range(r.randint(1, 6)):
                table = r.choice(tables())
                names = columns(table)
                kind = r.randint(0, 3)
                try:
                    if kind < 2:
                        values = [r.choice([r.randint(1, 20), "text", b"\0", 2.5]) if name != "id" else r.randint(1, 30)
                                  for name in names]
                        db.execute(f'INSERT OR REPLACE INTO "{table}" VALUES ({", ".join("?" * len(names))})', values)
                    elif kind == 2:
                        db.execute(f'UPDATE OR IGNORE "{table}" SET "{r.choice(names)}" = ? WHERE rowid % 3 = 0'
                                   if "k" not in names else f'UPDATE "{table}" SET "{names[-1]}" = ?', [r.randint(1, 99)])
                    else:
                        db.execute(f'DELETE FROM "{table}" WHERE "{names[0]}" = ?', [r.randint(1, 30)])
                except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
                    if "no such column: rowid" not in str(error) and not isinstance(error, sqlite3.IntegrityError):
                        raise
            db.execute("COMMIT")

    for turn in range(14):
        within = turn % 2 == 1
        if within:
            bench.running["publish"].send_signal(signal.SIGSTOP)
        for _ in range(r.randint(1, 4)):
            change()
            numbers += 1
            table = r.choice(tables())
            text = r.choice(DDL)
            try:
                db.executescript(text.format(table=table, column=r.choice(columns(table)), n=numbers))
                done[text] = done.get(text, 0) + 1
            except sqlite3.OperationalError as error:
                # Of a key, or of what an index has.
                if not re.search("cannot drop|PRIMARY KEY|error in|no such column", str(error)):
                    raise
            if not tables():
                db.executescript(f"CREATE TABLE last{numbers} (id INTEGER PRIMARY KEY, a)")
            bench.ctl("track", bench.source, "--all")
            change()
        if within:
            bench.running["publish"].send_signal(signal.SIGCONT)
        # A change of the schema comes with the next transaction, and some of these change nothing.
        before = bench.newest(bench.source)
        while bench.newest(bench.source) == before:
            change()
        bench.wait_level()
        bench.compare()
        bench.compare_schema()
    # What a publisher that was away does not know comes as a snapshot, and nothing else is written behind it.
    bench.kill("publish")
    change()
    db.executescript("CREATE TABLE away (id INTEGER PRIMARY KEY, a)")
    bench.ctl("track", bench.source, "--all")
    change()
    db.executescript("ALTER TABLE away ADD COLUMN b")
    bench.ctl("track", bench.source, "--all")
    change()
    bench.start_nats("publish")
    bench.wait_level()
    bench.compare()
    bench.compare_schema()
    print(f"schemas: {done}")


def sample(number):
    """A sample of the page *NATS*."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../Sources/PersistentHistory/"
                        "PersistentHistory.docc/Nats.md")
    with open(page) as file:
        return re.findall("```python\n(.*?)```", file.read(), re.S)[number]


class Postgres:
    """A server of its own; PostgreSQL refuses to run as root."""

    def __init__(self, bench):
        self.bench = bench
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.folder = tempfile.mkdtemp(prefix="historyd-pg-")
        self.owner = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.owner = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        subprocess.run(self.owner + [self.programs + "/initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-D", self.folder + "/data"],
                       check=True, capture_output=True, cwd="/")
        bench.start("postgres", *self.owner, self.programs + "/postgres", "-D", self.folder + "/data", "-k",
                    self.folder, "-c", "listen_addresses=")
        self.address = f"host={self.folder} user=postgres dbname=postgres"
        deadline = time.monotonic() + 30
        while not self.answers():
            if time.monotonic() > deadline:
                raise Failure("PostgreSQL does not answer:\n" + bench.log("postgres"))
            time.sleep(0.1)

    def answers(self):
        return subprocess.run(["psql", self.address, "-c", "SELECT 1"], capture_output=True).returncode == 0

    def sql(self, text):
        return subprocess.run(["psql", self.address, "-At", "-v", "ON_ERROR_STOP=1", "-c", text], check=True,
                              capture_output=True, text=True).stdout.split("\n")[:-1]

    def end(self):
        self.bench.kill("postgres", signal.SIGINT)
        shutil.rmtree(self.folder)


def samples(bench, python):
    bench.tables = ["person"]
    connection = sqlite3.connect(bench.source, isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = WAL; CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT);")
    connection.close()
    bench.ctl("track", bench.source, "person")
    bench.configure(more_publish={"window": 4, "stream": {"maxBytes": "200KiB"}})
    bench.start_server()
    bench.start_nats("publish")
    db, r = bench.open("App"), bench.random

    def write(count):
        for _ in range(count):
            db.execute("BEGIN")
            for _ in range(r.randint(1, 6)):
                id = r.randint(1, 60)
                kind = r.randint(0, 3)
                if kind < 2:
                    db.execute("INSERT OR REPLACE INTO person VALUES (?, ?, ?)", [
                        id, r.choice(["Ada", "ü\u2028\x85\"\\n", "x" * r.randint(0, 3000), None]), f"{id}@example.org"])
                elif kind == 2:
                    db.execute("UPDATE person SET name = name || ? WHERE id % 7 = ?", [id, id % 7])
                else:
                    db.execute("DELETE FROM person WHERE id = ?", [id])
            db.execute("COMMIT")

    # The one that prints: a change of a row and the row itself.
    write(1)
    db.execute("INSERT OR REPLACE INTO person VALUES (100, 'first\u2028line', NULL)")
    wait_published(bench)
    address = f"nats://127.0.0.1:{bench.port}"
    bench.write("print.py", sample(0).replace("nats://127.0.0.1:4222", address))
    bench.start("print", python, "-u", bench.path("print.py"))
    time.sleep(1)
    db.execute("UPDATE person SET email = 'new' WHERE id = 100")
    db.execute("DELETE FROM person WHERE id = 100")
    deadline = time.monotonic() + 30
    while "gone person {'id': 100}" not in bench.log("print"):
        if time.monotonic() > deadline:
            raise Failure("the sample does not print the change:\n" + bench.log("print"))
        time.sleep(0.1)
    bench.kill("print")
    print("the first sample prints changes and rows")

    postgres = Postgres(bench)
    try:
        postgres.sql("CREATE TABLE person (id bigint PRIMARY KEY, name text, email text); "
                     "CREATE TABLE moved (place serial, epoch bigint, number bigint);"
                     "CREATE TABLE position (name text PRIMARY KEY, epoch bigint, number bigint);"
                     "CREATE FUNCTION note() RETURNS trigger AS 'BEGIN INSERT INTO moved (epoch, number) "
                     "VALUES (new.epoch, new.number); RETURN new; END' LANGUAGE plpgsql;"
                     "CREATE TRIGGER note AFTER INSERT OR UPDATE ON position FOR EACH ROW EXECUTE FUNCTION note()")
        bench.write("to_postgres.py", sample(1))

        def start():
            bench.start("consumer", python, bench.path("to_postgres.py"), address, postgres.address)

        def expect(what):
            wanted = bench.newest(bench.source)
            deadline = time.monotonic() + 60
            while postgres.sql("SELECT number FROM position") != [str(wanted)]:
                if bench.running["consumer"].poll() is not None:
                    raise Failure("the consumer ended:\n" + bench.log("consumer"))
                if time.monotonic() > deadline:
                    raise Failure(f"{what}: {postgres.sql('SELECT * FROM position')}, not {wanted}\n{bench.log('consumer')}"
                                  + bench.log("publish"))
                time.sleep(0.1)
            # By the key, of which there is one each.
            there = sorted(json.loads(row) for row in postgres.sql(
                "SELECT json_build_array(id, name, email) FROM person"))
            here = sorted(list(row) for row in db.execute("SELECT id, name, email FROM person"))
            if here != there:
                raise Failure(f"{what}: {len(here)} rows here, {len(there)} there")
            print(f"{what}: the table is equal")

        start()
        write(20)
        expect("begun from a snapshot")
        for _ in range(12):
            write(r.randint(1, 15))
            time.sleep(r.random() * 0.3)
            bench.kill("consumer")
            if r.random() < 0.3:
                write(40)
            start()
        expect("killed at random instants")
        bench.kill("consumer")
        for _ in range(6):
            write(40)
            time.sleep(0.1)
        wait_published(bench)
        start()
        expect("passed by the stream's limits while it was away")
        copy = sqlite3.connect(bench.path("backup"))
        db.backup(copy)
        copy.close()
        write(10)
        expect("before the source is restored")
        db.close()
        for suffix in ["-wal", "-shm"]:
            if os.path.exists(bench.source + suffix):
                os.remove(bench.source + suffix)
        os.replace(bench.path("backup"), bench.source)
        db = bench.open("App")
        write(2)
        expect("restored from a backup")
        moved = [tuple(map(int, row.split("|"))) for row in postgres.sql("SELECT epoch, number FROM moved ORDER BY place")]
        if moved != sorted(set(moved)) or len({epoch for epoch, _ in moved}) != 2:
            raise Failure(f"a group was applied twice: {moved}")
        print(f"{len(moved)} groups and snapshots were applied once each")
    finally:
        bench.kill("consumer")
        postgres.end()


def wait_published(bench):
    deadline = time.monotonic() + 30
    wanted = f"at {bench.newest(bench.source)} "
    while True:
        status = subprocess.run(
            [bench.program("historyd-nats"), "status", "--socket", bench.path("publish.run", "status.sock")],
            capture_output=True, text=True).stdout
        if wanted in status + " ":
            return
        if time.monotonic() > deadline:
            raise Failure(f"not published: {status}\n{bench.log('publish')}")
        time.sleep(0.2)


def faults(bench, seconds):
    bench.encoding = bench.random.choice(["UTF-8", "UTF-16le", "UTF-16be"])
    bench.make_store()
    bench.configure(more_publish={"window": 4})
    bench.start_server()
    bench.start_daemon("source")
    bench.publish_and_follow()
    bench.start_daemon("mirror")
    db, other = bench.open("App"), bench.open()
    r = bench.random
    events = {}
    deadline = time.monotonic() + seconds
    columns = 0
    restored = False
    while time.monotonic() < deadline:
        for _ in range(r.randint(1, 60)):
            bench.transaction(r.choice([db, db, other]), r.randint(1, 12))
        event = r.choice(["publish", "follow", "server", "set back", "second", "pause", "copy", "schema", "none", "large",
                          "lost", "epoch", "foreign", "source", "mirror", "backup", "restore"])
        events[event] = events.get(event, 0) + 1
        time.sleep(r.random() * 0.3)
        if event in ("publish", "follow"):
            bench.kill(event)
            bench.start_nats(event)
        elif event in ("source", "mirror"):
            bench.kill(event)
            bench.start_daemon(event)
        elif event == "backup":
            with contextlib.closing(sqlite3.connect(bench.path("backup"))) as copy:
                db.backup(copy)
        elif event == "restore" and os.path.exists(bench.path("backup")):
            db.close()
            other.close()
            bench.restore("backup")
            db, other = bench.open("App"), bench.open()
            restored = True
        elif event == "server":
            bench.kill("server")
            time.sleep(r.random() * 0.5)
            bench.start_server()
        elif event == "copy":
            bench.kill("server")
            shutil.rmtree(bench.path("older"), ignore_errors=True)
            shutil.copytree(bench.path("jetstream"), bench.path("older"))
            bench.start_server()
        elif event == "set back" and os.path.exists(bench.path("older")):
            bench.kill("server")
            shutil.rmtree(bench.path("jetstream"))
            shutil.copytree(bench.path("older"), bench.path("jetstream"))
            bench.start_server()
        elif event == "second":
            if "publish2" in bench.running:
                bench.kill("publish2")
            else:
                bench.start_nats("publish2")
        elif event == "pause":
            name = r.choice(["publish", "follow"])
            bench.running[name].send_signal(signal.SIGSTOP)
            bench.start_nats("publish2") if name == "publish" and "publish2" not in bench.running else None
            for _ in range(20):
                bench.transaction(db, 5)
            time.sleep(r.random())
            bench.running[name].send_signal(signal.SIGCONT)
        elif event == "schema":
            columns += 1
            db.execute(f"ALTER TABLE {r.choice(['person', 'loose', 'item'])} ADD COLUMN c{columns} DEFAULT {columns}")
            bench.ctl("track", bench.source)
        elif event == "lost":
            delete_streams(bench)
            shutil.rmtree(bench.path("older"), ignore_errors=True)
        elif event == "epoch":
            result = new_epoch(bench)
            # The running publisher may get in between.
            if result.returncode not in (0, 75):
                raise Failure(f"--new-epoch: {result.stderr}")
        elif event == "foreign":
            fields = {"Historyd-" + name: r.choice(NONSENSE[:6]) for name in ["Format", "Kind", "Epoch"]}
            exchange(bench, [(r.choice(["history.contacts.x", "history.contacts._begin", "history_snapshot.contacts.head"]),
                              r.choice([None, fields]), b"hello")])
        elif event == "large":
            db.execute("INSERT OR REPLACE INTO person (id, data) VALUES (?, randomblob(?))", [1000 + r.randint(0, 5), r.randint(1, 4_000_000)])
        for name in ["publish", "follow"]:
            if bench.running[name].poll() is not None:
                raise Failure(f"{name} ended by itself:\n{bench.log(name)}")
    bench.kill("publish2")
    # A change of the schema travels with the next change of the history. Else nothing is written that would heal a mirror.
    if columns:
        db.execute("INSERT OR REPLACE INTO person (id, data) VALUES (1000, x'00')")
    # What was written after a restore may be in the stream otherwise: then only an operator knows what is right.
    for _ in range(5):
        # nats-server 2.9 removes a deleted stream's folder later, and with it the files of one that was made meanwhile.
        if "no such file or directory" in bench.status("publish"):
            print("the server has lost the files of a stream: it is started again")
            bench.kill("server")
            bench.start_server()
        # A failure that is temporary is tried again, as an operator does.
        result = new_epoch(bench) if restored else None
        if not result or result.returncode == 0:
            break
        print(f"--new-epoch: {result.returncode} {result.stderr}")
        if result.returncode != 75:
            raise Failure(f"--new-epoch: {result.stderr}")
    bench.wait_level(120)
    bench.compare()
    # What nobody declared is one transaction or several, as it is read.
    wanted = bench.tokens("--author", "App")
    bench.ctl_at("mirror", "wait", "--consumer", "Elsewhere", "--token", wanted[-1], "--timeout", "60")
    known = set(wanted)
    calls, isLost = bench.calls()
    calls = [call for call in calls if call in known]
    # After a loss, what follows the state that the mirror was filled with.
    if calls != (wanted[len(wanted) - len(calls):] if isLost else wanted) or isLost and not restored:
        raise Failure(f"the hook behind the mirror had {len(calls)} calls, not {len(wanted)}: {set(calls) ^ known}")
    print(f"{bench.encoding}; events: {events}; changes: {bench.newest(bench.source)}; starts: {bench.count}")


SCENARIOS = {"clock": clock, "requests": requests, "abandoned": abandoned, "slow": slow, "disks": disks, "limits": limits, "idle": idle, "overtaken": overtaken, "payload": payload, "ddl": ddl,
             "stale": stale, "foreign": foreign, "operating": operating, "permissions": permissions}


def main():
    programs, what = sys.argv[1:3]
    if what in ("disks", "limits") and "HISTORYD_UNSHARED" not in os.environ:
        os.environ["HISTORYD_UNSHARED"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    bench = Bench(programs, seed)
    try:
        if what == "basic":
            basic(bench)
        elif what == "losses":
            losses(bench)
        elif what == "foreign-all":
            foreign(bench, isShort=False)
        elif what in SCENARIOS:
            SCENARIOS[what](bench)
        elif what == "samples":
            samples(bench, sys.argv[3])
        else:
            faults(bench, float(sys.argv[3]))
        bench.end()
    except BaseException as error:
        bench.end()
        print(f"FAILED ({bench.folder} is kept): {error}", flush=True)
        if not isinstance(error, Failure):
            raise
        return 1
    for folder in {"disks": ["small", "spool", "jetstream"], "limits": ["small"]}.get(what, []):
        subprocess.run(["umount", bench.path(folder)], check=True)
    shutil.rmtree(bench.folder)
    print("all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
