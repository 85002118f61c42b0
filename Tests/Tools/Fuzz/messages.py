"""What somebody sends who may connect to the control socket, is a plugin, or writes configurations."""
import json, os, socket
from values import INTEGERS, mutated, texts

TARGETS = ['status', 'consumers', 'hooks', 'reload', 'pause', 'resume', 'run', 'wait', 'follow', 'feed', 'feed/acknowledge', 'clean', 'resync',
           'dead-letters', 'dead-letters/retry', 'log-level', '', '..', 'status/x']
NAMES = ['store', 'consumer', 'context', 'token', 'timeout', 'after', 'id', 'all', 'entity', 'operation', 'kind', 'before', 'persist',
         'file', 'dryRun', 'force', 'level', 'x', '']


def parameter(dice, outside):
    return dice.choice(texts(outside) + ['victim0', 'Main', 'live', 'view', 'true', 'x:1', f'x:{2**63}', '1ns', '99999999999999999999d', '-1s', '1e300s',
                                         *map(str, INTEGERS)])


def encoded(text, dice):
    return ''.join(c if c.isalnum() or not dice.randrange(3) and c.isprintable() and c not in ' \r\n' else ''.join(f'%{b:02X}' for b in c.encode('utf-8', 'surrogatepass')) for c in text[:20_000])


def request(dice, outside):
    """Bytes of a request: good ones, wrong ones, and broken ones."""
    method = dice.choice(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'CONNECT', 'X' * 100])
    query = '&'.join(f'{dice.choice(NAMES)}={encoded(parameter(dice, outside), dice)}' for _ in range(dice.choice([0, 1, 2, 3, 8])))
    target = f'/v1/{dice.choice(TARGETS)}?{query}'
    body = mutated(dice, json.dumps(manifest(dice)).encode()) if not dice.randrange(3) else b''
    headers = dice.choice([
        f'Content-Length: {len(body)}', f'Content-Length: {len(body)}', 'Transfer-Encoding: chunked', f'Content-Length: {dice.choice(INTEGERS)}',
        'Content-Length: 1\r\nContent-Length: 2', 'Expect: 100-continue', 'Upgrade: websocket\r\nConnection: Upgrade', 'X: ' + 'y' * dice.choice([10, 20_000, 100_000])])
    data = f'{method} {target} HTTP/{dice.choice(["1.1", "1.1", "1.0", "2.0", "9.9"])}\r\nHost: x\r\n{headers}\r\n\r\n'.encode('utf-8', 'replace') + body
    if not dice.randrange(3): data = mutated(dice, data)
    return data * dice.choice([1, 1, 1, 2, 30])


def send(path, data, dice):
    """Sends it in pieces, reads some or none of the answer, and goes."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(0.2)
    try:
        connection.connect(path)
        cut = dice.randrange(len(data) + 1) if not dice.randrange(3) else len(data)
        connection.sendall(data[:cut])
        connection.sendall(data[cut:])
        return connection.recv(dice.choice([1, 100, 1 << 16])) if dice.randrange(4) else b''
    except OSError: return b''
    finally: connection.close()


ANSWERS = ['null', '"goOn"', '"finish"', '{"verdict":"goOn","reject":[]}', '{"verdict":"goOn","reject":["x:1"]}', '{"verdict":"stop"}', '7', 'true', '[]', '{}',
           '{"reject":[null]}', '"' + 'x' * 100_000 + '"', '[' * 10_000, '1e999', '-0', '{"verdict":"finish","verdict":"goOn"}']


def answer(dice):
    """What a plugin answers to its next calls; ID stands for the call's number."""
    kind = dice.randrange(8)
    good = '{"jsonrpc":"2.0","id":ID,"result":%s}\n' % dice.choice(ANSWERS)
    if kind < 2: return good.encode()
    if kind == 2 and dice.randrange(2): return ('{"id":ID,"error":{"code":%s}}\n' % dice.choice(['1e300', '-1e300', '1.5', '9223372036854775808', 'null', '-0'])).encode()
    if kind == 2: return ('{"jsonrpc":"2.0","id":ID,"error":{"code":%s,"message":%s}}\n' % (dice.choice(['1', '"x"', '1e400', 'null']), dice.choice(['"no"', '7', 'null', '"' + 'm' * 200_000 + '"']))).encode()
    if kind == 3: return ('{"jsonrpc":"2.0","id":%s,"result":null}\n' % dice.choice(['null', '-1', '"ID"', '99999999999999999999', '1e9', '[]', 'true'])).encode()
    if kind == 4: return (good * dice.choice([2, 100])).encode()
    if kind == 5: return dice.randbytes(dice.choice([1, 100, 100_000])) + b'\n'
    return mutated(dice, good.encode()) + b'\n'


def manifest(dice):
    return {'version': 1, 'plugins': [{
        'name': dice.choice(['p', 'a/b', '', 'x' * 500]), 'command': [dice.choice(['/bin/true', '/does/not/exist', '', 'true', '/'])],
        'mode': dice.choice(['coprocess', 'oneshot']), 'environment': {'A': 'b'}, 'timeout': dice.choice(['1s', '1ns', 0, -1, '1e9d', 1e300]),
        'retry': {'attempts': dice.choice([0, 1, 2**63 - 1, -1]), 'initialDelay': '10ms', 'maximumDelay': '20ms'},
        'onFailure': dice.choice(['skip', 'hold']), 'window': dice.choice([0, 1, 100, 2**62]),
        'hooks': [{'name': 'h', 'kind': dice.choice(['observer', 'merge']), 'entity': dice.choice(['*', 'person', '']), 'consumer': 'Nobody', 'before': dice.choice([None, 'p/h', 'x/y'])}]}]}
