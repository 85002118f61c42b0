#!/usr/bin/python3
"""Torments a daemon for a while, and ends with one table of what became of it.

    torture.py HISTORYD LIBHISTORY SECONDS [SEED]

Three writers commit all the time, three consumers
are told of it by a plugin, a program by a feed, one consumer keeps a replica that a reader watches, one has
nothing but a hook and rests between what concerns it, one has no hook at all, and
history is cleaned every second. Meanwhile the daemon, its plugins, the writers and the feed's program are killed, the disk is filled, the
store is locked, moved away, and restored from a backup; the plugin refuses calls, the configuration is read again,
all is held for a while, an undeclared writer writes much at once, and the state is lost. In the end all that is in the store must have
been delivered, the replica must equal the store, and nobody's history must have been deleted.
"""
import http.client, json, os, random, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, time

PLUGIN = r'''#!/usr/bin/python3
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
for line in sys.stdin:
    request = json.loads(line)
    params = request['params']
    if os.path.exists(folder + '/refuse'):
        print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'error': {'code': 1, 'message': 'not now'}}), flush=True)
        continue
    if request['method'] == 'observe':
        words = [str(context['objectID']['id']) for context in params['contexts']]
    else:
        words = [params['reason'], str(params['lost']), params['after']]
    file = os.open(f"{folder}/{request['method']}-{params['consumer']}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (' '.join(words) + '\n').encode())
    os.close(file)
    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': None}), flush=True)
'''

WRITER = r'''
import os, random, sqlite3, sys, time
store, extension, author, number, running = sys.argv[1:]
dice = random.Random(int(number))
while os.path.exists(running):
    connection = sqlite3.connect(f'file:{store}?mode=rw', uri=True, isolation_level=None, timeout=5)
    try:
        connection.enable_load_extension(True)
        connection.load_extension(extension)
        connection.execute('SELECT history_author(?)', (author,)).fetchall()
        while os.path.exists(running):
            connection.execute('BEGIN IMMEDIATE')
            # Whoever sees half a transaction sees another sum than zero.
            # Some transactions are of no concern to whoever wants entries.
            if dice.randrange(3): connection.execute('INSERT INTO entry VALUES (?, ?)', (dice.getrandbits(62), author))
            connection.execute('UPDATE balance SET n = n + 1 WHERE id = ?', (dice.randrange(4),))
            connection.execute('UPDATE balance SET n = n - 1 WHERE id = ?', (dice.randrange(4),))
            connection.execute('COMMIT' if dice.randrange(20) else 'ROLLBACK')
            time.sleep(dice.random() / 100)
    except sqlite3.Error:
        time.sleep(0.05)
    finally:
        connection.close()
'''

FEED = r'''
import http.client, json, os, socket, sys, time
path, folder = sys.argv[1:]
feed = 'consumer=Main&context=live'
def ask(method, request):
    connection = http.client.HTTPConnection('localhost')
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request(method, request)
    answer = connection.getresponse()
    # What could not be acknowledged comes again.
    if answer.status != 200: raise OSError(answer.read())
    return answer
def note(name, words):
    file = os.open(f'{folder}/{name}-Feed', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (' '.join(words) + '\n').encode())
    os.close(file)
while True:
    try:
        for line in ask('GET', '/v1/feed?' + feed):
            message = json.loads(line)
            if 'expired' in message:
                expired = message['expired']
                note('expired', [expired['reason'], str(expired['lost']), expired['after']])
                done = expired['after']
            elif 'token' in message:
                done = message['token']
                note('observe', [str(o['objectID']['id']) for o in message['insertedObjectIDs'] if o['entityName'] == 'entry'])
            else: continue
            ask('POST', f'/v1/feed/acknowledge?{feed}&token={done}').read()
    except (OSError, ValueError, http.client.HTTPException): pass
    time.sleep(0.02)
'''

READER = r'''
import os, sqlite3, sys, time
replica, running, seen = sys.argv[1:]
half = reads = 0
while os.path.exists(running):
    try:
        connection = sqlite3.connect(f'file:{replica}?mode=rw', uri=True, isolation_level=None, timeout=5)
        for _ in range(50):
            total = connection.execute('SELECT sum(n) FROM balance').fetchone()[0]
            reads += 1
            if total not in (None, 0): half += 1
            time.sleep(0.005)
        connection.close()
    except sqlite3.Error:
        time.sleep(0.05)
open(seen, 'w').write(f'{reads} {half}')
'''


