"""What somebody who may write a store, or a replica, does to it."""
import os, re, shutil, sqlite3
from values import INTEGERS, mutated, value

OURS = {
    'historyd_store': ['key', 'value'],
    'historyd_entity': ['shape', 'name', 'definition', 'tracked'],
    'historyd_change': ['id', 'origin', 'kind', 'object', 'detail'],
    'historyd_conflict': ['shape', 'object', 'tombstone', 'at', 'updating', 'k0'],
}
SCHEMA = '''
    PRAGMA journal_mode = WAL;
    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, age INTEGER);
    CREATE TABLE item (code TEXT PRIMARY KEY, price REAL, picture BLOB) WITHOUT ROWID;
    CREATE INDEX person_name ON person (name);
'''


def connect(path):
    for suffix in '-wal', '-shm', '-journal':
        # What an earlier case has put there would hold up, or lead astray, whoever opens it here.
        if os.path.lexists(path + suffix) and (os.path.islink(path + suffix) or not os.path.isfile(path + suffix)): remove(path + suffix)
    connection = sqlite3.connect(f'file:{path}?mode=rw', uri=True, isolation_level=None, timeout=0.05)
    connection.text_factory = bytes
    return connection


def attempt(connection, sql, arguments=()):
    """Runs a statement for as long as an attacker has; its failure is none of ours."""
    steps = [0]
    def progress():
        steps[0] += 1
        return steps[0] > 200
    connection.set_progress_handler(progress, 10_000)
    try: return connection.execute(sql, arguments).fetchmany(50)
    except (sqlite3.Error, OverflowError, ValueError): return []
    finally: connection.set_progress_handler(None, 0)


def touch(connection, dice):
    """Ordinary writes, after which the daemon has something to fetch."""
    for _ in range(dice.choice([1, 1, 3])):
        key = dice.randrange(100)
        attempt(connection, *dice.choice([
            ('INSERT OR REPLACE INTO person (id, name, email) VALUES (?, ?, ?)', (key, 'n', str(key))),
            ('INSERT OR REPLACE INTO item VALUES (?, 1.5, NULL)', (str(key),)),
            ('UPDATE person SET age = ifnull(age, 0) + 1', ()), ('DELETE FROM item', ()),
            ('DELETE FROM person WHERE id = ?', (key,))]))


def rows(dice, path, outside):
    """Our tables' rows: any value in any column, and rows of our making."""
    connection = connect(path)
    try:
        told = []
        for _ in range(dice.choice([1, 1, 2, 5])):
            table = dice.choice(list(OURS) + ['historyd_change', 'historyd_entity'])
            columns = OURS[table]
            column = dice.choice(columns)
            kind = dice.randrange(8)
            some = f'rowid IN (SELECT rowid FROM {table} ORDER BY random() LIMIT 2)' if table != 'historyd_store' \
                else f"key = '{dice.choice(['id', 'format', 'cleaned', 'through', 'floor'])}'"
            if kind < 4: sql, arguments = f'UPDATE OR REPLACE {table} SET {column} = ? WHERE {some}', (value(dice, outside),)
            elif kind == 4: sql, arguments = f'UPDATE OR REPLACE {table} SET {column} = ?', (value(dice, outside),)
            elif kind == 5:
                sql = f'INSERT OR REPLACE INTO {table} ({", ".join(columns)}) VALUES ({", ".join("?" * len(columns))})'
                arguments = tuple(value(dice, outside) for _ in columns)
            elif kind == 6: sql, arguments = f'DELETE FROM {table} WHERE {some}', ()
            else:
                # A row that is good but for one value.
                values = {'id': dice.randrange(1, 10**6), 'origin': 'k\t1\t1700000000000\tA\tc', 'kind': dice.randrange(9),
                          'object': 1, 'detail': None}
                values[dice.choice(list(values))] = value(dice, outside)
                sql, arguments = 'INSERT OR REPLACE INTO historyd_change VALUES (?, ?, ?, ?, ?)', tuple(values.values())
            attempt(connection, sql, arguments)
            told.append((sql, [repr(argument)[:80] for argument in arguments]))
        touch(connection, dice)
        return told
    finally: connection.close()


