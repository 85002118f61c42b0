import Foundation
import TestSupport
import Testing

/// A plugin that keeps a context in an SQLite file of its own, `index.sqlite`: copies of the rows, and which
/// transactions it took in, in one SQL transaction with its checkpoint.
///
/// Each call becomes a line of the file `context-calls`. Files named `MANNER-METHOD` in the workbench's folder make it
/// misbehave: `hang`, and for one call `refuse`, `die`, and `forget`, which dies before it answers what it has done;
/// `die-context.merge-1` is for a part. `CHECKPOINT` in its environment says whether it keeps its checkpoint: `own`,
/// `none`, or in `memory` alone.
enum ContextPlugin {
    static let python = #"""
        import json, os, sqlite3, sys, time
        bench, keeps = os.environ['BENCH'], os.environ.get('CHECKPOINT', 'own')
        with open(bench + '/context.pid', 'w') as file: file.write(str(os.getpid()))
        calls = os.open(bench + '/context-calls', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        keys = {'person': 'id', 'item': 'code'}
        db = sqlite3.connect(bench + '/index.sqlite', isolation_level='IMMEDIATE', timeout=60)
        db.executescript('''
            PRAGMA synchronous = OFF;
            CREATE TABLE IF NOT EXISTS person (id INTEGER PRIMARY KEY, name TEXT, email TEXT, age INTEGER);
            CREATE TABLE IF NOT EXISTS item (code TEXT PRIMARY KEY, price REAL);
            CREATE TABLE IF NOT EXISTS checkpoint (one INTEGER PRIMARY KEY, token TEXT);
            CREATE TABLE IF NOT EXISTS taken (token TEXT)''')
        memory = None

        def checkpoint(call):
            row = memory and [memory] if keeps == 'memory' else db.execute('SELECT token FROM checkpoint').fetchone()
            return row and row[0]

        def save(call):
            global memory
            memory = call['through']
            db.execute('INSERT OR REPLACE INTO checkpoint VALUES (1, ?)', (memory,))

        def copy(store, entity, condition='', values=()):
            for row in store.execute(f'SELECT * FROM {entity} {condition}', values):
                db.execute(f'INSERT OR REPLACE INTO {entity} VALUES ({",".join("?" * len(row))})', row)

        def read(call): return sqlite3.connect(f'file:{call["path"]}?mode=ro', uri=True, timeout=60)

        def merge(call):
            store = read(call)
            with db:
                moved = db.execute('UPDATE checkpoint SET token = ? WHERE token = ?', (call['through'], call['after']))
                if keeps == 'own' and moved.rowcount == 0: raise ValueError('it is not at ' + call['after'])
                for transaction in call['transactions']:
                    for change in transaction['changes']:
                        entity, key = change['entityName'], keys[change['entityName']]
                        values = (change['objectID'][key],)
                        db.execute(f'DELETE FROM {entity} WHERE {key} = ?', values)
                        copy(store, entity, f'WHERE {key} = ?', values)
                    if call.get('part', {'last': True})['last']:
                        db.execute('INSERT INTO taken VALUES (?)', (transaction['token'],))
                save(call)
            store.close()

        def refill(call):
            store = read(call)
            with db:
                for entity in keys: db.execute(f'DELETE FROM {entity}')
                for entity in call['entities']: copy(store, entity)
                db.execute('DELETE FROM taken')
                save(call)
            store.close()

        methods = {'context.merge': merge, 'context.refill': refill, 'context.expired': lambda call: None}
        if keeps != 'none': methods['context.checkpoint'] = checkpoint

        def misbehave(method, call):
            name = f"{method}-{call['part']['index']}" if 'part' in call else method
            for manner in 'refuse', 'die', 'hang':
                path = f'{bench}/{manner}-{name}'
                if not os.path.exists(path): continue
                if manner == 'hang': time.sleep(1000)
                os.remove(path)
                if manner == 'die': os._exit(3)
                raise ValueError('not now')

        def note(method, call):
            number = lambda token: token.split(':')[1]
            words = [method.split('.')[1]]
            if method == 'context.merge':
                words += [number(call['after']) + '>' + number(call['through'])]
                words += [f"{number(t['token'])}:{t['author']}:{len(t['changes'])}" for t in call['transactions']]
                if 'part' in call: words.append(f"part {call['part']['index']}{' last' if call['part']['last'] else ''}")
            elif method == 'context.refill': words += call['entities']
            elif method == 'context.expired': words.append(call['reason'])
            os.write(calls, ' '.join(words).encode() + b'\n')

        for line in sys.stdin:
            request = json.loads(line)
            method, answer = request['method'], {'jsonrpc': '2.0', 'id': request['id']}
            note(method, request['params'])
            try:
                if method in methods:
                    misbehave(method, request['params'])
                    answer['result'] = methods[method](request['params'])
                    if os.path.exists(f'{bench}/forget-{method}'):
                        os.remove(f'{bench}/forget-{method}')
                        os._exit(3)
                else: answer['error'] = {'code': -32601, 'message': 'method not found'}
            except Exception as error: answer['error'] = {'code': -32000, 'message': str(error)}
            print(json.dumps(answer), flush=True)
        """#
}

extension Workbench {
    /// Writes a configuration whose only consumer has a context that the plugin keeps.
    func configureContext(
        _ author: String = "Mirror", entities: String? = nil, plugin: String = "copier",
        checkpoint: String = "own", more: String = "", besides plugins: [PluginSetup] = [],
        settings: String = ""
    ) throws {
        let only = entities.map { #", "entities": \#($0)"# } ?? ""
        let context = #"{"name": "index", "kind": "plugin", "plugin": "\#(plugin)"\#(only)}"#
        try configure(
            StoreSetup(authors: #"[{"name": "\#(author)", "contexts": [\#(context)]}]"#),
            plugins: [contextPlugin(plugin, checkpoint, more: more)] + plugins, more: settings)
    }

    func contextPlugin(_ name: String = "copier", _ checkpoint: String = "own", more: String = "") throws
        -> PluginSetup
    {
        try folder.write("context.py", ContextPlugin.python)
        return PluginSetup(
            name: name, command: [Products.python, path("context.py")],
            environment: ["CHECKPOINT": checkpoint], more: more, hooks: [])
    }

    /// The calls that the plugin got: `merge 3>5 4:Widget:1 5:Importer:2`, `refill item person`, `expired restored`.
    func contextCalls() -> [String] {
        ((try? String(contentsOfFile: path("context-calls"), encoding: .utf8)) ?? "").wholeLines
    }

    /// Waits until the last call of the plugin is this one, and it was answered.
    func waitForContext(at number: Int, _ daemon: DaemonUnderTest) async throws {
        try await eventually(
            "the context at \(number)",
            state: { contextCalls().joined(separator: "\n") + "\n" + daemon.log.joined(separator: "\n") }
        ) {
            guard FileManager.default.fileExists(atPath: self.path("index.sqlite")) else { return false }
            let tables = try await self.sql(
                "SELECT count(*) FROM sqlite_schema WHERE name = 'taken'", of: self.path("index.sqlite"))
            if tables != "1\n" { return false }
            let token = try await self.sql("SELECT token FROM checkpoint", of: self.path("index.sqlite"))
            return token.hasSuffix(":\(number)\n")
        }
    }

    func expectContextEqualsStore(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await expectReplicaEqualsStore(
            ["person": "id", "item": "code"], replica: "index.sqlite", sourceLocation: sourceLocation)
    }
}
