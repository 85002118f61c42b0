"""Prints the memory of a daemon with many stores: at rest, and after one commit in each.

    python3 stores.py HISTORYD HISTORYCTL COUNT
"""
import contextlib, json, os, re, sqlite3, subprocess, sys, tempfile, time

historyd, historyctl, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

PLUGIN = """
import json, sys
for number, line in enumerate(sys.stdin, 1):
    print('{"jsonrpc":"2.0","id":%d,"result":null}' % json.loads(line)["id"], flush=True)
    open(sys.argv[1], "w").write(str(number))
"""


def execute(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def report(title, process):
    with open(f"/proc/{process}/smaps_rollup") as file:
        sizes = {name: int(size) // 1024 for name, size in re.findall(r"^(\w+): +(\d+) kB", file.read(), re.M)}
    print(f"{title}: Rss {sizes['Rss']} MB, Pss {sizes['Pss']} MB, anonymous {sizes['Anonymous']} MB, "
          f"{len(os.listdir(f'/proc/{process}/task'))} threads, "
          f"{len(os.listdir(f'/proc/{process}/fd'))} descriptors", flush=True)


def text(path):
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return file.read()
    return ""


def wait(daemon, condition):
    while not condition():
        if daemon.poll() is not None:
            sys.exit("The daemon has ended.")
        time.sleep(0.1)


with tempfile.TemporaryDirectory() as folder:
    stores = [f"{folder}/{number}.sqlite" for number in range(count)]
    for store in stores:
        execute(store, "PRAGMA journal_mode = WAL", "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        subprocess.run([historyctl, "track", store, "item"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/plugin.py", "w") as file:
        file.write(PLUGIN)
    with open(f"{folder}/plugins.json", "w") as file:
        json.dump({"version": 1, "plugins": [{
            "name": "count", "command": [sys.executable, f"{folder}/plugin.py", f"{folder}/count"], "mode": "coprocess",
            "hooks": [{"name": "items", "kind": "observer", "entity": "item"}]}]}, file)
    with open(f"{folder}/historyd.json", "w") as file:
        json.dump({"version": 1, "plugins": [f"{folder}/plugins.json"], "stores": [
            {"name": f"store{number}", "path": store, "authors": [{"name": "Reader"}, {"name": "Writer", "batch": True}]}
            for number, store in enumerate(stores)]}, file)
    with open(f"{folder}/log", "w") as log:
        daemon = subprocess.Popen([historyd, "--config", f"{folder}/historyd.json"], stderr=log, env={
            **os.environ, "STATE_DIRECTORY": f"{folder}/state", "RUNTIME_DIRECTORY": folder})
    wait(daemon, lambda: "event=ready" in text(f"{folder}/log"))
    # Threads without work end after some seconds.
    time.sleep(15)
    report("at rest", daemon.pid)
    for store in stores:
        execute(store, "INSERT INTO item VALUES (1, 'name')")
    wait(daemon, lambda: text(f"{folder}/count") == str(count))
    report("delivered", daemon.pid)
    time.sleep(15)
    report("at rest again", daemon.pid)
    daemon.terminate()
    daemon.wait()
