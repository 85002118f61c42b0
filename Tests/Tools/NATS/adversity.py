#!/usr/bin/python3
"""Tests historyd-nats on bad days: slow links, faults, newer servers; beside `nats.py`, whose bench it uses.

    adversity.py FOLDER-OF-PROGRAMS SCENARIO

`NATS_SERVER` names another nats-server than the system's. Each scenario ends within a minute or two.
"""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time

import credentials
import nats
from nats import Failure, Proxy, SwallowingProxy, api, exchange, health, last_headers, make_streams, once


def until(what, test, limit=60):
    deadline = time.monotonic() + limit
    while not test():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {limit} s")
        time.sleep(0.1)


def begin(bench, server=True, **more_publish):
    bench.make_store()
    bench.configure(more_publish=more_publish)
    db = bench.open("App")
    if server:
        bench.start_server()
    return db


def insert(db, count, size=0):
    for number in range(count):
        db.execute("INSERT INTO person (name, data) VALUES (?, ?)", [str(number), os.urandom(size)])


def route(bench, name, port):
    """Lets a program connect by way of a proxy."""
    configuration = json.load(open(bench.path(name + ".json")))
    bench.write(name + ".json", json.dumps({**configuration, "servers": [f"nats://127.0.0.1:{port}"]}))


def words(bench):
    """The server's words about requests, more than a request has messages: no session fails, and --once is level."""
    db = begin(bench)
    insert(db, 3)
    bench.publish_and_follow()
    bench.wait_level()
    # Messages that move nothing.
    exchange(bench, [("history.contacts.x", None, b"hello")] * 300)
    insert(db, 1)
    bench.wait_level(20)
    bench.kill("follow")
    for _ in range(700):
        db.execute("INSERT INTO person (name) VALUES ('x')")
    nats.wait_published(bench)
    for _ in range(2):
        status, said = once(bench, "follow")
        if status != 0:
            raise Failure(f"--once: {status}, {said}")
    bench.start_nats("follow")
    bench.wait_level(20)
    bench.compare()
    # The first session may come before the streams.
    failed = [line for line in bench.log("follow").splitlines() if "stopped:" in line and "stream not found" not in line]
    if failed:
        raise Failure(f"sessions failed: {failed}")
    print("more messages than a request has: no session fails")


def status_header(bench):
    """Stored messages with a header Status, in both streams, and behind a snapshot's head."""
    db = begin(bench)
    insert(db, 3)
    bench.publish_and_follow()
    bench.wait_level()
    fields = {"Status": "409", "Description": "Consumer Deleted"}
    exchange(bench, [("history.contacts.x", fields, b""), ("history_snapshot.contacts.head", fields, b"")])
    insert(db, 3)
    bench.wait_level(20)
    for name in ["publish", "follow"]:
        bench.kill(name)
    insert(db, 3)
    bench.publish_and_follow()
    bench.wait_level(20)
    result = nats.new_epoch(bench)
    if result.returncode:
        raise Failure(f"--new-epoch: {result.stderr}")
    insert(db, 1)
    bench.wait_level(20)
    bench.compare()
    print("a stored message with a header Status is content")


def remade(bench):
    """The mirror's file is removed, and the streams are deleted, while nothing is written."""
    db = begin(bench)
    insert(db, 5)
    bench.publish_and_follow()
    bench.wait_level()
    time.sleep(1)
    start = time.monotonic()
    for suffix in ["", "-wal", "-shm"]:
        if os.path.exists(bench.mirror + suffix):
            os.remove(bench.mirror + suffix)
    bench.wait_level(20)
    bench.compare()
    print(f"the mirror's file removed: there again after {time.monotonic() - start:.0f} s")
    start = time.monotonic()
    before = bench.epoch()
    nats.delete_streams(bench)
    until("a new epoch", lambda: bench.epoch() > before, 30)
    bench.wait_level(20)
    print(f"the streams deleted: a new epoch in the mirror after {time.monotonic() - start:.0f} s")
    if not re.search("compared [0-9] s ago|compared 1[0-9] s ago", bench.status("follow")):
        raise Failure(f"the status does not say when it was compared: {bench.status('follow')}")


class DeafProxy(Proxy):
    """It loses requests for messages while it is told to, and nothing else: as if the consumer's server were gone."""

    REQUEST = re.compile(rb"PUB \$JS\.API\.CONSUMER\.MSG\.NEXT\.\S+ \S+ (\d+)\r\n")

    def __init__(self, server):
        self.deaf = threading.Event()
        super().__init__(server)

    def let_through(self, data):
        found = self.REQUEST.search(data) if self.deaf.is_set() else None
        return data[:found.start()] + data[found.end() + int(found[1]) + 2:] if found else data


