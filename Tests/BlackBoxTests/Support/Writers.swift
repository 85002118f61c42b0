import Foundation
import TestSupport

/// Other processes that write to a store.
enum Writers {
    /// `write.py STORE EXTENSION AUTHOR CONTEXT SCRIPT…`: each script is a transaction.
    static let python = #"""
        import sqlite3, sys
        store, extension, author, context, *scripts = sys.argv[1:]
        connection = sqlite3.connect(store, isolation_level=None, timeout=60)
        if author:
            connection.enable_load_extension(True)
            connection.load_extension(extension)
            connection.execute('SELECT history_author(?, ?)', (author, context or None)).fetchall()
        for script in scripts:
            connection.executescript(f'BEGIN IMMEDIATE; {script}; COMMIT')
        connection.close()
        """#

    enum Client: String, CaseIterable, Sendable {
        case python
        case shell
    }
}

extension Workbench {
    /// Writes each script as one transaction, and ends: the process's id. SQLite's shell starts ten times as fast as Python.
    @discardableResult
    func write(
        _ scripts: String..., as author: String? = nil, context: String? = nil,
        from client: Writers.Client = .shell,
        to store: String? = nil
    ) async throws -> pid_t {
        let store = store ?? self.store
        let library = try await BuiltProducts.libhistory()
        let arguments: [String]
        switch client {
        case .python:
            arguments =
                [Products.python, path("write.py"), store, library, author ?? "", context ?? ""] + scripts
        case .shell:
            var commands = [".timeout 60000"]
            if let author {
                func quoted(_ text: String) -> String { "'\(text.replacing("'", with: "''"))'" }
                let context = context.map { ", \(quoted($0))" } ?? ""
                commands += [
                    ".load \(library) sqlite3_history_init",
                    "SELECT history_author(\(quoted(author))\(context))",
                ]
            }
            arguments =
                [Products.shell, "-bail", store] + commands + scripts.map { "BEGIN IMMEDIATE; \($0); COMMIT" }
        }
        let program = try start(arguments, "writer-\(UUID().uuidString)")
        try await program.succeed()
        return program.processID
    }

    /// Runs SQL as it stands, by a client that does not declare itself, and gives what it prints.
    @discardableResult
    func sql(_ script: String, of file: String? = nil) async throws -> String {
        try await start(
            [Products.shell, "-bail", file ?? store, ".timeout 60000", script], "sql-\(UUID().uuidString)"
        ).succeed()
    }

    /// Starts a Python program that may say `connect(path, author=…, context=…)`.
    func startPython(_ code: String, _ name: String = "python-\(UUID().uuidString)") async throws
        -> RunningProgram
    {
        let head = """
            import os, random, select, sqlite3, sys, time
            def connect(path, author=None, context=None, *pragmas):
                connection = sqlite3.connect(path, isolation_level=None, timeout=60)
                for pragma in pragmas: connection.execute('PRAGMA ' + pragma).fetchall()
                if author:
                    connection.enable_load_extension(True)
                    connection.load_extension('\(try await BuiltProducts.libhistory())')
                    connection.execute('SELECT history_author(?, ?)', (author, context)).fetchall()
                return connection
            bench = '\(folder.path)'
            store = bench + '/contacts.sqlite'

            """
        try folder.write(name + ".py", head + code)
        return try start([Products.python, path(name + ".py")], name)
    }
}
