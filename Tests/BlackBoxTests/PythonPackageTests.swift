import Foundation
import TestSupport
import Testing

/// The package in `config/python`, as those use it who install it.
@Suite(.enabled(if: ClientPackages.areThere, ClientPackages.missing), .timeLimit(.minutes(60)))
struct PythonPackageTests {
    @Test func isTyped() async throws {
        let folder = try copy()
        try await Command(
            "/bin/sh",
            [
                "-c",
                // Most of its time goes into the types of Python's own library, which stay the same.
                "cd \"$1\" && exec \"$0\" -m mypy --config-file pyproject.toml --strict --cache-dir \"$2\"",
                ClientPackages.python, folder.file("python"), Sources.path(".build/mypy-cache"),
            ]
        ).succeed()
    }

    @Test func installs() async throws {
        let folder = try copy()
        let target = folder.file("installed")
        try await Command(
            ClientPackages.python,
            ["-m", "pip", "install", "--quiet", "--no-deps", "--target", target, folder.file("python")],
            environment: ["PIP_DISABLE_PIP_VERSION_CHECK": "1"]
        ).succeed()
        #expect(FileManager.default.fileExists(atPath: target + "/historyd/py.typed"))
        try await Command(
            ClientPackages.python, ["-c", "import historyd; assert historyd.__file__.startswith('\(target)')"],
            environment: ["PYTHONPATH": target]
        ).succeed()
    }

    @Test func aPluginThatDoesNotRunIsNamedWithAdvice() async throws {
        let folder = try TemporaryFolder()
        try "#!/usr/bin/python3\n".write(toFile: folder.file("names.py"), atomically: true, encoding: .utf8)
        let program = """
            from historyd.testing import CallFailed, Calls
            for command in ["./names.py"], ["./nothing.py"], ["true"]:
                try:
                    with Calls(command) as calls: calls.observe("people", calls.insert("person", {"id": 1}))
                except CallFailed as error: print(error)
            """
        let printed = try await Command(
            "/bin/sh", ["-c", "cd \"$1\" && exec \"$0\" -B -c \"$2\"", Products.python, folder.path, program],
            environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        #expect(
            printed.split(separator: "\n") == [
                "./names.py cannot be started: Permission denied. Run \"chmod +x ./names.py\", or name its interpreter before it.",
                "./nothing.py cannot be started: No such file or directory. Check its path, and the interpreter in its first line.",
                "The process ended without an answer, with status 0.",
            ])
    }