def schema(dice, path, outside):
    """The schema: its texts, names and roots, and tables of ours that are something else."""
    made = f"{outside}/made{dice.randrange(5)}"
    endings = [
        f"; ATTACH '{outside}/victim.sqlite' AS stolen; CREATE TABLE main.leak AS SELECT * FROM stolen.secret; --",
        f"; ATTACH '{made}' AS stolen; CREATE TABLE stolen.x (y); --", f"; VACUUM INTO '{made}'; --",
        '; PRAGMA writable_schema = ON; DELETE FROM sqlite_schema; --', '; DROP TABLE historyd_replica; --',
        f"; SELECT load_extension('{made}'); --", f"; SELECT writefile('{made}', 'x'); --", ' ; ; ; ', '\x00', ' /*', ' --',
        f" AS SELECT * FROM pragma_table_info('x')", ' STRICT', ' WITHOUT ROWID', ' AUTOINCREMENT', ', UNIQUE (nothing)',
        ", x GENERATED ALWAYS AS (load_extension('x'))", ' COLLATE nothing', ')' * 50, '(' * 3000]
    whole = [
        'CREATE VIEW historyd_change AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, NULL AS origin, 0 AS kind, 1 AS object, NULL AS detail FROM n',
        "CREATE VIEW historyd_entity AS SELECT 1 AS shape, 'person' AS name, '{}' AS definition, 1 AS tracked",
        "CREATE VIEW historyd_store AS SELECT 'id' AS key, 'x' AS value",
        'CREATE VIEW person AS WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 1 AS name, 2 AS email, 3 AS age FROM n',
        'CREATE VIRTUAL TABLE historyd_store USING fts5(key, value)', "CREATE VIRTUAL TABLE person USING fts5(id, name, email, age)",
        'CREATE TABLE historyd_change (id INTEGER PRIMARY KEY, origin, kind GENERATED ALWAYS AS (randomblob(1 << 20)), object, detail)',
        'CREATE TABLE historyd_entity (shape TEXT, name, definition, tracked)', 'CREATE TABLE person (id)',
        'CREATE TABLE person (' + ', '.join(f'c{i} DEFAULT (randomblob(1000))' for i in range(1500)) + ')',
        "CREATE TABLE person (id INTEGER PRIMARY KEY, name AS (json_each('[]')), email CHECK (email IN (SELECT 1)), age)", 'nonsense', '', None]
    triggers = [
        'CREATE TRIGGER t{n} AFTER DELETE ON historyd_change BEGIN SELECT count(*) FROM person a, person b, person c, person d, person e; END',
        'CREATE TRIGGER t{n} BEFORE INSERT ON historyd_change BEGIN SELECT raise(ABORT, \'no\'); END',
        'CREATE TRIGGER t{n} AFTER UPDATE ON historyd_store BEGIN UPDATE historyd_store SET value = hex(randomblob(500000)); END',
        'CREATE TRIGGER t{n} AFTER INSERT ON historyd_entity BEGIN DELETE FROM historyd_entity; END',
        'CREATE TRIGGER t{n} AFTER INSERT ON person BEGIN WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500) INSERT INTO item SELECT hex(randomblob(9)), i, NULL FROM n; END']
    plain = [
        'ALTER TABLE person ADD COLUMN c{n}', 'ALTER TABLE person RENAME TO p{n}', 'ALTER TABLE item RENAME COLUMN price TO "c\n{n}"',
        'DROP TABLE item', 'DROP TABLE historyd_change', 'DROP TABLE historyd_store', 'DROP TABLE historyd_entity', 'DROP TABLE historyd_conflict',
        'CREATE TABLE t{n} (a COLLATE nothing, b DEFAULT (load_extension(1)))', 'CREATE INDEX i{n} ON person (nothing(name))',
        'CREATE INDEX i{n} ON person (name) WHERE age > 1', 'CREATE TABLE "historyd_{n}" (x)', 'PRAGMA user_version = {n}',
        "CREATE TABLE \"a'b\"\"{n}\" (\"x'\"\"y\" PRIMARY KEY)", 'VACUUM', 'PRAGMA encoding = "UTF-16"', 'PRAGMA journal_mode = DELETE', 'PRAGMA journal_mode = WAL']
    connection = connect(path)
    try:
        told = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            kind, number = dice.randrange(8), dice.randrange(10_000)
            name = dice.choice(['person', 'item', 'person_name', *OURS, *OURS])
            attempt(connection, 'PRAGMA writable_schema = ON')
            if kind == 0: sql, arguments = 'UPDATE sqlite_schema SET sql = sql || ? WHERE name = ?', (dice.choice(endings), name)
            elif kind == 1: sql, arguments = 'UPDATE sqlite_schema SET sql = ? WHERE name = ?', (dice.choice(whole), name)
            elif kind == 2:
                column = dice.choice(['type', 'name', 'tbl_name', 'rootpage'])
                sql, arguments = f'UPDATE sqlite_schema SET {column} = ? WHERE name = ?', (dice.choice([value(dice, outside), dice.randrange(20), 'view', 'trigger']), name)
            elif kind == 3:
                row = connection.execute('SELECT sql FROM sqlite_schema ORDER BY random() LIMIT 1').fetchone() if not attempt(connection, 'SELECT 1 WHERE 0') else None
                text = mutated(dice, (row and row[0]) or b'CREATE TABLE x (y)')
                sql, arguments = 'UPDATE sqlite_schema SET sql = CAST(? AS TEXT) WHERE name = ?', (text, name)
            elif kind == 4: sql, arguments = dice.choice(triggers).format(n=number), ()
            elif kind == 5:
                sql = "UPDATE sqlite_schema SET sql = sql || ? WHERE type = 'trigger' AND name LIKE 'historyd%'"
                arguments = (dice.choice(endings),)
            elif kind == 6: sql, arguments = "UPDATE sqlite_schema SET type = 'view', rootpage = 0, sql = ? WHERE name = ?", (dice.choice(whole[:4]), name)
            else: sql, arguments = dice.choice(plain).format(n=number), ()
            attempt(connection, sql, arguments)
            attempt(connection, f'PRAGMA schema_version = {dice.randrange(1, 2**31)}')
            told.append((sql[:300], [repr(argument)[:300] for argument in arguments]))
        connection.close()
        connection = connect(path)
        touch(connection, dice)
        return told
    except sqlite3.Error as error: return [repr(error)]
    finally: connection.close()