def lost_consumer(bench):
    """A request for messages that is lost: what comes then is not delivered, and that is noticed."""
    db = begin(bench)
    insert(db, 5)
    proxy = DeafProxy(bench.port)
    route(bench, "follow", proxy.port)
    proxy.deaf.set()
    bench.start_nats("publish")
    nats.wait_published(bench)
    bench.start_nats("follow")
    until("a mirror", lambda: os.path.exists(bench.mirror) or not time.sleep(0.1), 30)
    time.sleep(3)
    proxy.deaf.clear()
    start = time.monotonic()
    insert(db, 1)
    bench.wait_level(25)
    print(f"a request that was lost: level {time.monotonic() - start:.0f} s later")


class MuteServer:
    """It greets as a server with TLS does, and says nothing more."""

    def __init__(self, greets=True):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.greets = greets
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            self.connections.append(client)
            if self.greets:
                client.sendall(b'INFO {"server_id":"x","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576,'
                               b'"tls_required":true}\r\n')


def mute(bench):
    """Servers that say nothing in the TLS handshake, or at all: each is given up, and a stop does not wait for them."""
    bench.make_store()
    bench.configure()
    silent = MuteServer()
    configuration = json.load(open(bench.path("follow.json")))
    bench.write("follow.json", json.dumps({**configuration, "servers": [f"tls://127.0.0.1:{silent.port}"], "tls": {}}))
    bench.start_nats("follow")
    until("three attempts", lambda: len(silent.connections) >= 3, 40)
    start = time.monotonic()
    bench.kill("follow", signal.SIGTERM)
    if time.monotonic() - start > 3:
        raise Failure(f"the stop took {time.monotonic() - start:.1f} s")
    print("a handshake that never ends is given up, and tried again; a stop does not wait for it")
    servers = [MuteServer(greets=False) for _ in range(6)]
    bench.write("follow.json", json.dumps(
        {**configuration, "servers": [f"nats://127.0.0.1:{server.port}" for server in servers]}))
    bench.start_nats("follow")
    until("an attempt", lambda: any(server.connections for server in servers), 20)
    start = time.monotonic()
    bench.kill("follow", signal.SIGTERM)
    if time.monotonic() - start > 3:
        raise Failure(f"the stop took {time.monotonic() - start:.1f} s")
    print("six mute servers: a stop does not wait for them")


class PacedProxy(Proxy):
    """A link of some bytes a second in each direction, with small buffers, that may break."""

    def __init__(self, server, rate):
        self.rate = rate
        self.carried = 0
        self.ends = []
        super().__init__(server)

    def carry(self, source, target, change):
        self.ends += [source, target]
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        try:
            while data := source.recv(4096):
                time.sleep(len(data) / self.rate)
                self.carried += len(data)
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in [source, target]:
                end.close()

    def cut(self):
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.ends = []


def stream_bytes(bench, name="HISTORY_contacts_SNAPSHOT"):
    return api(bench, "STREAM.INFO." + name)["state"]["bytes"]


