#!/usr/bin/python3
"""An observer in mode "coprocess": each call is sent to a web server, in order, as a POST of its JSON.

A status from 200 to 299 is success. Otherwise the call is tried again, as the manifest's "retry" says, and
later calls wait. A call may be repeated; it then has the same Idempotency-Key.

Environment:
  WEBHOOK_URL      http://… or https://…; a user and a password (https://user:password@…) are sent as basic
                   authentication
  WEBHOOK_SECRET   if given, the header X-Historyd-Signature is "sha256=" and the HMAC of the body
  WEBHOOK_TIMEOUT  seconds for a request (default: 4); less than the "timeout" of the manifest
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import sys
from urllib.parse import quote, unquote_to_bytes, urlsplit

URL = urlsplit(os.environ.get("WEBHOOK_URL", ""))
SECRET = os.environ.get("WEBHOOK_SECRET", "").encode()
TIMEOUT = float(os.environ.get("WEBHOOK_TIMEOUT", 4))
try:
    is_valid = URL.scheme in ("http", "https") and URL.hostname and URL.port != 0
except ValueError:  # the port is no number
    is_valid = False
if not is_valid:
    sys.exit('WEBHOOK_URL is no http or https URL: give it in the manifest, under "environment".')
# What is encoded already stays as it is; the rest of a name that is not ASCII is encoded as UTF-8.
TARGET = quote(URL.path or "/", safe="/%:@!$&'()*+,;=~") + (
    "?" + quote(URL.query, safe="/?%:@!$&'()*+,;=~") if URL.query else "")
HOST = URL.hostname if URL.hostname.isascii() else URL.hostname.encode("idna").decode()
HEADERS = {}
if URL.username is not None:
    # The bytes as they are: https://www.rfc-editor.org/rfc/rfc7617#section-2.1
    user = unquote_to_bytes(URL.username) + b":" + unquote_to_bytes(URL.password or "")
    HEADERS["Authorization"] = "Basic " + base64.b64encode(user).decode()

connection = None


def post(body, headers):
    """Sends a request on the connection that is open, or on a new one."""
    global connection
    is_new = connection is None
    if is_new:
        kind = http.client.HTTPSConnection if URL.scheme == "https" else http.client.HTTPConnection
        connection = kind(HOST, URL.port, timeout=TIMEOUT)
    try:
        connection.request("POST", TARGET, body, headers)
        response = connection.getresponse()
        response.read()
        return response
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        connection = None
        # A server may close a connection that was not used for a while.
        if is_new or isinstance(error, TimeoutError):
            raise
        return post(body, headers)


def send(params):
    body = json.dumps(params, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        **HEADERS,
        "Content-Type": "application/json",
        "User-Agent": "historyd-webhook",
        "Idempotency-Key": params["delivery"].encode().decode("latin-1"),
    }
    if SECRET:
        headers["X-Historyd-Signature"] = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    response = post(body, headers)
    if not 200 <= response.status < 300:
        raise ValueError(f"{URL.hostname} answered {response.status} {response.reason}")


for line in sys.stdin.buffer:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        if request["method"] == "observe":
            send(request["params"])
        # As a merge hook it accepts everything.
        answer["result"] = "goOn" if request["method"] == "merge" else None
    except Exception as error:  # the hook has failed, and is called again
        answer["error"] = {"code": -32000, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