class Torture:
    # Who is told of entries, each in files of its own.
    told = 'Main', 'Mirror', 'Rester', 'Feed'

    def __init__(self, historyd, extension, seed):
        self.historyd, self.extension = os.path.abspath(historyd), os.path.abspath(extension)
        self.dice = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix='historyd-torture-')
        self.disk, self.mounted = self.folder + '/disk', False
        os.mkdir(self.disk)
        self.store, self.replica = self.disk + '/store.sqlite', self.disk + '/replica.sqlite'
        self.writing, self.reading = self.folder + '/writing', self.folder + '/reading'
        self.daemon, self.writers, self.number = None, {}, seed
        self.log = open(self.folder + '/log', 'ab')
        self.counts, self.skipped, self.lost_to_restore = {}, {}, set()

    # What takes part

    def prepare(self):
        tmpfs = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', self.disk], capture_output=True)
        self.mounted = tmpfs.returncode == 0
        if not self.mounted: self.skipped['disk filled'] = 'no file system may be mounted (root is needed)'
        connection = self.connect()
        connection.executescript('''
            PRAGMA journal_mode = WAL;
            CREATE TABLE entry (id INTEGER PRIMARY KEY, author TEXT);
            CREATE TABLE balance (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE INDEX entry_author ON entry (author);
            INSERT INTO balance VALUES (0, 0), (1, 0), (2, 0), (3, 0);
        ''')
        connection.close()
        writers = [f'Writer{n}' for n in range(3)]
        self.write('plugin', PLUGIN, 0o755)
        self.configure()
        self.start_daemon()
        self.wait('the first start', lambda: os.path.exists(self.replica) and self.cursors())
        self.start_writers(writers)
        self.start_listener()
        open(self.reading, 'w').close()
        self.reader = subprocess.Popen([sys.executable, '-c', READER, self.replica, self.reading, self.folder + '/seen'])

    def configure(self):
        hooks = [{'name': name, 'kind': 'observer', 'entity': 'entry', 'operation': 'insert', 'consumer': name}
                 for name in self.told if name != 'Feed']
        self.dice.shuffle(hooks)
        self.write('historyd.json', json.dumps({
            'version': 1, 'plugins': [self.folder + '/plugins.json'],
            'stores': [{
                'name': 'store', 'path': self.store, 'entities': {'entry': {}, 'balance': {}},
                'authors': [{'name': 'Main', 'contexts': [{'name': 'live', 'kind': 'feed', 'window': 20}]},
                            {'name': 'Mirror', 'contexts': [{'name': 'view', 'kind': 'replica', 'path': self.replica}]},
                            {'name': 'Rester'}, {'name': 'Idle'}]
                           + [{'name': f'Writer{n}', 'batch': True} for n in range(3)],
                # With another store's configuration the store is begun again.
                'clean': {'strategy': 'byDuration', 'seconds': self.dice.choice(['1s', '1100ms'])}}]}))
        self.write('plugins.json', json.dumps({'version': 1, 'plugins': [{
            'name': 'torture', 'command': [self.folder + '/plugin'], 'mode': 'coprocess',
            'timeout': self.dice.choice(['20s', '21s']),
            'retry': {'attempts': 3, 'initialDelay': '50ms', 'maximumDelay': '500ms'},
            'hooks': hooks}]}))

    def write(self, name, text, mode=0o644):
        with open(f'{self.folder}/{name}', 'w') as file: file.write(text)
        os.chmod(f'{self.folder}/{name}', mode)

    def connect(self, path=None):
        return sqlite3.connect(path or self.store, isolation_level=None, timeout=60)

    def start_daemon(self):
        if self.daemon and self.daemon.poll() is None: return
        environment = dict(os.environ, STATE_DIRECTORY=self.disk + '/state', RUNTIME_DIRECTORY=self.folder)
        os.makedirs(self.disk + '/state', exist_ok=True)
        self.daemon = subprocess.Popen(
            [self.historyd, '--config', self.folder + '/historyd.json'],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment)

    def start_writers(self, names):
        open(self.writing, 'w').close()
        for name in names:
            self.number += 1
            self.writers[name] = subprocess.Popen(
                [sys.executable, '-c', WRITER, self.store, self.extension, name, str(self.number), self.writing])

    def start_listener(self):
        self.listener = subprocess.Popen([sys.executable, '-c', FEED, self.folder + '/control.sock', self.folder])

    def stop_writers(self):
        os.unlink(self.writing)
        for writer in self.writers.values(): writer.wait()

    # What happens to it

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        time.sleep(self.dice.random() / 2)
        self.start_daemon()

    def kill_plugins(self):
        with open(f'/proc/{self.daemon.pid}/task/{self.daemon.pid}/children') as file: children = file.read().split()
        for thread in os.listdir(f'/proc/{self.daemon.pid}/task'):
            with open(f'/proc/{self.daemon.pid}/task/{thread}/children') as file: children += file.read().split()
        for child in set(children): os.kill(int(child), signal.SIGKILL)

    def kill_writer(self):
        name = self.dice.choice(list(self.writers))
        self.writers[name].kill()
        self.writers[name].wait()
        self.start_writers([name])

    def kill_listener(self):
        self.listener.kill()
        self.listener.wait()
        time.sleep(self.dice.random() / 2)
        self.start_listener()

    def lock_store(self):
        connection = self.connect()
        connection.execute('BEGIN EXCLUSIVE' if self.dice.randrange(2) else 'BEGIN IMMEDIATE')
        time.sleep(self.dice.random())
        connection.execute('ROLLBACK')
        connection.close()

    def fill_disk(self):
        if not self.mounted: return
        with open(self.disk + '/filler', 'wb', buffering=0) as file:
            try:
                while True: file.write(bytes(65536))
            except OSError: pass
        time.sleep(0.5 + self.dice.random())
        os.unlink(self.disk + '/filler')

    def move_store(self):
        self.stop_writers()
        def move(source, target):
            for suffix in '', '-wal', '-shm':
                if os.path.exists(source + suffix): os.rename(source + suffix, target + suffix)
        move(self.store, self.disk + '/away.sqlite')
        time.sleep(self.dice.random())
        move(self.disk + '/away.sqlite', self.store)
        self.start_writers(list(self.writers))

    def restore_store(self):
        """Takes a backup when all are level, lets more be written, and puts the backup in its place."""
        self.stop_writers()
        self.level()
        backup = self.disk + '/backup.sqlite'
        connection = self.connect()
        connection.execute('VACUUM INTO ?', (backup,))
        connection.close()
        connection = self.connect(backup)
        # A copy made so has another journal mode; half of the time it keeps that.
        if self.dice.randrange(2): connection.execute('PRAGMA journal_mode = WAL')
        connection.close()
        kept = self.entries(backup)
        self.start_writers(list(self.writers))
        time.sleep(0.3)
        self.stop_writers()
        self.level()
        told = [len(self.lines(f'expired-{consumer}')) for consumer in self.told]
        if self.entries() == kept: return self.start_writers(list(self.writers))
        self.lost_to_restore |= self.entries() - kept
        for suffix in '-wal', '-shm':
            if os.path.exists(self.store + suffix): os.unlink(self.store + suffix)
        os.rename(backup, self.store)
        self.wait('the consumers to be told', lambda: all(
            len(self.lines(f'expired-{consumer}')) > count for consumer, count in zip(self.told, told)))
        self.start_writers(list(self.writers))

    def lose_state(self):
        self.daemon.kill()
        self.daemon.wait()
        for name in os.listdir(self.disk + '/state'):
            if '.sqlite' in name: os.unlink(f'{self.disk}/state/{name}')
        self.start_daemon()

    def refuse_calls(self):
        open(self.folder + '/refuse', 'w').close()
        time.sleep(self.dice.random())
        if self.dice.randrange(2): self.kill_daemon()
        os.unlink(self.folder + '/refuse')

    def reload(self):
        self.configure()
        self.daemon.send_signal(signal.SIGHUP)

    def hold(self):
        def post(verb):
            connection = http.client.HTTPConnection('localhost', timeout=60)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.folder + '/control.sock')
            connection.request('POST', f'/v1/{verb}')
            connection.getresponse().read()
            connection.close()
        post('pause')
        time.sleep(self.dice.random())
        # A hold does not outlive the daemon.
        if self.dice.randrange(2): self.kill_daemon()
        else: post('resume')

    def write_much(self):
        connection = self.connect()
        connection.execute('WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5500) '
                           'INSERT INTO entry SELECT random(), NULL FROM c')
        connection.close()

    # What became of it

    def lines(self, name):
        try:
            with open(f'{self.folder}/{name}') as file: return file.read().splitlines()
        except FileNotFoundError: return []

    def entries(self, path=None):
        connection = self.connect(path)
        try: return {row[0] for row in connection.execute('SELECT id FROM entry')}
        finally: connection.close()

    def cursors(self):
        states = [name for name in os.listdir(self.disk + '/state') if name.endswith('.sqlite')]
        if not states: return []
        connection = self.connect(f'{self.disk}/state/{states[0]}')
        try: return [row[0] for row in connection.execute('SELECT position FROM cursor UNION ALL SELECT position FROM feed')]
        except sqlite3.OperationalError: return []
        finally: connection.close()

    def newest(self):
        connection = self.connect()
        try: return connection.execute('SELECT max(id) FROM historyd_change').fetchone()[0]
        finally: connection.close()

    def shown(self):
        connection = self.connect(self.replica)
        try: return connection.execute('SELECT number FROM historyd_replica').fetchone()[0]
        except (sqlite3.OperationalError, TypeError): return None
        finally: connection.close()

    def wait(self, what, holds, limit=120):
        end = time.monotonic() + limit
        while not holds():
            self.start_daemon()
            if time.monotonic() > end:
                self.log.flush()
                print(open(self.folder + '/log').read()[-6000:], file=sys.stderr)
                sys.exit(f'torture: waited {limit} s for {what}')
            time.sleep(0.02)

    def level(self):
        self.wait('all to be level', lambda: set(self.cursors()) == {self.newest()} and self.shown() == self.newest())

    def run(self, seconds):
        kinds = {'state lost': self.lose_state, 'calls refused': self.refuse_calls, 'configuration read again': self.reload,
                 'passes held': self.hold, 'much written undeclared': self.write_much, 'daemon killed': self.kill_daemon, 'plugins killed': self.kill_plugins,
                 'writer killed': self.kill_writer, 'feed\'s program killed': self.kill_listener, 'store locked': self.lock_store, 'disk filled': self.fill_disk,
                 'store moved away and back': self.move_store, 'store restored': self.restore_store}
        bag = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not bag: bag = self.dice.sample(list(kinds), len(kinds))
            kind = bag.pop()
            if kind in self.skipped: continue
            time.sleep(self.dice.random())
            self.start_daemon()
            try: kinds[kind]()
            except (FileNotFoundError, ProcessLookupError) if kind == 'plugins killed' else () : continue
            # A disk is full, or the daemon is not there yet.
            except (OSError, http.client.HTTPException) if kind == 'passes held' else (): continue
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self.stop_writers()
        self.start_daemon()
        self.level()
        os.unlink(self.reading)
        self.reader.wait()
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()

    def table(self):
        store, replica = self.connect(), self.connect(self.replica)
        def rows(connection): return [connection.execute(f'SELECT * FROM {name} ORDER BY 1').fetchall() for name in ('entry', 'balance')]
        equal = rows(store) == rows(replica)
        left = store.execute("SELECT count(*) FROM historyd_change WHERE kind & 3 <> 3").fetchone()[0]
        newest = self.newest()
        store.close(), replica.close()
        present, sums = self.entries(), [0, 0, 0]
        for consumer in self.told:
            calls = [int(word) for line in self.lines(f'observe-{consumer}') for word in line.split()]
            sums = [a + b for a, b in zip(sums, (len(set(calls)), len(calls) - len(set(calls)), len(present - set(calls))))]
        passed = [line for consumer in self.told for line in self.lines(f'expired-{consumer}')
                  # Whose place is lost with the state begins where history does.
                  if line.split()[0] not in ('restored', 'late' if 'state lost' in self.counts else '')]
        reads, half = open(self.folder + '/seen').read().split()
        written = len(present | self.lost_to_restore)
        for kind, count in sorted(self.counts.items()): print(f'{kind:<34}{count:>10}')
        for kind, reason in self.skipped.items(): print(f'{kind:<34}{"skipped":>10}  {reason}')
        print(f'{"transactions written":<34}{written:>10}')
        print(f'{"delivered, to three and a feed":<34}{sums[0]:>10}')
        print(f'{"repeated":<34}{sums[1]:>10}')
        print(f'{"lost":<34}{sums[2]:>10}')
        print(f'{"replica equal":<34}{"yes" if equal else "NO":>10}')
        print(f'{"half transactions in the replica":<34}{half:>10}  of {reads} reads')
        print(f'{"cleanup safe":<34}{"yes" if not passed else "NO":>10}  {newest - left} of {newest} changes deleted')
        return sums[2] == 0 and equal and not passed and half == '0' and sums[0] >= len(self.told) * len(present) and left < newest

    def end(self):
        for program in [self.daemon, getattr(self, 'reader', None), getattr(self, 'listener', None), *self.writers.values()]:
            if program and program.poll() is None:
                program.kill()
                program.wait()
        self.log.close()
        if self.mounted: subprocess.run(['umount', '--lazy', self.disk])
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == '__main__':
    historyd, extension, seconds = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1_000_000)
    print(f'torture: {seconds} s, seed {seed}', flush=True)
    # Told to end, it still leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('torture: told to end'))
    torture = Torture(historyd, extension, seed)
    try:
        torture.prepare()
        torture.run(float(seconds))
        good = torture.table()
    finally:
        torture.end()
    sys.exit(0 if good else 1)
