import Foundation
import TestSupport

/// A store in a folder of its own, and the programs that people use it with.
struct CtlStore: Sendable {
    enum Journal: String, CaseIterable, Sendable {
        case wal = "WAL"
        case rollback = "DELETE"
    }

    let folder: TemporaryFolder
    let path: String

    init(_ schema: String, journal: Journal = .wal, tracking arguments: [String]? = ["--all"]) async throws {
        folder = try TemporaryFolder()
        path = folder.file("store.sqlite")
        try await sql("PRAGMA journal_mode = \(journal.rawValue); \(schema)")
        if let arguments { try await succeed("track", arguments) }
    }

    /// A store that is there.
    init(of path: String) throws {
        folder = try TemporaryFolder()
        self.path = path
    }

    // MARK: historyctl

    func ctl(_ verb: String, _ arguments: [String] = [], input: String = "") async throws -> Command.Outcome {
        try await Command(BuiltProducts.historyctl, [verb, path] + arguments, input: input).run()
    }

    @discardableResult
    func succeed(_ verb: String, _ arguments: [String] = []) async throws -> String {
        try await Command(BuiltProducts.historyctl, [verb, path] + arguments).succeed()
    }

    func history(_ arguments: [String] = []) async throws -> [CtlTransaction] {
        try await succeed("history", ["--format", "json"] + arguments).split(separator: "\n").map { line in
            try JSONDecoder().decode(CtlTransaction.self, from: Data(line.utf8))
        }
    }

    /// The history's lines, with what is another in each run replaced by a word.
    func historyText(_ arguments: [String] = []) async throws -> String {
        let text = try await succeed("history", ["--format", "json"] + arguments)
        let store = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/
        guard let id = text.firstMatch(of: store)?.output else { return text }
        return text.replacing(id, with: "STORE")
            .replacing(/"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/, with: #""timestamp":"TIME""#)
            .replacing(/"deletedDate":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/, with: #""deletedDate":"TIME""#)
            .replacing(/"processID":\d+/, with: #""processID":PROCESS"#)
    }

    // MARK: Others' programs

    /// Runs SQL in the shell that comes with SQLite.
    @discardableResult
    func sql(_ sql: String) async throws -> String {
        try await Command("sqlite3", ["-bail", path], input: ".timeout 30000\n" + sql + "\n").succeed()
    }

    /// The same on a connection that loaded the extension.
    @discardableResult
    func declaredSQL(_ sql: String) async throws -> String {
        try await self.sql(".load \(BuiltProducts.libhistory())\n" + sql)
    }

    func python(_ code: String, interpreter: String = Python.path) async throws -> Command.Outcome {
        try await Command(interpreter, ["-c", Python.prelude + code, path, BuiltProducts.libhistory()]).run()
    }

    @discardableResult
    func succeed(python code: String, interpreter: String = Python.path) async throws -> String {
        let outcome = try await python(code, interpreter: interpreter)
        guard outcome.status == .exited(0) else { throw Command.Failure(description: "\(outcome)") }
        return outcome.output
    }
}

enum Python {
    /// Debian's Python, whose sqlite3 can load extensions.
    static let path = "/usr/bin/python3"
    static let isThere = FileManager.default.isExecutableFile(atPath: path)

    /// Before each script: `plain()` and `loaded(author)` open connections, and `Author`
    /// declares one that cannot load extensions.
    static let prelude = """
        import contextlib, os, random, secrets, sqlite3, sys, time
        sys.dont_write_bytecode = True
        sys.path.insert(0, "\(Sources.path("config/python"))")
        from historyd import Author
        path, library = sys.argv[1:3]

        def plain():
            return sqlite3.connect(path, isolation_level=None, timeout=60)

        def loaded(*author, by_sql=False):
            connection = plain()
            connection.enable_load_extension(True)
            if by_sql: connection.execute("SELECT load_extension(?, 'sqlite3_history_init')", [library])
            else: connection.load_extension(library)
            if author: connection.execute("SELECT history_author(" + ", ".join("?" * len(author)) + ")", author)
            return connection

        def fails(connection, sql, *values):
            try: connection.execute(sql, values).fetchall()
            except sqlite3.Error as error: return str(error)
            raise SystemExit("no error: " + sql)


        """
}

/// A transaction as `historyctl history --format json` prints it.
struct CtlTransaction: Decodable, Hashable {
    struct Change: Decodable, Hashable {
        let entityName: String
        let operation: String
        let objectID: [String: CtlValue]
        let objectIDURL: String
        let changedProperties: [String]?
        let tombstone: Tombstone?

        struct Tombstone: Decodable, Hashable {
            let attributes: [String: String]
        }

        /// `insert t id=1`, for short.
        var short: String {
            let key = objectID.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: ",")
            let changed = changedProperties.map { " " + $0.joined(separator: ",") } ?? ""
            return "\(operation) \(entityName) \(key)\(changed)"
        }
    }

    let token: String
    let author: String?
    let context: String?
    let processID: Int?
    let timestamp: String
    let changes: [Change]

    /// The number in the token.
    var number: Int { token.split(separator: ":").last.flatMap { Int($0) } ?? -1 }

    /// `Me: insert t id=1; delete t id=2`, for short.
    var short: String { "\(author ?? "-"): " + changes.map(\.short).joined(separator: "; ") }
}

/// A value of a key.
enum CtlValue: Decodable, Hashable, CustomStringConvertible {
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob(String)

    private enum Blob: CodingKey { case base64 }

    init(from decoder: any Decoder) throws {
        if let blob = try? decoder.container(keyedBy: Blob.self) {
            self = .blob(try blob.decode(String.self, forKey: .base64))
            return
        }
        let value = try decoder.singleValueContainer()
        if let integer = try? value.decode(Int64.self) {
            self = .integer(integer)
        } else if let real = try? value.decode(Double.self) {
            self = .real(real)
        } else {
            self = .text(try value.decode(String.self))
        }
    }

    var description: String {
        switch self {
        case .integer(let value): "\(value)"
        case .real(let value): "\(value)"
        case .text(let value): "'\(value)'"
        case .blob(let value): "x\(value)"
        }
    }
}
