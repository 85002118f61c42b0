#!/usr/bin/python3
"""Requests derived from config/openapi.json, made to a live daemon: derive.py HISTORYD HISTORYCTL [EXAMPLES]

schemathesis makes them, good and bad ones. The daemon must answer each as described, and live. It listens on a Unix
socket; a forwarder lends it a port for the time.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


def main() -> int:
    historyd, historyctl = sys.argv[1:3]
    examples = sys.argv[3] if len(sys.argv) > 3 else "20"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sqlite3", f"{folder}/s.sqlite", "CREATE TABLE person (id INTEGER PRIMARY KEY)"], check=True)
        configuration = {
            "version": 1, "logLevel": "error",
            "stores": [{
                "name": "contacts", "path": "s.sqlite", "entities": {"person": {}},
                "authors": [{"name": "MainApp", "contexts": [
                    {"name": "view", "kind": "replica", "path": "view.sqlite"}, {"name": "live", "kind": "feed"}]}],
            }],
        }
        pathlib.Path(folder, "historyd.json").write_text(json.dumps(configuration))
        environment = {**os.environ, "STATE_DIRECTORY": f"{folder}/state"}
        daemon = subprocess.Popen([historyd, "--config", f"{folder}/historyd.json"], env=environment)
        while subprocess.run([historyctl, "status"], env=environment, capture_output=True).returncode:
            if daemon.poll() is not None:
                return 1
            time.sleep(0.05)
        port = forward(f"{folder}/state/control.sock")
        # Streams have no end, and a wait without a timeout may have none either.
        result = subprocess.run([
            str(pathlib.Path(sys.executable).parent / "schemathesis"), "run", str(ROOT / "config/openapi.json"),
            "--url", f"http://127.0.0.1:{port}", "--max-examples", examples, "--request-timeout", "70",
            "--exclude-operation-id", "follow", "--exclude-operation-id", "feed", "--exclude-operation-id", "wait",
            "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
            "--phases", "examples,coverage,fuzzing",
        ], cwd=folder)
        alive = subprocess.run([historyctl, "status"], env=environment, capture_output=True).returncode == 0
        daemon.terminate()
        ended = daemon.wait(60)
        print(f"The daemon {'answers' if alive else 'does not answer'} after that, and ended with status {ended}.")
        return result.returncode or (0 if alive and ended == 0 else 1)


if __name__ == "__main__":
    sys.exit(main())
