#!/usr/bin/python3
"""An observer in mode "coprocess": each call is sent to a web server, in order, as a POST of its JSON.

A status from 200 to 299 is success. Otherwise the call is tried again, and later calls wait: after the time that the
answer's Retry-After names, else as the manifest's "retry" says. A status from 400 to 499 says that the request is wrong
and will stay so: it is not tried again (but 408, 425 and 429), and what the manifest's "onFailure" says happens at once.
A call may be repeated; it then has the same Idempotency-Key.

Options:
  --format json         the body is the call's params (the default)
  --format cloudevents  the body is a CloudEvents 1.0 event in structured mode, with the params as its data

Environment:
  WEBHOOK_URL      http://… or https://…; a user and a password (https://user:password@…) are sent as basic
                   authentication
  WEBHOOK_SECRET   if given, the header X-Historyd-Signature is "sha256=" and the HMAC of the body
  WEBHOOK_TIMEOUT  seconds for a request (default: 4); less than the "timeout" of the manifest
"""

import argparse
import base64
import datetime
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import sys
from urllib.parse import quote, unquote_to_bytes, urlsplit

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--format", choices=["json", "cloudevents"], default="json")
FORMAT = options.parse_args().format
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


class Refused(Exception):
    """The server has answered, and not that all is well. `advice` says whether another attempt is worth it."""

    def __init__(self, response):
        super().__init__(f"{URL.hostname} answered {response.status} {response.reason}")
        seconds = retry_after(response.getheader("Retry-After"))
        # Request Timeout, Too Early, Too Many Requests: https://www.rfc-editor.org/rfc/rfc9110#section-15.5
        if 400 <= response.status < 500 and response.status not in (408, 425, 429):
            self.advice = {"permanent": True}
        else:
            self.advice = {} if seconds is None else {"retryAfter": seconds}


def retry_after(text):
    """The seconds that a Retry-After names, which are a number or a date; None where it names none."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return int(text[:9])
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:  # HTTP's dates are of Greenwich
            date = date.replace(tzinfo=datetime.timezone.utc)
        return max(0, (date - datetime.datetime.now(datetime.timezone.utc)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def event(params):
    """https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md"""
    changes = params.get("contexts") or [{}]
    transaction = params.get("transaction", {})
    members = {
        "specversion": "1.0",
        "id": params["delivery"],
        "source": "x-history://" + transaction.get("token", params["store"]).partition(":")[0],
        "type": ".".join(["historyd", changes[0].get("entityName", "batch"), changes[0].get("operation", "change")]),
        "time": transaction.get("timestamp"),
        "datacontenttype": "application/json",
        "data": params,
    }
    return {name: value for name, value in members.items() if value is not None}


def send(params):
    is_event = FORMAT == "cloudevents"
    body = json.dumps(event(params) if is_event else params, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        **HEADERS,
        "Content-Type": "application/cloudevents+json" if is_event else "application/json",
        "User-Agent": "historyd-webhook",
        "Idempotency-Key": params["delivery"].encode().decode("latin-1"),
    }
    if SECRET:
        headers["X-Historyd-Signature"] = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    response = post(body, headers)
    if not 200 <= response.status < 300:
        raise Refused(response)


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
        advice = getattr(error, "advice", None)
        if advice:
            answer["error"]["data"] = advice
    print(json.dumps(answer), flush=True)
