"""A daemon that runs as a user of its own, the stores that it serves, and what must hold of it whatever is done to them."""
import hashlib, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time
import stores

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


class Served:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix='historyd-fuzz-')
        os.chmod(self.folder, 0o755)
        self.outside, self.work = self.folder + '/outside', self.folder + '/work'
        self.log = open(self.folder + '/log', 'ab')
        self.daemon, self.marker, self.slowest, self.memory, self.starts = None, 0, 0.0, 0, 0

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

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
