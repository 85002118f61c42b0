import Foundation
import TestSupport
import Testing

/// The package in `config/python`, as those use it who install it.
@Suite(.enabled(if: ClientPackages.areThere, ClientPackages.missing), .timeLimit(.minutes(15)))
struct PythonPackageTests {
    @Test func isTyped() async throws {
        let folder = try copy()
        try await Command(
            "/bin/sh",
            [
                "-c",
                "cd \"$1\" && exec \"$0\" -m mypy --config-file pyproject.toml --strict --cache-dir /dev/null",
                ClientPackages.python, folder.file("python"),
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
                """, store.path, try await BuiltProducts.libhistory(),
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        #expect(printed == "2\n")
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