    /// Authors of transactions on connections that have a thread of their own.
    @Test func declaresAsynchronousConnections() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)", tracking: ["t"])
        let printed = try await Command(
            ClientPackages.python,
            [
                "-B", "-c",
                """
                import aiosqlite, asyncio, historyd, sqlite3, sys
                from sqlalchemy import text
                from sqlalchemy.ext.asyncio import create_async_engine
                async def by_aiosqlite():
                    async with aiosqlite.connect(sys.argv[1]) as store:
                        # Not awaited: what comes later comes after it all the same.
                        historyd.declare(store, 'First')
                        await store.execute('INSERT INTO t VALUES (1)')
                        await store.commit()
                        await historyd.declare(store, 'Second', 'context')
                        await store.execute('INSERT INTO t VALUES (2)')
                        await store.commit()
                        try: await historyd.declare(store, '')
                        except sqlite3.Error: print('refused')
                async def by_sqlalchemy():
                    for number, author in (3, 'Third'), (4, 'Fourth'):
                        engine = create_async_engine('sqlite+aiosqlite:///' + sys.argv[1])
                        historyd.declare_sqlalchemy(engine if number == 3 else engine.sync_engine, author)
                        async with engine.begin() as connection:
                            await connection.execute(text(f'INSERT INTO t VALUES ({number})'))
                        await engine.dispose()
                asyncio.run(by_aiosqlite())
                asyncio.run(by_sqlalchemy())
                """, store.path,
            ],
            environment: [
                "PYTHONPATH": Sources.path("config/python"),
                "HISTORYD_EXTENSION": try await BuiltProducts.libhistory(),
            ]
        ).succeed()
        #expect(printed == "refused\n")
        #expect(try await store.history().map(\.author) == ["First", "Second", "Third", "Fourth"])
    }

    private static let newPython = ["python3.12", "python3.13", "python3.14"].first { name in
        (try? Self.knowsAutocommit(name)) == true
    }

    private static func knowsAutocommit(_ name: String) throws -> Bool {
        let program = try RunningProgram(
            ["/usr/bin/env", name, "-c", "import sqlite3; sqlite3.connect(':memory:', autocommit=False)"],
            environment: ProcessInfo.processInfo.environment,
            files: NSTemporaryDirectory() + "python-\(getpid())")
        return program.waitForEnd() == .exited(0)
    }

    /// Such a connection always is in a transaction.
    @Test(.enabled(if: newPython != nil, "It needs Python 3.12 or later with sqlite3."))
    func authorWithoutAutocommit() async throws {
        let python = try #require(Self.newPython)
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)", tracking: ["t"])
        let printed = try await Command(
            python,
            [
                "-B", "-c",
                """
                import historyd, sqlite3, sys
                store = sqlite3.connect(sys.argv[1], autocommit=False)
                author = historyd.Author(store, 'G')
                def insert(number): store.execute('INSERT INTO t VALUES (?)', (number,))
                insert(1)
                with author.transaction(): insert(2); insert(3)
                print(store.in_transaction)
                insert(4); store.rollback()
                try:
                    with author.transaction(): insert(5); raise KeyError
                except KeyError: print(store.in_transaction)
                with author.transaction(): insert(6)
                insert(7); store.commit(); store.close()
                """, store.path,
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        #expect(printed == "True\nTrue\n")
        let history = try await store.history()
        #expect(
            history.map { "\($0.author ?? "-") \($0.changes.map(\.short).joined(separator: " "))" } == [
                "- insert t id=1 ", "G insert t id=2  insert t id=3 ", "G insert t id=6 ", "- insert t id=7 ",
            ])
    }

    /// A connection that is open already is declared as well, and the author declared last counts.
    @Test func djangoDeclaresWhatIsOpenAndTheLastAuthor() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        let printed = try await Command(
            ClientPackages.python,
            [
                "-B", "-c",
                """
                import django, historyd, sys
                from django.conf import settings
                settings.configure(
                    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': sys.argv[1]}})
                django.setup()
                from django.db import connection
                def ask(sql):
                    with connection.cursor() as cursor: return cursor.execute(sql).fetchone()[0]
                ask('SELECT 1')
                for author in 'First', 'Second':
                    historyd.declare_django(author, extension=sys.argv[2])
                    print(ask('SELECT history_author()'))
                    connection.close()
                    print(ask('SELECT history_author()'))
                """, store.path, try await BuiltProducts.libhistory(),
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        #expect(printed == "First\nFirst\nSecond\nSecond\n")
    }

    /// Threads of both, which share a pool or have connections of their own, beside a writer that declares nothing.
    @Test(arguments: CtlStore.Journal.allCases)
    func integrationsUnderLoad(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY, who TEXT)", journal: journal)
        try await Command(
            ClientPackages.python,
            [
                "-B", "-c",
                """
                import random, sqlite3, sys, threading
                import django, historyd
                from django.conf import settings
                from sqlalchemy import create_engine, text
                store, library = sys.argv[1:]
                settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': store, 'OPTIONS': {'timeout': 60}}})
                django.setup()
                from django.db import connection, transaction
                engine = create_engine('sqlite:///' + store, connect_args={'timeout': 60}, pool_size=2, max_overflow=0)
                historyd.declare_sqlalchemy(engine, 'Alchemy', extension=library)
                historyd.declare_django('Django', extension=library)
                class Undone(Exception): pass
                def alchemy(n, fails):
                    with engine.begin() as c:
                        for _ in range(2): c.execute(text('INSERT INTO t (who) VALUES (:who)'), {'who': 'Alchemy'})
                        if fails: raise Undone
                def site(n, fails):
                    with transaction.atomic(), connection.cursor() as c:
                        for _ in range(2): c.execute('INSERT INTO t (who) VALUES (%s)', ['Django'])
                        if fails: raise Undone
                    if n % 5 == 0: connection.close()
                def plain(n, fails):
                    c = sqlite3.connect(store, timeout=60)
                    try:
                        with c:
                            for _ in range(2): c.execute("INSERT INTO t (who) VALUES ('nobody')")
                            if fails: raise Undone
                    finally: c.close()
                problems = []
                def work(body):
                    try:
                        for n in range(20):
                            try: body(n, n % 4 == 3)
                            except Undone: pass
                    except BaseException as error: problems.append(error)
                    connection.close()
                threads = [threading.Thread(target=work, args=[body]) for body in (alchemy, site, plain) for _ in range(3)]
                for each in threads: each.start()
                for each in threads: each.join()
                assert not problems, problems
                """, store.path, try await BuiltProducts.libhistory(),
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        let lines = try await store.sql("SELECT id || ' ' || who FROM t").split(separator: "\n")
        var told: Set<Substring> = []
        for transaction in try await store.history() {
            let (who, keys) = (transaction.author ?? "nobody", transaction.changes.map { $0.objectID["id"] })
            #expect(transaction.author == nil || keys.count == 2)
            for key in keys { told.insert("\(key?.description ?? "") \(who)") }
        }
        #expect(told == Set(lines) && lines.count == 270)
    }

    /// A Python built without `enable_load_extension` registers the extension with SQLite itself.
    @Test func aPythonThatCannotLoadExtensionsDeclaresAuthors() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        let printed = try await Command(
            ClientPackages.python,
            [
                "-B", "-c",
                """
                import sqlite3, sys
                class Plain(sqlite3.Connection): pass
                # Hides what such a Python lacks.
                class Missing:
                    def __get__(self, *_): raise AttributeError('enable_load_extension')
                Plain.enable_load_extension = Plain.load_extension = Missing()
                open_plainly, sqlite3.Connection = sqlite3.connect, Plain
                sqlite3.connect = lambda *a, **k: open_plainly(*a, factory=Plain, **k)
                import historyd
                store = historyd.connect(sys.argv[1], 'App', 'view', extension=sys.argv[2])
                with store: store.execute('INSERT INTO t VALUES (1)'); store.execute('INSERT INTO t VALUES (2)')
                print(historyd.token(store).split(':')[1])
                try: historyd.token(historyd.connect(':memory:', 'App', extension=sys.argv[2]))
                except LookupError as error: print(error)
                """, store.path, try await BuiltProducts.libhistory(),
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        let untracked =
            "No store of this connection is tracked, so nothing is recorded. Track it: historyctl track STORE TABLE"
        #expect(printed == "2\n\(untracked)\n")
        let transactions = try await store.history()
        #expect(transactions.map(\.author) == ["App"] && transactions.map(\.context) == ["view"])
    }

    @Test func aMissingExtensionIsSaid() async throws {
        let outcome = try await Command(
            ClientPackages.python,
            [
                "-B", "-c",
                "import historyd; historyd.connect(':memory:', 'App', extension='/nowhere/libhistory.so')",
            ],
            environment: ["PYTHONPATH": Sources.path("config/python")]
        ).run()
        #expect(
            outcome.errors.contains("historyd.author.ExtensionError: The extension cannot be loaded: /nowhere"))
    }

    /// Building leaves files behind.
    private func copy() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try FileManager.default.copyItem(atPath: Sources.path("config/python"), toPath: folder.file("python"))
        return folder
    }
}
