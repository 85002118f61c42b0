"""Runs webhook.py against a server that gives one answer after the other, and prints what became of each call."""

import datetime
import email.utils
import hashlib
import hmac
import http.server
import json
import subprocess
import sys
import threading

later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
IN_TWO_HOURS = email.utils.format_datetime(later, usegmt=True)
ANSWERS = [
    (204, None), (500, None), (503, "17"), (429, " 5 "), (503, IN_TWO_HOURS),
    (503, "Fri, 31 Dec 1999 23:59:59 GMT"), (503, "soon"), (503, "-5"), (503, "9" * 400), (408, None), (425, None),
    (400, None), (404, "17"), (410, None), (301, None),
]
CALL = {
    "store": "contacts", "consumer": "MainApp", "hook": "webhook/people", "delivery": "a4fd:7/MainApp/webhook/people/0",
    "transaction": {"token": "a4fd:7", "author": "Widget", "timestamp": "2026-11-21T01:11:47.988Z"},
    "contexts": [{"entityName": "person", "operation": "insert", "objectID": {"id": 1}}],
}
requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signature = "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()
        assert self.headers["X-Historyd-Signature"] == signature
        requests.append((self.headers["Content-Type"], json.loads(body)))
        status, retry_after = ANSWERS[(len(requests) - 1) % len(ANSWERS)]
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def deliver(count, *options):
    lines = "".join(
        json.dumps({"jsonrpc": "2.0", "id": n, "method": "observe", "params": CALL}) + "\n" for n in range(count))
    environment = {"WEBHOOK_URL": f"http://127.0.0.1:{server.server_address[1]}/", "WEBHOOK_SECRET": "secret"}
    answers = subprocess.run(
        [sys.executable, sys.argv[1], *options], input=lines, stdout=subprocess.PIPE, text=True, env=environment,
        check=True, timeout=60).stdout
    return [json.loads(line) for line in answers.splitlines()]


for (status, retry_after), answer in zip(ANSWERS, deliver(len(ANSWERS))):
    data = answer.get("error", {}).get("data", {})
    seconds = data.get("retryAfter")
    if isinstance(seconds, float):  # a date: to the minute
        data = {"retryAfter": round(seconds / 60) * 60}
    name = "in two hours" if retry_after == IN_TWO_HOURS else (retry_after or "-")[:10].strip()
    print(status, name, json.dumps(data))
assert all(kind == "application/json" and body == CALL for kind, body in requests)

requests.clear()
deliver(1, "--format", "cloudevents")
kind, event = requests[0]
assert event.pop("data") == CALL
print(kind, json.dumps(event, sort_keys=True))
