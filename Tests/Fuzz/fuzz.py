#!/usr/bin/python3
"""Attacks one running daemon with many mutated files and messages.

    fuzz.py HISTORYD HISTORYCTL [--cases N] [--seed S] [--limit SECONDS] [--only KIND,KIND]

The daemon runs as a user of its own. It serves some stores that are mutated all the time, and a witness that is
not. After each round of cases the witness's hook must be called for a commit, and the control socket must answer.
At the end, and now and then, SIGTERM must end the daemon with 0, and a new one must come up with all that
lies there. Nothing may change outside the folders that are the daemon's, its memory is bounded, and nobody reads
its NOTIFY_SOCKET.

Each case has a number and dice of its own, thrown by seed and number. Where a property does not hold, the
cases of the last rounds and the files are kept, and their folder is printed.
"""
import argparse, collections, hashlib, json, os, random, re, shutil, signal, socket, subprocess, sys, tempfile, time
import messages, stores

USER = 54321
AS_USER = ['setpriv', f'--reuid={USER}', f'--regid={USER}', '--clear-groups']
SLOTS = 6
# What one daemon may have held at most.
MEMORY = 400 << 20

PLUGIN = r'''#!/usr/bin/python3
import json, os, sys
out, name = sys.argv[1:]
def seen(params):
    file = os.open(f'{out}/seen', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for context in params['contexts']: os.write(file, f"{context['objectID']['id']}\n".encode())
    os.close(file)
for line in sys.stdin.buffer:
    request = json.loads(line)
    answer = b'{"jsonrpc":"2.0","id":ID,"result":null}\n'
    if name == 'witness': seen(request['params'])
    else:
        try: answer = open(f'{out}/answer', 'rb').read()
        except OSError: pass
    try:
        sys.stdout.buffer.write(answer.replace(b'ID', str(request['id']).encode()))
        sys.stdout.buffer.flush()
    except OSError: break
'''


class Failure(Exception): pass


