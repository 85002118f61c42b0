"""How often applications fail because historyd writes into their store, and how fast it cleans meanwhile.

Each application is a process of its own that reads, waits, and writes, in one deferred transaction: what Django,
Python's sqlite3 and many object mappers do. In a write-ahead log, SQLite refuses such a write at once if another
connection has committed since the read, whatever the application's timeout. Applications of one row take turns by a
lock of their own (--alone lets them fail by each other), so that without historyd none of them fails.

    HISTORYD_BIN=.build/debug python3 Tests/Tools/Guests/guests.py table --seconds 10

"check" says what does not hold that is promised.

Standard library only."""
import argparse
import fcntl
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(os.environ.get("HISTORYD_BIN", ".build/debug")).resolve()


def control(*arguments, check=True, timeout=60):
    result = subprocess.run([BIN / "historyctl", *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    if check and result.returncode:
        sys.exit(f"historyctl {arguments}: {result.stderr}")
    return result


def make_store(path, rows=0, mode="WAL", page=None):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA journal_mode = {mode}")
    db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, text TEXT)")
    db.execute("INSERT INTO item VALUES (1, 0, '')")
    control("track", path, "item")
    if rows:
        db.execute("WITH n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= ?) "
                   "INSERT INTO item SELECT i, 0, 'some text' FROM n", (rows,))
    db.close()


class Daemon:
    def __init__(self, folder, store, **entry):
        self.folder = Path(folder)
        for name in ("state", "run", "plugins"):
            (self.folder / name).mkdir()
        self.socket = self.folder / "run" / "control.sock"
        self.configuration = self.folder / "historyd.json"
        authors = [{"name": "Main", "contexts": [
            {"name": "view", "kind": "replica", "path": str(self.folder / "view.sqlite")}]}]
        self.configuration.write_text(json.dumps({
            "version": 1, "plugins": [str(self.folder / "plugins")],
            "stores": [{"name": "main", "path": str(store), "authors": authors, **entry}]}))

    def __enter__(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify"))
        notify.settimeout(60)
        environment = dict(os.environ, STATE_DIRECTORY=str(self.folder / "state"),
                           RUNTIME_DIRECTORY=str(self.folder / "run"), NOTIFY_SOCKET=str(self.folder / "notify"))
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen([BIN / "historyd", "--config", self.configuration], env=environment,
                                        stdout=self.log, stderr=self.log)
        while b"READY=1" not in notify.recv(65536):
            pass
        notify.close()
        return self

    def ask(self, *arguments, **options):
        return control(*arguments, "--socket", self.socket, **options)

    def metric(self, name):
        for line in self.ask("metrics").stdout.splitlines():
            if line.startswith(name):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def application(store, number, options, until, results):
    """Reads and then writes, in one transaction, until a time."""
    db = sqlite3.connect(store, timeout=5, isolation_level=None)
    turn = open(f"{store}.turn", "w")
    chance = random.Random(number)
    done, failures, begins = 0, {}, []
    while time.monotonic() < until:
        if not options["alone"]:
            fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            start = time.perf_counter()
            db.execute("BEGIN")
            value = db.execute("SELECT number FROM item WHERE id = 1").fetchone()[0]
            begins.append(time.perf_counter() - start)
            time.sleep(options["hold"])
            db.execute("UPDATE item SET number = ? WHERE id = 1", (value + 1,))
            db.execute("COMMIT")
            done += 1
        except sqlite3.OperationalError as error:
            failures[str(error)] = failures.get(str(error), 0) + 1
            if db.in_transaction:
                db.execute("ROLLBACK")
        finally:
            if not options["alone"]:
                fcntl.flock(turn, fcntl.LOCK_UN)
        pause = options["pace"] * chance.uniform(0.5, 1.5)
        if pause:
            time.sleep(pause)
    results.put(("writer", done, failures, begins))


def reader(store, number, options, until, results):
    """Reads in transactions that overlap those of others."""
    db = sqlite3.connect(store, timeout=5, isolation_level=None)
    done, failures, begins = 0, {}, []
    while time.monotonic() < until:
        try:
            start = time.perf_counter()
            db.execute("BEGIN")
            db.execute("SELECT number FROM item WHERE id = 1").fetchone()
            begins.append(time.perf_counter() - start)
            time.sleep(options["hold"])
            db.execute("SELECT count(*) FROM item WHERE id < 10").fetchone()
            db.execute("COMMIT")
            done += 1
        except sqlite3.OperationalError as error:
            failures[str(error)] = failures.get(str(error), 0) + 1
            if db.in_transaction:
                db.execute("ROLLBACK")
    results.put(("reader", done, failures, begins))


def run(store, seconds, writers=1, readers=0, hold=0.002, pace=0.001, alone=False, meanwhile=None):
    """Runs applications for some seconds. Returns transactions, failures by message, and how long they waited to read."""
    options = {"hold": hold, "pace": pace, "alone": alone}
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    until = time.monotonic() + seconds
    processes = [context.Process(target=target, args=(store, number, options, until, results))
                 for target, count in ((application, writers), (reader, readers)) for number in range(count)]
    for process in processes:
        process.start()
    if meanwhile:
        meanwhile(until)
    done, failures, begins = 0, {}, []
    for _ in processes:
        kind, count, failed, waits = results.get(timeout=seconds + 60)
        if kind == "writer":
            done += count
        for message, number in failed.items():
            failures[message] = failures.get(message, 0) + number
        begins += waits
    for process in processes:
        process.join()
    return done, failures, sorted(begins)


def share(values, part):
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0


def stays(store, until, ready):
    """A connection that reads once and leaves its transaction open."""
    db = sqlite3.connect(store, isolation_level=None)
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM item").fetchone()
    ready.set()
    time.sleep(max(0, until - time.monotonic()))


def changes(store):
    """How many changes the history has."""
    db = sqlite3.connect(store)
    try:
        return db.execute("SELECT count(*) FROM historyd_change").fetchone()[0]
    finally:
        db.close()


class Case:
    """Applications beside a daemon, and what it does meanwhile."""

    def __init__(self, name, clean=None, writers=1, readers=0, hold=0.002, pace=0.001, alone=False, rows=None,
                 meanwhile=None, cleans=True, seconds=0, **entry):
        self.name, self.meanwhile, self.rows, self.cleans, self.entry = name, meanwhile, rows, cleans, entry
        self.seconds = seconds
        self.clean = clean or {"strategy": "byNotification", "times": 1}
        self.applications = dict(writers=writers, readers=readers, hold=hold, pace=pace, alone=alone)

    def run(self, seconds, rows):
        rows, seconds = self.rows or rows, self.seconds or seconds
        folder = tempfile.mkdtemp(prefix="guests-")
        try:
            plain, store = f"{folder}/plain.sqlite", f"{folder}/store.sqlite"
            for path in (plain, store):
                make_store(path, rows)
            self.without = run(plain, seconds / 2, **self.applications)
            with Daemon(folder, store, clean=self.clean, **self.entry) as daemon:
                start = time.monotonic()
                meanwhile = self.meanwhile and (lambda until: self.meanwhile(daemon, store, until))
                self.result = run(store, seconds, **self.applications, meanwhile=meanwhile)
                elapsed = time.monotonic() - start
                self.left = changes(store)
                db = sqlite3.connect(store)
                self.whole = db.execute("PRAGMA integrity_check").fetchone()[0]
                db.close()
                self.metrics = [daemon.metric(f"historyd_cleanup_{name}") for name in
                                ("steps_total", "refusals_total", "steps_at_risk_total", "longest_wait_seconds")]
                made = rows + self.result[0]
                self.rate = (made - self.left) / elapsed
                # On a busy machine there may not have been a moment for it; now there is.
                self.rest = self.left
                end = time.monotonic() + 60
                while self.cleans and self.rest >= made and time.monotonic() < end:
                    if self.clean is NEVER:
                        daemon.ask("clean", "main", check=False)
                    time.sleep(0.2)
                    self.rest = changes(store)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self

    def problems(self):
        """What is promised and was not found."""
        failures = sum(self.result[1].values())
        if not self.applications["alone"] and failures:
            yield f"{failures} of {failures + self.result[0]} transactions failed: {self.result[1]}"
        if self.whole != "ok":
            yield f"integrity_check: {self.whole}"
        if self.cleans and self.rate <= 0 and self.rest >= self.left:
            yield f"nothing was cleaned: {self.rest} changes are left, {self.metrics}"
        if self.metrics[2]:
            yield f"{self.metrics[2]:.0f} steps were taken at risk"


def cleaning(daemon, store, until):
    """An operator cleans again and again."""
    while time.monotonic() < until:
        daemon.ask("clean", "main", check=False)
        time.sleep(0.1)


def making_tables(daemon, store, until):
    """Another program makes and drops tables, in turn with the applications."""
    db = sqlite3.connect(store, timeout=5, isolation_level=None)
    turn = open(f"{store}.turn", "w")
    number = 0
    while time.monotonic() < until:
        number += 1
        fcntl.flock(turn, fcntl.LOCK_EX)
        db.execute(f"CREATE TABLE made_{number} (id INTEGER PRIMARY KEY, text TEXT)")
        if number > 5:
            db.execute(f"DROP TABLE made_{number - 5}")
        fcntl.flock(turn, fcntl.LOCK_UN)
        time.sleep(0.1)


def tracking(daemon, store, until):
    """Somebody tracks and untracks a table again and again."""
    db = sqlite3.connect(store, timeout=5, isolation_level=None)
    turn = open(f"{store}.turn", "w")
    fcntl.flock(turn, fcntl.LOCK_EX)
    db.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, text TEXT)")
    fcntl.flock(turn, fcntl.LOCK_UN)
    db.close()
    while time.monotonic() < until:
        control("track", store, "other", check=False)
        control("untrack", store, "other", check=False)


def killing(daemon, store, until):
    """The daemon is killed while it cleans, and starts again."""
    while time.monotonic() < until - 1:
        time.sleep(random.uniform(0.05, 0.4))
        daemon.process.kill()
        daemon.process.wait()
        os.unlink(daemon.folder / "notify")
        daemon.__enter__()


def staying(daemon, store, until):
    """Another program keeps a transaction open all the time."""
    ready = multiprocessing.Event()
    multiprocessing.get_context("fork").Process(target=stays, args=(store, until, ready), daemon=True).start()
    ready.wait(10)


BY_TIME = {"strategy": "byDuration", "seconds": 1}
NEVER = {"strategy": "none"}

TABLE = [
    Case("1, 0.1 ms", hold=0.0001),
    Case("1, 2 ms"),
    Case("1, 2 ms, no pause", pace=0),
    Case("1, 50 ms", hold=0.05, pace=0.005),
    Case("1, 50 ms, no pause", hold=0.05, pace=0),
    Case("3 in turn, 2 ms", writers=3),
    Case("1, 5 ms, and 3 readers without pause", readers=3, hold=0.005),
    Case("1, 10 ms, and 8 readers without pause", readers=8, hold=0.01),
    Case("1, 2 ms, cleaned by time", clean=BY_TIME),
    Case("1, 2 ms, beside a transaction that stays open", meanwhile=staying, seconds=15),
    Case("1, 2 ms, historyctl clean of 300,000", clean=NEVER, rows=300_000, meanwhile=cleaning),
    Case("1, 2 ms, tables are made", entities="*", meanwhile=making_tables),
    Case("1, 2 ms, track and untrack", meanwhile=tracking),
    Case("3 at once, 2 ms", writers=3, pace=0.02, alone=True),
]

CHECK = [
    Case("cleaned after each notification"),
    Case("no pause between transactions", pace=0),
    Case("50 ms between read and write", hold=0.05, pace=0.005),
    Case("several applications and readers", writers=2, readers=2, hold=0.005),
    Case("cleaned by time", clean=BY_TIME),
    Case("a transaction that stays open", meanwhile=staying, seconds=10),
    Case("historyctl clean", clean=NEVER, rows=100_000, meanwhile=cleaning),
    Case("tables are made", entities="*", meanwhile=making_tables),
    Case("track and untrack", meanwhile=tracking),
    # It may be killed before it has cleaned anything.
    Case("the daemon is killed", rows=100_000, meanwhile=killing, cleans=False),
]


def share(values, part):
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0


def print_table(cases, arguments):
    print("| applications, read to write | fail without | fail with | wait to begin, p50, p99, max (ms), without | with "
          "| cleaned/s | left | steps | refusals | at risk | longest wait |\n" + "|---" * 11 + "|")
    for case in cases:
        case.run(arguments.seconds, arguments.rows)

        def failed(result):
            total = sum(result[1].values())
            return f"{total} of {result[0] + total}"

        def waits(result):
            return ", ".join(f"{share(result[2], part) * 1000:.2f}" for part in (0.5, 0.99, 1))
        print(f"| {case.name} | {failed(case.without)} | {failed(case.result)} | {waits(case.without)} "
              f"| {waits(case.result)} | {case.rate:.0f} | {case.left} | "
              + " | ".join(f"{value:.0f}" for value in case.metrics[:3]) + f" | {case.metrics[3]:.1f} s |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["table", "check"], nargs="?", default="table")
    parser.add_argument("--seconds", type=float, default=10, help="of each case")
    parser.add_argument("--rows", type=int, default=20000, help="of history at the beginning")
    parser.add_argument("--only", default="", help="cases whose names contain it")
    arguments = parser.parse_args()
    cases = [case for case in (TABLE if arguments.what == "table" else CHECK) if arguments.only in case.name]
    if arguments.what == "table":
        return print_table(cases, arguments)
    problems = [f"{case.name}: {problem}" for case in cases
                for problem in case.run(arguments.seconds, arguments.rows).problems()]
    print("\n".join(problems) or "ok")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