def pages(dice, path, outside):
    """Raw bytes, of the file itself or its -wal, in place or cut short."""
    name = path + dice.choice(['', '', '', '-wal', '-shm'])
    if os.path.islink(name) or not os.path.isfile(name): name = path
    told = []
    with open(name, 'r+b') as file:
        size = os.fstat(file.fileno()).st_size
        for _ in range(dice.choice([1, 1, 3, 20])):
            if not size: break
            # The header, the start of a page, or anywhere.
            place = min(size - 1, dice.choice([dice.randrange(100), dice.randrange(size // 4096 + 1) * 4096 + dice.randrange(30), dice.randrange(size)]))
            data = dice.choice([dice.randbytes(1), b'\xff' * 4, b'\x00' * 8, dice.randbytes(16), dice.choice(INTEGERS).to_bytes(8, 'big', signed=True)])
            file.seek(place)
            file.write(data)
            told.append((place, data.hex()))
        # What is cut off the -shm is gone from the memory of every process that has mapped it.
        isMapped = name.endswith('-shm')
        if not dice.randrange(2 if isMapped else 10):
            file.truncate(dice.choice([0, 4096, 8192, size // 2]) if isMapped else dice.randrange(size + 5000))
            told.append('cut')
    if isMapped and os.path.isfile(path + '-wal') and not os.path.islink(path + '-wal'):
        # The same byte again, so that it is looked at.
        with open(path + '-wal', 'r+b') as file:
            byte = file.read(1)
            file.seek(0)
            file.write(byte)
    if dice.randrange(2):
        try:
            connection = connect(path)
            try: touch(connection, dice)
            finally: connection.close()
        except sqlite3.Error: pass
    return told


def replaced(dice, path, outside):
    """Another file in its place, or none."""
    kind = dice.randrange(7)
    if kind == 6:
        # Something else in the place of a journal.
        name = path + dice.choice(['-wal', '-shm', '-journal'])
        remove(name)
        dice.choice([os.mkfifo, os.mkdir, lambda name: os.symlink(f'{outside}/{dice.choice(["made", "secret"])}', name), lambda name: open(name, 'wb').write(dice.randbytes(5000))])(name)
        return [name]
    for suffix in '-wal', '-shm':
        if os.path.exists(path + suffix) and dice.randrange(2): os.unlink(path + suffix)
    if kind == 0: os.unlink(path)
    elif kind == 1: open(path, 'wb').write(dice.randbytes(dice.choice([0, 1, 100, 5000])))
    elif kind == 2: os.truncate(path, dice.choice([0, 1, 99, 4096, 5000]))
    elif kind == 3: open(path, 'r+b').write(b'SQLite format 3\x00' + dice.randbytes(84))
    elif kind == 4:
        os.unlink(path)
        os.mkfifo(path)
    else:
        os.unlink(path)
        os.mkdir(path)
    return [kind]


def replica(dice, path, outside):
    """A replica's file: its bytes, its tables and rows, and what is at its path."""
    if not os.path.isfile(path): return ['absent']
    kind = dice.randrange(5)
    if kind < 2: return pages(dice, path, outside)
    if kind == 4:
        if dice.randrange(2): return replaced(dice, path, outside)
        os.unlink(path)
        os.symlink(f'{outside}/{dice.choice(["made-by-link", "victim.sqlite", "secret"])}', path)
        return ['link']
    connection = connect(path)
    try:
        told = []
        tables = [name.decode() for name, in attempt(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")] or ['historyd_replica']
        for _ in range(dice.choice([1, 2, 4])):
            table = dice.choice(tables)
            columns = [row[1].decode() for row in attempt(connection, f'PRAGMA table_info("{table}")')] or ['x']
            sql, arguments = dice.choice([
                (f'UPDATE "{table}" SET "{dice.choice(columns)}" = ?', (value(dice, outside),)),
                (f'DELETE FROM "{table}"', ()), (f'DROP TABLE "{table}"', ()), (f'ALTER TABLE "{table}" ADD COLUMN c{dice.randrange(9)}', ()),
                (f'INSERT INTO "{table}" SELECT * FROM "{table}"', ()),
                (f'CREATE TRIGGER t{dice.randrange(9)} AFTER INSERT ON "{table}" BEGIN SELECT raise(ABORT, 1); END', ()),
                (f'CREATE TRIGGER t{dice.randrange(9)} BEFORE DELETE ON "{table}" BEGIN WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n; END', ())])
            attempt(connection, sql, arguments)
            told.append((sql, [repr(argument)[:80] for argument in arguments]))
        return told
    finally: connection.close()


def remove(path):
    for suffix in '', '-wal', '-shm', '-journal':
        name = path + suffix
        if os.path.isdir(name) and not os.path.islink(name): shutil.rmtree(name)
        elif os.path.lexists(name): os.unlink(name)
