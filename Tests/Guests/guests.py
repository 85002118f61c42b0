"""How often applications fail because historyd writes into their store, and how fast it cleans meanwhile.

Each application is a process of its own that reads, waits, and writes, in one deferred transaction: what Django,
Python's sqlite3 and many object mappers do. In a write-ahead log, SQLite refuses such a write at once if another
connection has committed since the read, whatever the application's timeout. Applications of one row take turns by a
lock of their own (--alone lets them fail by each other), so that without historyd none of them fails.

    HISTORYD_BIN=.build/debug python3 Tests/Guests/guests.py --seconds 10

Standard library only."""
import argparse, fcntl, json, multiprocessing, os, random, shutil, signal, socket, sqlite3, statistics, subprocess
import sys, tempfile, time
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


def case(arguments, clean, rows, writers, readers, hold, pace, alone=False):
    folder = tempfile.mkdtemp(prefix="guests-")
    try:
        plain, store = f"{folder}/plain.sqlite", f"{folder}/store.sqlite"
        for path in (plain, store):
            make_store(path, rows)
        without = run(plain, arguments.seconds / 2, writers, readers, hold, pace, alone)
        with Daemon(folder, store, clean=clean) as daemon:
            start, before = time.monotonic(), daemon.metric("historyd_cleanup_deleted_changes_total")
            result = run(store, arguments.seconds, writers, readers, hold, pace, alone)
            deleted = daemon.metric("historyd_cleanup_deleted_changes_total") - before
            db = sqlite3.connect(store)
            left = db.execute("SELECT count(*) FROM historyd_change").fetchone()[0]
            db.close()
            risk = daemon.metric("historyd_cleanup_steps_at_risk_total")
            longest = daemon.metric("historyd_cleanup_longest_wait_seconds")
            elapsed = time.monotonic() - start
            gone = max(deleted, rows + result[0] - left) if rows else deleted
        return without, result, gone / elapsed, left, risk, longest
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def text(failures, done):
    total = sum(failures.values())
    return f"{total} of {done + total}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    each = {"strategy": "byNotification", "times": 1}
    cases = [
        # name, clean, writers, readers, read to write, pause
        ("1 application, 0.1 ms", each, 1, 0, 0.0001, 0.001),
        ("1 application, 2 ms", each, 1, 0, 0.002, 0.001),
        ("1 application, 2 ms, no pause", each, 1, 0, 0.002, 0),
        ("1 application, 50 ms", each, 1, 0, 0.05, 0.005),
        ("1 application, 50 ms, no pause", each, 1, 0, 0.05, 0),
        ("3 applications in turn, 2 ms", each, 3, 0, 0.002, 0.001),
        ("1 application, 2 ms, 3 readers of 5 ms", each, 1, 3, 0.005, 0.001),
        ("1 application, 10 ms, 8 readers", each, 1, 8, 0.01, 0.001),
        ("byDuration 1 s, 2 ms", {"strategy": "byDuration", "seconds": 1}, 1, 0, 0.002, 0.001),
        ("3 applications at once, 2 ms", each, 3, 0, 0.002, 0.02, True),
    ]
    print(f"| applications | fail without | fail with | begin p50, p99, max (ms) without | with | rows cleaned/s | rows left | at risk | longest wait |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, clean, *rest in cases:
        if arguments.only not in name:
            continue
        without, result, rate, left, risk, longest = case(arguments, clean, arguments.rows, *rest)
        def waits(values):
            return ", ".join(f"{share(values[2], part) * 1000:.2f}" for part in (0.5, 0.99, 1))
        print(f"| {name} | {text(without[1], without[0])} | {text(result[1], result[0])} | {waits(without)} | "
              f"{waits(result)} | {rate:.0f} | {left} | {risk:.0f} | {longest:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
