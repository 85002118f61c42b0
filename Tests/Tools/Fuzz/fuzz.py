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
import argparse, collections, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time
import messages, stores
from served import SLOTS, USER, Failure, Served


class Fuzz(Served):
    def __init__(self, options):
        super().__init__(options)
        self.dice = random.Random(options.seed)
        self.counts, self.recent = collections.Counter(), collections.deque(maxlen=4 * SLOTS)

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
