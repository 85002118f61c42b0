#!/usr/bin/python3
"""Requests derived from config/openapi.json, made to a live daemon: derive.py HISTORYD HISTORYCTL [EXAMPLES]

schemathesis makes them, good and bad ones. The daemon must answer each as described, and live. It listens on a Unix
socket; a forwarder lends it a port for the time.
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]


def forward(path: str) -> int:
    """A port of this machine that leads to the socket."""
    listener = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve() -> None:
        while True:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(path)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


# What fails outside of the daemon has an answer of its own: a hook (502), a store that is missing (503), time (504).
GENERAL = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]
"""
# Names and values that are right, where only a few are. What is removed by all that is derived is gone soon.
KNOWN = """
[warnings]
fail-on = ["missing_test_data"]

[parameters]
store = "contacts"
consumer = "MainApp"
timeout = "1ms"
plugin = "{plugin}"
token = "{token}"

[[operations]]
include-operation-id = "resync"
parameters = {{ context = "view" }}

[[operations]]
include-operation-id = "acknowledge"
parameters = {{ context = "live" }}

[[operations]]
include-operation-id = "testPlugin"
parameters = {{ plugin = "once", hook = "all" }}

[[operations]]
include-operation-id = "removeHooks"
parameters = {{ entity = "nothing", operation = "insert" }}
# That there is none is the answer.
warnings = false
"""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
response_headers_conformance,negative_data_rejection"
# Streams have no end.
STREAMS = ("follow", "feed")


def closed(node: object) -> object:
    """The description, but a member that it does not name is an error: in what is shipped new ones may come."""
    if isinstance(node, dict):
        node = {key: closed(value) for key, value in node.items()}
        if isinstance(node.get("properties"), dict) and "type" in node:
            node.setdefault("additionalProperties", False)
    elif isinstance(node, list):
        node = [closed(each) for each in node]
    return node


def derive(port: int, examples: str, folder: str, excluded: tuple[str, ...], known: str = "") -> int:
    """Makes the requests."""
    pathlib.Path(folder, "schemathesis.toml").write_text(known + GENERAL)
    description = closed(json.loads((ROOT / "config/openapi.json").read_text()))
    pathlib.Path(folder, "openapi.json").write_text(json.dumps(description))
    return subprocess.run([
        str(pathlib.Path(sys.executable).parent / "schemathesis"), "--config-file", f"{folder}/schemathesis.toml",
        "run", f"{folder}/openapi.json", "--url", f"http://127.0.0.1:{port}", "--max-examples", examples,
        "--request-timeout", "70", *(f"--exclude-operation-id={each}" for each in excluded),
        "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", *(["--mode=positive"] if known else []),
    ], cwd=folder).returncode


def stream(port: int, operation: str, **parameters: str) -> int:
    """Reads the first line of a stream, which must be JSON in what the description says."""
    paths = json.loads((ROOT / "config/openapi.json").read_text())["paths"]
    path, described = next(
        (path, each["get"]) for path, each in paths.items() if each.get("get", {}).get("operationId") == operation)
    assert set(parameters) <= {each["name"] for each in described["parameters"]}, parameters
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"{path}?{urllib.parse.urlencode(parameters)}")
    answer = connection.getresponse()
    kind = answer.getheader("Content-Type", "")
    line = json.loads(answer.readline())
    print(f"GET {path}: {answer.status} {kind}, {len(line)} members in the first line")
    connection.close()
    return 0 if answer.status == 200 and kind in described["responses"]["200"]["content"] else 1


def configure(folder: str) -> None:
    """A store with all that reports tell of: a replica, a feed, a plugin's context, a call that is given up, an author that is not listed, an
    entity without a table; one that is missing; and a plugin of each mode."""
    configuration = {
        "version": 1, "logLevel": "error", "plugins": ["plugins.json"],
        "stores": [{
            "name": "contacts", "path": "s.sqlite", "entities": {"person": {}, "gone": {}},
            "unlistedAuthors": "ignore",
            "authors": [{"name": "Widget"}, {"name": "MainApp", "contexts": [
                {"name": "view", "kind": "replica", "path": "view.sqlite"}, {"name": "live", "kind": "feed"},
                {"name": "index", "kind": "plugin", "plugin": "kept"}]}],
        }, {"name": "missing", "path": "missing.sqlite", "entities": {"person": {}}}],
    }
    coprocess = """\
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    unknown = {"error": {"code": -32601, "message": "method not found"}}
    answer = unknown if request["method"] == "context.checkpoint" else {"result": None}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""
    pathlib.Path(folder, "coprocess.py").write_text(coprocess)
    plugins = {
        "version": 1,
        "plugins": [
            {"name": "once", "command": ["/bin/true"], "mode": "oneshot", "hooks": [{"name": "all", "kind": "observer"}]},
            {"name": "failing", "command": ["/bin/false"], "mode": "oneshot", "onFailure": "skip",
             "retry": {"attempts": 1}, "hooks": [{"name": "all", "kind": "observer"}]},
            {"name": "kept", "command": [sys.executable, f"{folder}/coprocess.py"], "mode": "coprocess",
             "hooks": [{"name": "all", "kind": "observer"}]},
        ],
    }
    pathlib.Path(folder, "historyd.json").write_text(json.dumps(configuration))
    pathlib.Path(folder, "plugins.json").write_text(json.dumps(plugins))


def main() -> int:
    historyd, historyctl = sys.argv[1:3]
    examples = sys.argv[3] if len(sys.argv) > 3 else "20"
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/s.sqlite"
        subprocess.run(["sqlite3", store, "CREATE TABLE person (id INTEGER PRIMARY KEY)"], check=True)
        configure(folder)
        environment = {**os.environ, "STATE_DIRECTORY": f"{folder}/state"}
        daemon = subprocess.Popen([historyd, "--config", f"{folder}/historyd.json"], env=environment)
        while subprocess.run([historyctl, "status"], env=environment, capture_output=True).returncode:
            if daemon.poll() is not None:
                return 1
            time.sleep(0.05)
        for author in ("Stranger", "Widget"):
            token = subprocess.run(
                [historyctl, "exec", store, "--author", author, "INSERT INTO person VALUES (NULL)"],
                check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(
            [historyctl, "wait", "--consumer", "MainApp", "--token", token], env=environment, check=True)
        port = forward(f"{folder}/state/control.sock")
        results = [
            stream(port, "follow", after=token.split(":")[0] + ":0", store="contacts"),
            stream(port, "feed", consumer="MainApp", context="live"),
            derive(port, examples, folder, STREAMS, KNOWN.format(token=token, plugin="kept")),
            # And anything: a wait without a timeout may have no end.
            derive(port, examples, folder, (*STREAMS, "wait")),
        ]
        alive = subprocess.run([historyctl, "status"], env=environment, capture_output=True).returncode == 0
        daemon.terminate()
        ended = daemon.wait(60)
        print(f"The daemon {'answers' if alive else 'does not answer'} after that, and ended with status {ended}.")
        return max(results) or (0 if alive and ended == 0 else 1)


if __name__ == "__main__":
    sys.exit(main())
