"""Values and bytes that somebody would try."""
import struct

INTEGERS = [0, 1, -1, 2, 3, 4, 127, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**53, 2**61, 2**62, 2**62 + 1,
            2**63 - 1, -2**63, -2**63 + 1, -2**31]
REALS = [0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, float('inf'), float('-inf'), 1.5, 2.0**63]


def texts(outside):
    """Texts, among them names of files that lie where the daemon has no business."""
    return ['', ' ', 'x', 'person', 'item', 'Person', '\n', 'a\nb', '\x00', 'a\x00b', "'", '"', '`', ']', '; --', '%', '*', '\\',
            '../../x', '/', '.', '..', f'{outside}/made', f'../{outside.rsplit("/", 1)[-1]}/victim',
            f'{outside}/victim', 'x' * 300, 'x' * 70_000, '\u202e\u0000', '\U0001f4a3' * 50, '9' * 400, '-1', '1e999',
            '\t\t\t\t', 'k\t1\t2\tAuthor\tcontext', f'k\t{-2**63}\t{2**63}\tA\t', 'k\t9223372036854775808\t-9223372036854775809\t\t',
            '[]', '{}', 'null', '[[[[', '[' * 5000, '{"a":' * 2000, '{"id":1}', '{"columns":[]}', '[1,2,3]', '["a","a"]',
            '1' * 20, '00000000-0000-0000-0000-000000000000', 'x-history://a/b/p1']


def value(dice, outside):
    """A value of any type and size."""
    kind = dice.randrange(10)
    if kind < 3: return dice.choice(INTEGERS)
    if kind == 3: return dice.randrange(-2**63, 2**63)
    if kind == 4: return dice.choice(REALS)
    if kind == 5: return None
    if kind == 6: return dice.randbytes(dice.choice([0, 1, 8, 16, 17, 1000]))
    if kind == 7 and not dice.randrange(20): return dice.randbytes(1 << 20)
    return dice.choice(texts(outside))


def mutated(dice, data, most=1 << 18):
    """Bytes that differ a little: bits, pieces cut out, doubled, moved, numbers made extreme, texts cut short."""
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 4, 16])):
        if not data: data = bytearray(b'x')
        place = dice.randrange(len(data))
        kind = dice.randrange(9)
        length = dice.choice([1, 2, 4, 8, 50, 500])
        if kind == 0: data[place] ^= 1 << dice.randrange(8)
        elif kind == 1: data[place] = dice.choice([0, 1, 9, 10, 13, 34, 44, 58, 91, 92, 93, 123, 125, 127, 128, 192, 237, 255])
        elif kind == 2: del data[place:place + length]
        elif kind == 3: data[place:place] = data[place:place + length] * dice.choice([1, 2, 50])
        elif kind == 4: data[place:place] = dice.randbytes(length)
        elif kind == 5: data[place:place + 8] = struct.pack('>q', dice.choice(INTEGERS))
        elif kind == 6: del data[place:]
        elif kind == 7: data[place:place] = dice.choice([b'"', b'\\u0000', b'\\ud800', b'1e999', b'-', b'{', b'[' * 600, b'\xff\xfe', b'\n', b'\r\n\r\n', b'null', b'9' * 30])
        else:
            other = dice.randrange(len(data))
            data[place:place] = data[other:other + length]
    return bytes(data[:most])