def slow_publisher(bench):
    """A slow link that breaks while the first snapshot is published: a break costs little, and leaves nothing behind."""
    size = 3_000_000
    bench.make_store()
    bench.configure()
    db = bench.open("App")
    insert(db, 30, size // 60)
    bench.start_server()
    make_streams(bench)
    proxy = PacedProxy(bench.port, 60_000)
    route(bench, "publish", proxy.port)
    bench.start_nats("publish")
    for part in [1, 2, 3]:
        until("parts", lambda: proxy.carried > part * size // 5, 120)
        proxy.cut()
    try:
        bench.start_nats("follow")
        bench.wait_level(150)
        bench.compare()
    finally:
        proxy.rate = 1e9
    body = int(last_headers(bench, "HISTORY_contacts_SNAPSHOT", last_by_subj="history_snapshot.contacts.head")["Historyd-Bytes"])
    if stream_bytes(bench) > body * 1.2:
        raise Failure(f"the stream has {stream_bytes(bench)} bytes for a snapshot of {body}")
    if proxy.carried > body * 1.4 + 200_000:
        raise Failure(f"{proxy.carried} bytes were carried for a snapshot of {body}")
    print(f"{proxy.carried} bytes were carried for a snapshot of {body}, over three breaks")


def slow_follower(bench):
    """The same for a follower."""
    db = begin(bench)
    insert(db, 30, 30_000)
    bench.start_nats("publish")
    nats.wait_published(bench)
    body = int(last_headers(bench, "HISTORY_contacts_SNAPSHOT", last_by_subj="history_snapshot.contacts.head")["Historyd-Bytes"])
    proxy = PacedProxy(bench.port, 32_000)
    route(bench, "follow", proxy.port)
    bench.start_nats("follow")
    for part in [1, 2, 3]:
        until("parts", lambda: proxy.carried > part * body // 5, 120)
        proxy.cut()
    bench.wait_level(150)
    bench.compare()
    if proxy.carried > body * 1.4 + 300_000:
        raise Failure(f"{proxy.carried} bytes were carried for a snapshot of {body}")
    print(f"{proxy.carried} bytes were carried for a snapshot of {body}, over three breaks")


def narrow(bench):
    """Links of 16 kB a second, which break in the middle of a snapshot: it gets there. It takes some minutes."""
    insert(begin(bench), 30, 16_000)
    make_streams(bench)
    for name in ["publish", "follow"]:
        proxy = PacedProxy(bench.port, 16_000)
        route(bench, name, proxy.port)
        start = time.monotonic()
        bench.start_nats(name)
        for _ in range(2):
            enough = proxy.carried + 200_000
            until("parts of a snapshot", lambda: proxy.carried >= enough, 300)
            proxy.cut()
        if name == "publish":
            until("a snapshot", lambda: re.search("[Ss]napshot.*(complete|published)|is published", bench.log(name)), 400)
        else:
            bench.wait_level(400)
        print(f"{name}: {proxy.carried} bytes in {time.monotonic() - start:.0f} s, with two breaks", flush=True)
    bench.compare()


def between(bench):
    """Groups go between the parts of a snapshot that takes long, and --new-epoch wins against a busy publisher."""
    bench.make_store()
    bench.configure(more_publish={"snapshot": {"every": "8s"}})
    db = bench.open("App")
    insert(db, 100, 60_000)
    bench.start_server()
    proxy = PacedProxy(bench.port, 1e9)
    route(bench, "publish", proxy.port)
    bench.publish_and_follow()
    bench.wait_level()
    before = int(last_headers(bench, "HISTORY_contacts_SNAPSHOT", last_by_subj="history_snapshot.contacts.head")["Historyd-First"])
    proxy.rate = 1_500_000
    until("a snapshot under way", lambda: "begin" in json.dumps(last_headers(bench, "HISTORY_contacts_SNAPSHOT"))
          or "snapshot" in last_headers(bench, "HISTORY_contacts_SNAPSHOT").get("Historyd-Kind", ""), 30)
    slowest = 0
    for number in range(10):
        start = time.monotonic()
        insert(db, 1)
        bench.wait_level(20)
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.1)
    if slowest > 6:
        raise Failure(f"a mirror was {slowest:.1f} s behind while a snapshot was published")
    print(f"while a snapshot was published, a mirror was at most {slowest:.2f} s behind")
    proxy.rate = 1e9
    stop = threading.Event()

    def write():
        other = bench.open("App")
        while not stop.wait(0.02):
            other.execute("INSERT INTO person (name) VALUES ('busy')")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = nats.new_epoch(bench)
    finally:
        stop.set()
        writer.join()
    if result.returncode:
        raise Failure(f"--new-epoch beside 50 commits a second: {result.returncode}, {result.stderr}")
    bench.wait_level(60)
    bench.compare()
    print("--new-epoch beside 50 commits a second")


def counts_removed_messages():
    """Whether removing messages by their subject gives an account no space back: nats-server before 2.9.15."""
    said = subprocess.run([nats.SERVER, "--version"], capture_output=True, text=True).stdout
    return tuple(int(number) for number in re.search(r"v(\d+)\.(\d+)\.(\d+)", said).groups()) < (2, 9, 15)


def refused_snapshot(bench):
    """A snapshot that the server has no room for: publishing goes on, health is degraded, nothing is left over."""
    bench.make_store()
    bench.configure(more_publish={"stream": {"maxBytes": "1MiB"}, "snapshot": {"every": "3s", "keep": 1}})
    db = bench.open("App")
    insert(db, 10, 100_000)
    bench.start_server()
    bench.kill("server")
    bench.write("server.conf", f'jetstream {{ store_dir: "{bench.path("jetstream")}", max_file: 6MB }}\n')
    bench.start("server", nats.SERVER, "-c", bench.path("server.conf"), "-a", "127.0.0.1", "-p", str(bench.port))
    bench.publish_and_follow()
    bench.wait_level()
    # The next snapshot does not fit beside the last one.
    try:
        for _ in range(30):
            insert(db, 1, 70_000)
            bench.wait_level(30)
    except Failure:
        if not counts_removed_messages():
            raise
        bench.kill("server")
        bench.start("server", nats.SERVER, "-c", bench.path("server.conf"), "-a", "127.0.0.1", "-p", str(bench.port))
        bench.wait_level(60)
        return print("this server counts what was removed until it is restarted: then publishing goes on")
    bench.await_problem("publish", "No snapshot can be published", 60)
    status, said = health(bench, "publish")
    if status != 1 or "No snapshot" not in said:
        raise Failure(f"health: {status}, {said}")
    insert(db, 3)
    bench.wait_level(20)
    bench.compare()
    subjects = api(bench, "STREAM.INFO.HISTORY_contacts_SNAPSHOT", {"subjects_filter": ">"})["state"]["subjects"]
    if len([subject for subject in subjects if ".part." in subject]) > 1:
        raise Failure(f"parts are left over: {subjects}")
    print("a snapshot that does not fit: publishing goes on")


def expired(bench):
    """Messages that expire before the next snapshot is due: a new mirror does not wait for a day."""
    db = begin(bench, stream={"maxAge": "4s"}, snapshot={"every": "1d"})
    insert(db, 3)
    bench.start_nats("publish")
    nats.wait_published(bench)
    for _ in range(8):
        insert(db, 1)
        time.sleep(1)
    bench.start_nats("follow")
    bench.wait_level(30)
    bench.compare()
    print("messages expired behind the snapshot: a new mirror is level")


def copied(bench):
    """A copy of an old message at the end of the stream: a follower's search is not led astray."""
    db = begin(bench)
    insert(db, 5)
    bench.publish_and_follow()
    bench.wait_level()
    bench.kill("follow")
    first = api(bench, "STREAM.INFO.HISTORY_contacts")["state"]["first_seq"]
    for _ in range(40):
        insert(db, 1)
        nats.wait_published(bench)
    old = last_headers(bench, "HISTORY_contacts", seq=first)
    fields = {name: value for name, value in old.items() if name.startswith("Historyd-") or name == "Nats-Msg-Id"}
    fields["Nats-Msg-Id"] = "copy/" + str(3)
    exchange(bench, [("history.contacts.x", {**fields, "Nats-Msg-Id": f"copy/{number}"}, b"") for number in range(7, 12)])
    # The mirror does not find its own message any more.
    with sqlite3.connect(bench.mirror) as mirror:
        mirror.execute("UPDATE historyd_mirror SET message = 'other/1'")
    mirror.close()
    bench.start_nats("follow")
    bench.wait_level(30)
    bench.compare()
    if "needs a snapshot" in bench.log("follow").split("copy")[-1].splitlines()[-1]:
        raise Failure(bench.log("follow"))
    print("a copy of an old message does not lead a follower astray")


class DelayingProxy(Proxy):
    """It takes 20 ms in each direction."""

    def carry(self, source, target, change):
        def late(data):
            time.sleep(0.02)
            return data
        super().carry(source, target, late)


def foreign_rate(bench):
    """Three foreign messages a second, and a publisher that is 20 ms away."""
    db = begin(bench)
    insert(db, 3)
    route(bench, "publish", DelayingProxy(bench.port).port)
    bench.publish_and_follow()
    bench.wait_level()
    stop = threading.Event()

    def disturb():
        while not stop.wait(0.33):
            exchange(bench, [("history.contacts.stranger", None, b"hello")])

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(20):
            insert(db, 3)
            # Not only with the check of the stream, which comes each 10 s.
            bench.wait_level(8)
    finally:
        stop.set()
        other.join()
    bench.compare()
    with open(bench.path("publish.log")) as file:
        text = file.read()
    if "history.contacts.stranger" not in text:
        raise Failure("the stranger's subject is not named:\n" + text[-3000:])
    print("three foreign messages a second: each commit is in the mirror within seconds")


def two_publishers(bench):
    """Two publishers of one stream: the journal is not filled."""
    db = begin(bench)
    bench.publish_and_follow()
    bench.start_nats("publish2")
    for _ in range(40):
        insert(db, 1)
        time.sleep(0.25)
    bench.kill("publish2")
    bench.wait_level(30)
    bench.compare()
    for name in ["publish", "publish2"]:
        with open(bench.path(name + ".log")) as file:
            lines = file.read().count("\n")
        if lines > 40:
            raise Failure(f"{name} has logged {lines} lines in 10 s:\n{bench.log(name)}")
    print("two publishers: the journal is not filled")


def two_followers(bench):
    db = begin(bench)
    insert(db, 3)
    bench.publish_and_follow()
    bench.wait_level()
    status, said = once(bench, "follow")
    if status != 75 or "another historyd-nats follows" not in said:
        raise Failure(f"--once beside the service: {status}, {said}")
    print("a second follower of one mirror is refused")


def beat(bench):
    """A publisher with a beat: the mirror says as of when it is, and a publisher that died is noticed."""
    db = begin(bench, beat="500ms")
    insert(db, 3)
    bench.publish_and_follow()
    bench.wait_level()

    def report():
        result = subprocess.run(
            [bench.program("historyd-nats"), "status", "--format", "json", "--socket", bench.path("follow.run", "status.sock")],
            capture_output=True, text=True)
        return json.loads(result.stdout)[0]

    until("a time", lambda: report().get("asOf"), 20)
    time.sleep(2)
    age = time.time() - report()["asOf"]
    if age > 2:
        raise Failure(f"a quiet source is {age:.1f} s old")
    if health(bench, "follow")[0]:
        raise Failure(f"not healthy: {health(bench, 'follow')}")
    bench.kill("publish")
    until("a silent publisher", lambda: "has not been heard of" in health(bench, "follow")[1], 20)
    bench.start_nats("publish")
    until("healthy", lambda: health(bench, "follow")[0] == 0, 20)
    bench.compare()
    print("as of when a mirror is, and whether its publisher lives")


def domain(bench):
    """The servers of publisher and follower are leaf nodes without JetStream; the streams are in the hub's domain."""
    hub, leaves = nats.free_port(), nats.free_port()
    bench.write("hub.conf", f'server_name: hub\njetstream {{ store_dir: "{bench.path("jetstream")}", domain: hub }}\n'
                            f'leafnodes {{ listen: "127.0.0.1:{leaves}" }}\n')
    bench.start("hub", nats.SERVER, "-c", bench.path("hub.conf"), "-a", "127.0.0.1", "-p", str(hub))
    bench.write("leaf.conf", f'server_name: leaf\nleafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{leaves}" }}] }}\n')
    bench.start("server", nats.SERVER, "-c", bench.path("leaf.conf"), "-a", "127.0.0.1", "-p", str(bench.port))
    db = begin(bench, server=False)
    insert(db, 3)
    bench.start_nats("publish")
    until("the advice", lambda: "jetStreamDomain" in bench.log("publish"), 30)
    bench.kill("publish", signal.SIGTERM)
    for name in ["publish", "follow"]:
        with open(bench.path(name + ".json")) as file:
            configuration = json.load(file)
        bench.write(name + ".json", json.dumps({**configuration, "jetStreamDomain": "hub"}))
    bench.publish_and_follow()
    bench.wait_level(60)
    insert(db, 400)
    bench.wait_level(60)
    bench.compare()
    print("leaf nodes: the streams are in the hub's domain")


def compressed(bench):
    """A mirror follows by way of a leaf node on its side of a link: since 2.10, servers compress what goes between them."""
    version = subprocess.run([nats.SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.search(r"v(\d+)\.(\d+)", version).groups())) < (2, 10):
        return print("this server does not compress")
    leaves = nats.free_port()
    bench.write("hub.conf", f'server_name: hub\njetstream {{ store_dir: "{bench.path("jetstream")}", domain: hub }}\n'
                            f'leafnodes {{ listen: "127.0.0.1:{leaves}", compression: s2_fast }}\n')
    bench.start("server", nats.SERVER, "-c", bench.path("hub.conf"), "-a", "127.0.0.1", "-p", str(bench.port))
    db = begin(bench, server=False)
    names = "Ada Berta Carla Dora Emma Frieda Greta Hanna".split()
    for number in range(2000):
        db.execute("INSERT INTO person (name, data) VALUES (?, ?)",
                   [f"{names[number % 8]} {number}", f"lives in street {number % 97}, has written {number * 7} letters"])
    bench.start_nats("publish")
    nats.wait_published(bench)
    carried = {}
    for compression in ["off", "s2_fast"]:
        proxy, port = PacedProxy(leaves, 1e9), nats.free_port()
        bench.write("leaf.conf", f'server_name: leaf-{compression}\nleafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:'
                                 f'{proxy.port}", compression: {compression} }}] }}\n')
        bench.start("leaf", nats.SERVER, "-c", bench.path("leaf.conf"), "-a", "127.0.0.1", "-p", str(port))
        route(bench, "follow", port)
        with open(bench.path("follow.json")) as file:
            configuration = json.load(file)
        bench.write("follow.json", json.dumps({**configuration, "jetStreamDomain": "hub"}))
        bench.start_nats("follow")
        bench.wait_level(60)
        bench.compare()
        carried[compression] = proxy.carried
        for name in ["follow", "leaf"]:
            bench.kill(name, signal.SIGTERM)
        for side in ["", "-wal", "-shm"]:
            if os.path.exists(bench.mirror + side):
                os.remove(bench.mirror + side)
    print(f"bytes of a new mirror over the link: {carried['off']}, compressed {carried['s2_fast']}")
    if carried["s2_fast"] * 2 > carried["off"]:
        raise Failure(f"the servers compress nothing: {carried}")


class NonceProxy(Proxy):
    """It gives the first client another nonce than the server's."""

    def __init__(self, server, nonce):
        self.nonce, self.nonces = nonce, []
        super().__init__(server)

    def carry(self, source, target, change):
        super().carry(source, target, self.greet if change is bytes else change)

    def greet(self, data):
        if not data.startswith(b"INFO "):
            return data
        own = re.search(rb'"nonce":"([^"]*)"', data)
        self.nonces.append(own[1])
        return data[:own.start(1)] + self.nonce + data[own.end(1):] if len(self.nonces) == 1 else data


def unsigned(bench):
    """A signature that begins with a zero is not sent by libnats 3.4.1, one in 256: the server refuses the connection."""
    key = credentials.write(bench.folder, bench.port)
    bench.start("server", nats.SERVER, "-c", bench.path("server.conf"))
    db = begin(bench, server=False)
    insert(db, 5)
    nonce = next(nonce for nonce in (b"nonce-%d" % number for number in range(1 << 16)) if key.sign(nonce)[0] == 0)
    publish = json.load(open(bench.path("publish.json")))
    bench.write("publish.json", json.dumps({**publish, "credentials": bench.path("nats.creds")}))
    def new_epoch():
        result = nats.new_epoch(bench)
        return result.returncode, result.stderr

    for attempt, run in {"publish --once": lambda: once(bench, "publish"), "publish --new-epoch": new_epoch}.items():
        while True:
            proxy = NonceProxy(bench.port, nonce)
            route(bench, "publish", proxy.port)
            status, said = run()
            # One in 256 of the server's own is like it.
            if len(proxy.nonces) != 2 or key.sign(proxy.nonces[1])[0] != 0:
                break
        if status != 0:
            raise Failure(f"{attempt} ends with {status}: {said}")
        if len(proxy.nonces) != 2:
            raise Failure(f"{attempt}: {len(proxy.nonces)} connections, not 2")
    print("connections that the server refused for want of a signature were tried once more")
    # What is refused for another reason is not repeated for long.
    credentials.write(bench.folder, bench.port)
    proxy = NonceProxy(bench.port, nonce)
    route(bench, "publish", proxy.port)
    status, said = new_epoch()
    if status == 0 or "Authorization Violation" not in said or len(proxy.nonces) != 2:
        raise Failure(f"with another's credentials: {status} after {len(proxy.nonces)}: {said}")
    print("another user's credentials: " + said.strip())


SCENARIOS = [unsigned, domain, compressed, words, status_header, remade, lost_consumer, mute, slow_publisher, slow_follower, narrow, between, refused_snapshot,
             expired, copied, foreign_rate, two_publishers, two_followers, beat]


def main():
    programs, names = sys.argv[1], sys.argv[2:]
    nats.SERVER = os.environ.get("NATS_SERVER", nats.SERVER)
    known = {scenario.__name__: scenario for scenario in SCENARIOS}
    for name in names:
        bench = nats.Bench(programs, 0)
        start = time.monotonic()
        try:
            known[name](bench)
            bench.end()
        except BaseException as error:
            bench.end()
            print(f"FAILED in {name} ({bench.folder} is kept): {error}", flush=True)
            if not isinstance(error, Failure):
                raise
            return 1
        shutil.rmtree(bench.folder)
        print(f"{name}: all is well, after {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
