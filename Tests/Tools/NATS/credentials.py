"""Makes an operator, an account and a user for a nats-server, as nsc does: nkeys, JWTs, a credentials file.

    credentials.py FOLDER PORT      writes FOLDER/server.conf and FOLDER/nats.creds

The formats: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/jwt and
https://github.com/nats-io/nkeys. Ed25519 is that of RFC 8032, section 6: slow, and enough for a few signatures.
"""

import base64
import hashlib
import json
import os
import sys
import time

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQUARE_ROOT = pow(2, (P - 1) // 4, P)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def base_point():
    y = 4 * pow(5, P - 2, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQUARE_ROOT % P
    x = P - x if x & 1 else x
    return (x, y, 1, x * y % P)


BASE = base_point()


def encoded(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def number(data):
    return int.from_bytes(hashlib.sha512(data).digest(), "little") % ORDER


class Key:
    """An nkey: a letter says whose it is."""

    KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}

    def __init__(self, kind):
        self.kind, self.private = self.KINDS[kind], os.urandom(32)
        digest = hashlib.sha512(self.private).digest()
        scalar = int.from_bytes(digest[:32], "little")
        self.scalar, self.prefix = scalar & (1 << 254) - 8 | 1 << 254, digest[32:]
        self.point = encoded(multiply(self.scalar, BASE))

    def sign(self, message):
        r = number(self.prefix + message)
        point = encoded(multiply(r, BASE))
        s = (r + number(point + self.point + message) * self.scalar) % ORDER
        return point + s.to_bytes(32, "little")

    @property
    def public(self):
        return text(bytes([self.kind]) + self.point)

    @property
    def seed(self):
        letter = 18 << 3
        return text(bytes([letter | self.kind >> 5, (self.kind & 31) << 3]) + self.private)


def text(data):
    """In base32, with a CRC-16 (XMODEM) behind it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")


def plain64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(name, subject, issuer, claims):
    body = {"iat": int(time.time()), "iss": issuer.public, "name": name, "sub": subject.public, "nats": claims}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    signed = ".".join(plain64(json.dumps(part, separators=(",", ":")).encode()) for part in (head, body))
    return f"{signed}.{plain64(issuer.sign(signed.encode()))}"


UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
LIMITS = UNLIMITED | {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
STREAMS = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


def write(folder, port):
    operator, account, system, user = Key("operator"), Key("account"), Key("account"), Key("user")
    operator_jwt = jwt("operator", operator, operator,
                       {"type": "operator", "version": 2, "system_account": system.public})
    # The system's account has no streams.
    accounts = {key: jwt(name, key, operator, {"type": "account", "version": 2, "limits": limits})
                for name, key, limits in (("history", account, LIMITS | STREAMS), ("system", system, LIMITS))}
    user_jwt = jwt("historyd-nats", user, account, {"type": "user", "version": 2, **UNLIMITED, "pub": {}, "sub": {}})
    preload = "\n".join(f'  {key.public}: "{token}"' for key, token in accounts.items())
    with open(os.path.join(folder, "server.conf"), "w") as file:
        file.write(f"""listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/jetstream" }}
operator: "{operator_jwt}"
resolver: MEMORY
resolver_preload {{
{preload}
}}
""")
    with open(os.path.join(folder, "nats.creds"), "w") as file:
        file.write(f"""-----BEGIN NATS USER JWT-----
{user_jwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{user.seed}
------END USER NKEY SEED------
""")
    return user


if __name__ == "__main__":
    write(os.path.abspath(sys.argv[1]), int(sys.argv[2]))