class Fuzz:
    def __init__(self, options):
        self.options, self.dice = options, random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix='historyd-fuzz-')
        os.chmod(self.folder, 0o755)
        self.outside, self.work = self.folder + '/outside', self.folder + '/work'
        self.log = open(self.folder + '/log', 'ab')
        self.daemon, self.marker, self.counts = None, 0, collections.Counter()
        self.slowest, self.memory, self.starts, self.recent = 0.0, 0, 0, collections.deque(maxlen=4 * SLOTS)

    # What takes part

    def path(self, *names): return '/'.join([self.folder, *names])
    def store(self, slot): return self.path('stores', f'victim{slot}.sqlite')
    def replica(self, slot): return self.path('replicas', f'view{slot}.sqlite')

    def prepare(self):
        # Built in somebody's home, it is out of this user's reach.
        if subprocess.run([*AS_USER, 'test', '-x', self.options.historyd]).returncode != 0:
            self.options.historyd = shutil.copy(self.options.historyd, self.path('historyd'))
            os.chmod(self.options.historyd, 0o755)
        for name in 'stores', 'replicas', 'state', 'run', 'out', 'outside', 'outside/empty', 'witness':
            os.mkdir(self.path(name))
            os.chown(self.path(name), USER, USER)
        for name in 'work', 'config': os.mkdir(self.path(name))
        os.chmod(self.work, 0o700)
        # What must stay as it is, although the daemon's user may write it.
        victim = stores.sqlite3.connect(self.outside + '/victim.sqlite')
        victim.executescript("CREATE TABLE secret (text); INSERT INTO secret VALUES ('password'); CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)")
        victim.close()
        open(self.outside + '/secret', 'w').write('password')
        for name in 'victim.sqlite', 'secret': os.chown(f'{self.outside}/{name}', USER, USER)
        for slot in range(SLOTS): self.make(self.path('work', f'template{slot}.sqlite'))
        self.make(self.path('witness', 'witness.sqlite'))
        os.chown(self.path('witness', 'witness.sqlite'), USER, USER)
        for slot in range(SLOTS): self.restore(slot)
        open(self.path('config', 'plugin.py'), 'w').write(PLUGIN)
        self.write_configuration()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(self.path('run', 'notify'))
        os.chown(self.path('run', 'notify'), USER, USER)
        self.start()
        self.expected = self.listing()

    def make(self, path):
        connection = stores.sqlite3.connect(path)
        connection.executescript(stores.SCHEMA)
        connection.close()
        subprocess.run([self.options.historyctl, 'track', path, '--all', '--preserve', 'person.name'], check=True, stdout=subprocess.DEVNULL)
        connection = stores.sqlite3.connect(path)
        for number in range(20): connection.execute('INSERT INTO person (name) VALUES (?)', (f'n{number}',)).connection.commit()
        connection.close()

    def restore(self, slot):
        stores.remove(self.store(slot))
        shutil.copyfile(self.path('work', f'template{slot}.sqlite'), self.work + '/new')
        os.chown(self.work + '/new', USER, USER)
        os.rename(self.work + '/new', self.store(slot))

    def configuration(self):
        def store(name, path, slot=None):
            main = {'name': 'Main'}
            if slot is not None:
                main['contexts'] = [{'name': 'view', 'kind': 'replica', 'path': self.replica(slot)}, {'name': 'live', 'kind': 'feed'}]
            return {'name': name, 'path': path, 'entities': {'person': {'preserve': ['name']}, 'item': {}}, 'authors': [main, {'name': 'Other'}],
                    'clean': {'strategy': 'byDuration', 'seconds': '1s'}}
        return {'version': 1, 'plugins': [self.path('config', 'plugins.json')], 'logLevel': 'info',
                'stores': [store('witness', self.path('witness', 'witness.sqlite'))] + [store(f'victim{slot}', self.store(slot), slot) for slot in range(SLOTS)]}

    def manifest(self):
        def plugin(name, hooks):
            return {'name': name, 'command': [sys.executable, self.path('config', 'plugin.py'), self.path('out'), name], 'mode': 'coprocess', 'timeout': '500ms' if name == 'victim' else '60s',
                    'retry': {'attempts': 2, 'initialDelay': '10ms', 'maximumDelay': '50ms'}, 'onFailure': 'skip', 'hooks': hooks}
        return {'version': 1, 'plugins': [
            plugin('witness', [{'name': 'w', 'kind': 'observer', 'store': 'witness', 'consumer': 'Main', 'entity': 'person', 'operation': 'insert'}]),
            plugin('victim', [hook for slot in range(SLOTS) for hook in (
                {'name': f'o{slot}', 'kind': 'observer', 'store': f'victim{slot}', 'consumer': 'Other'},
                {'name': f'm{slot}', 'kind': 'merge', 'store': f'victim{slot}', 'consumer': 'Other'})])]}

    def write_configuration(self):
        for name, content in ('historyd.json', self.configuration()), ('plugins.json', self.manifest()):
            with open(self.path('config', name), 'w') as file: json.dump(content, file)

    def start(self):
        environment = dict(STATE_DIRECTORY=self.path('state'), RUNTIME_DIRECTORY=self.path('run'), NOTIFY_SOCKET=self.path('run', 'notify'),
                           PATH=os.environ['PATH'], SWIFT_BACKTRACE='enable=no')
        begin = os.fstat(self.log.fileno()).st_size
        self.daemon = subprocess.Popen(
            [*AS_USER, self.options.historyd, '--config', self.path('config', 'historyd.json')],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment, cwd='/')
        self.starts += 1
        def ready():
            with open(self.path('log'), 'rb') as file:
                file.seek(begin)
                return b'event=ready' in file.read()
        self.wait('the daemon to be ready', ready, 120)

    # What must hold

    def wait(self, what, holds, limit):
        end = time.monotonic() + limit
        while not holds():
            if self.daemon.poll() is not None: raise Failure(f'the daemon ended with {self.daemon.returncode} while waiting for {what}')
            if time.monotonic() > end: raise Failure(f'waited {limit} s for {what}')
            time.sleep(0.002)

    def check_served(self):
        """The witness's hook is called for a commit, and the control socket answers."""
        self.marker += 1
        connection = stores.sqlite3.connect(self.path('witness', 'witness.sqlite'), timeout=60)
        connection.execute('INSERT INTO person (id) VALUES (?)', (1_000_000 + self.marker,)).connection.commit()
        start = time.monotonic()
        connection.close()
        seen, wanted = self.path('out', 'seen'), f'{1_000_000 + self.marker}\n'.encode()
        def served():
            with open(seen, 'rb') as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 100))
                return wanted in file.read()
        self.wait('the witness to be served', lambda: os.path.exists(seen) and served(), max(self.options.limit, 60))
        taken = time.monotonic() - start
        self.slowest = max(self.slowest, taken)
        if taken > self.options.limit: raise Failure(f'the witness was served after {taken:.2f} s')

    def check_answers(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(max(self.options.limit, 60))
        try:
            connection.connect(self.path('run', 'control.sock'))
            connection.sendall(b'GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n')
            answer = b''
            while part := connection.recv(1 << 16): answer += part
        except OSError as error: raise Failure(f'the control socket does not answer: {error}')
        finally: connection.close()
        if not answer.startswith(b'HTTP/1.1 200'): raise Failure(f'the control socket answers {answer[:200]}')

    def check_memory(self):
        with open(f'/proc/{self.daemon.pid}/status') as file: peak = int(re.search(r'VmHWM:\s+(\d+)', file.read())[1]) << 10
        self.memory = max(self.memory, peak)
        if peak > MEMORY: raise Failure(f'the daemon has held {peak >> 20} MiB')

    def listing(self):
        """All that is not the daemon's to change: names, owners, modes, and what files hold."""
        found = {}
        for top, folders, files in os.walk(self.folder):
            inside = os.path.relpath(top, self.folder)
            if inside == '.': folders[:] = [name for name in folders if name not in ('work', 'out', 'state', 'replicas')]
            for name in folders + files:
                path, key = f'{top}/{name}', f'{inside}/{name}'
                status = os.lstat(path)
                if inside == 'stores' and re.fullmatch(r'victim\d\.sqlite(-wal|-shm|-journal)?', name): continue
                if inside == 'witness' or key in ('./log', 'run/control.sock'): continue
                found[key] = (status.st_mode, status.st_uid, status.st_gid)
                if name not in folders and not os.path.islink(path) and os.path.isfile(path):
                    found[key] += (hashlib.sha256(open(path, 'rb').read()).hexdigest(),)
        return found

    def check_outside(self):
        now = self.listing()
        different = [key for key in sorted(set(now) | set(self.expected)) if now.get(key) != self.expected.get(key)]
        if different: raise Failure(f'changed outside: {different}')

    def stop(self):
        self.daemon.send_signal(signal.SIGTERM)
        try: status = self.daemon.wait(60)
        except subprocess.TimeoutExpired: raise Failure('SIGTERM did not end the daemon')
        if status != 0: raise Failure(f'SIGTERM ended the daemon with {status}')

    # Cases

    def case(self, number):
        dice = random.Random(f'{self.options.seed}:{number}')
        kind = dice.choice(self.options.kinds)
        slot = number % SLOTS
        path = self.replica(slot) if kind == 'replicas' else self.store(slot)
        if kind in ('rows', 'schema', 'pages', 'replaced') and not os.path.isfile(path): self.restore(slot)
        # What is written here must not go through a link that an earlier case has laid.
        if kind == 'replicas' and (os.path.islink(path) or dice.randrange(3) == 0): stores.remove(path)
        self.recent.append([number, kind, slot, 'begun'])
        try: self.recent[-1][3] = repr(getattr(self, kind)(dice, path))[:4000]
        except (OSError, stores.sqlite3.Error) as error: self.recent[-1][3] = repr(error)
        # Who has the rights to write a file does so as its owner. A link is another user's, who may write the folder.
        for suffix in '', '-wal', '-shm', '-journal':
            if os.path.lexists(path + suffix): os.lchown(path + suffix, USER + os.path.islink(path + suffix), USER)
        self.counts[kind] += 1

    def rows(self, dice, path): return stores.rows(dice, path, self.outside)
    def schema(self, dice, path): return stores.schema(dice, path, self.outside)
    def pages(self, dice, path): return stores.pages(dice, path, self.outside)
    def replaced(self, dice, path): return stores.replaced(dice, path, self.outside)

    def replicas(self, dice, path):
        told = stores.replica(dice, path, self.outside)
        # It is looked at when there is something to merge.
        slot = int(path[-len('0.sqlite')])
        if not os.path.isfile(self.store(slot)): self.restore(slot)
        connection = stores.connect(self.store(slot))
        try: stores.touch(connection, dice)
        finally: connection.close()
        return told

    def control(self, dice, path):
        """As a member of the group: who may steer is trusted with what it asks for."""
        data = messages.request(dice, self.outside)
        answer = self.member(data, dice)
        return data[:300], answer[:100]

    def member(self, data, dice):
        os.setegid(USER)
        os.seteuid(USER + 1)
        try: return messages.send(self.path('run', 'control.sock'), data, dice)
        finally:
            os.seteuid(0)
            os.setegid(0)

    def manifest_added(self, dice, path):
        """As root: a manifest that is wrong does no harm, and what it adds can be removed."""
        body = messages.mutated(dice, json.dumps(messages.manifest(dice)).encode())
        answer = messages.send(self.path('run', 'control.sock'), b'POST /v1/hooks HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n' % len(body) + body, random.Random(1))
        if b'"id"' in answer:
            for found in re.findall(rb'"id":"([0-9A-Fa-f-]{36})"', answer):
                messages.send(self.path('run', 'control.sock'), b'DELETE /v1/hooks?id=' + found + b' HTTP/1.1\r\nHost: x\r\n\r\n', random.Random(1))
        return body[:500], answer[:200]

    def answers(self, dice, path):
        data = messages.answer(dice)
        with open(self.path('work', 'answer'), 'wb') as file: file.write(data)
        os.chmod(self.path('work', 'answer'), 0o644)
        os.rename(self.path('work', 'answer'), self.path('out', 'answer'))
        connection = stores.connect(self.store(dice.randrange(SLOTS)))
        try: stores.touch(connection, dice)
        finally: connection.close()
        return data[:300]

    def configurations(self, dice, path):
        """A wrong configuration is refused by a reload; what serves goes on. One that is right is not tried."""
        name = dice.choice(['historyd.json', 'plugins.json'])
        with open(self.path('config', name), 'rb') as file: good = file.read()
        bad = messages.mutated(dice, good)
        # In a folder of its own, so that what is watched is not changed.
        place = self.path('work', 'config')
        os.makedirs(place, exist_ok=True)
        for other in 'historyd.json', 'plugins.json':
            with open(self.path('config', other), 'rb') as file: data = file.read().replace(self.path('config').encode(), place.encode())
            with open(f'{place}/{other}', 'wb') as file: file.write(bad if other == name else data)
        run = subprocess.run([self.options.historyd, '--check-config', '--config', place + '/historyd.json'], capture_output=True, timeout=60, env={'SWIFT_BACKTRACE': 'enable=no'})
        if run.returncode not in (0, 78): raise Failure(f'--check-config ended with {run.returncode}: {run.stderr[-500:]} for {bad!r}')
        return bad[:300], run.returncode

    # The run

    def run(self):
        number = done = 0
        number = self.options.first
        while done < self.options.cases:
            # Some are good again, and are opened; what follows happens to them while they are served.
            for slot in self.dice.sample(range(SLOTS), SLOTS // 2): self.restore(slot)
            time.sleep(self.options.pause)
            for _ in range(min(SLOTS, self.options.cases - done)):
                self.case(number)
                number, done = number + 1, done + 1
            time.sleep(self.options.pause / 2)
            self.check_served()
            rounds = done // SLOTS
            if rounds % 10 == 0:
                self.check_answers()
                self.check_memory()
            if rounds % 50 == 0: self.check_outside()
            # A store that failed again and again is tried rarely: a daemon that starts looks at all.
            if rounds % 20 == 0:
                self.stop()
                self.check_outside()
                self.start()
            if done % 1000 < SLOTS and sys.stdout.isatty(): print(f'\r{done} cases', end='', flush=True)
        self.check_answers()
        self.check_memory()
        self.stop()
        self.check_outside()

    def keep(self):
        """What is needed to find out."""
        kept = tempfile.mkdtemp(prefix='historyd-fuzz-failed-')
        with open(kept + '/cases', 'w') as file: file.writelines(f'{case}\n' for case in self.recent)
        if self.daemon.poll() is None and shutil.which('gdb'):
            with open(kept + '/threads', 'w') as file:
                subprocess.run(['gdb', '--batch', '-p', str(self.daemon.pid), '-ex', 'thread apply all backtrace 40'], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        for name in 'log', 'stores', 'replicas', 'state', 'outside':
            subprocess.run(['cp', '-a', self.path(name), kept])
        return kept

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def print_table(self):
        for kind, count in sorted(self.counts.items()): print(f'{kind:<40}{count:>8}')
        print(f'{"starts and clean stops":<40}{self.starts:>8}')
        print(f'{"slowest delivery of the witness, ms":<40}{self.slowest * 1000:>8.0f}')
        print(f'{"most memory held by a daemon, MiB":<40}{self.memory >> 20:>8}')
        # How deep the cases went: a daemon that refuses all at the door is not tried.
        text = open(self.path('log'), 'rb').read()
        for what, line in ('opened', b' is open at '), ('refused', b'event=storeLost'), ('deliveries', b'Delivered '), ('replicas filled', b'event=contextRefilled'), ('tracking updated', b'event=trackingUpdated'):
            print(f'{"victims: " + what:<40}{sum(line in entry and b"store=witness" not in entry for entry in text.splitlines()):>8}')
        print(f'{"log, KiB":<40}{os.fstat(self.log.fileno()).st_size >> 10:>8}')


KINDS = {'rows': 5, 'schema': 4, 'pages': 3, 'replaced': 1, 'replicas': 3, 'control': 4, 'answers': 2, 'manifest_added': 1, 'configurations': 1}

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('historyd', type=os.path.abspath)
    parser.add_argument('historyctl', type=os.path.abspath)
    parser.add_argument('--cases', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='the number of the first case')
    parser.add_argument('--pause', type=float, default=0.06, help='how many seconds the daemon has to open what is good again')
    parser.add_argument('--keep', action='store_true', help='keep the files of a run that was good, too')
    parser.add_argument('--limit', type=float, default=60, help='within how many seconds the witness must be served')
    parser.add_argument('--only', default=','.join(KINDS), help='kinds of cases: ' + ', '.join(KINDS))
    options = parser.parse_args()
    options.kinds = [kind for kind in options.only.split(',') for _ in range(KINDS[kind])]
    if os.geteuid() != 0:
        print('fuzz: skipped, since only root can run the daemon as a user of its own')
        sys.exit(77)
    print(f'fuzz: {options.cases} cases, seed {options.seed}', flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('fuzz: told to end'))
    fuzz = Fuzz(options)
    try:
        fuzz.prepare()
        fuzz.run()
        fuzz.print_table()
        if options.keep: print(f'fuzz: kept: {fuzz.keep()}')
    except (Failure, subprocess.TimeoutExpired) as failure:
        fuzz.print_table()
        print(f'fuzz: {failure}\nfuzz: seed {options.seed}, last case {fuzz.recent[-1][0] if fuzz.recent else "-"}; kept: {fuzz.keep()}')
        sys.exit(1)
    except (SystemExit, KeyboardInterrupt):
        fuzz.print_table()
        raise
    finally: fuzz.end()
