import Foundation
import PersistentHistory
import TestSupport
import Testing

/// How a store keeps its journal.
enum Journal: String, CaseIterable, Sendable {
    case wal
    case delete
}

/// A folder with a store, a configuration, plugins that record their calls, and a daemon.
final class Workbench: Sendable {
    let folder: TemporaryFolder
    let journal: Journal
    private let programs = Locked<[RunningProgram]>([])

    static let schema = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, age INTEGER);
        CREATE TABLE item (code TEXT PRIMARY KEY, price REAL) WITHOUT ROWID;
        """

    fileprivate init(_ journal: Journal) throws {
        self.journal = journal
        folder = try TemporaryFolder()
        try folder.write("record.py", Plugins.recordInPython, executable: true)
        try folder.write("record.sh", Plugins.recordInShell, executable: true)
        try folder.write("write.py", Writers.python)
    }

    func path(_ name: String) -> String { folder.file(name) }
    var store: String { path("contacts.sqlite") }
    var configuration: String { path("historyd.json") }

    /// Writes the configuration and the manifest.
    func configure(_ stores: StoreSetup..., plugins: [PluginSetup] = [PluginSetup()], more: String = "") throws
    {
        let more = more.isEmpty ? "" : ", " + more
        try folder.write(
            "historyd.json",
            #"{"version": 1, "stores": [\#(stores.map(\.json).joined(separator: ", "))], "plugins": ["plugins.json"]\#(more)}"#
        )
        let plugins = plugins.map { $0.json(folder: folder.path) }
        try folder.write("plugins.json", #"{"version": 1, "plugins": [\#(plugins.joined(separator: ",\n"))]}"#)
    }

    /// Starts a program, which ends with the workbench at the latest.
    func start(
        _ arguments: [String], _ name: String, environment: [String: String] = [:], input: String = "/dev/null"
    ) throws -> RunningProgram {
        let program = try RunningProgram(arguments, environment: environment, files: path(name), input: input)
        programs.withLock { $0.append(program) }
        return program
    }

    /// Starts the daemon and waits until it is ready.
    func startDaemon() async throws -> DaemonUnderTest {
        let daemon = try launchDaemon()
        try await daemon.ready()
        return daemon
    }

    /// Starts the daemon.
    func launchDaemon(
        _ arguments: [String] = [], name: String = "historyd", under wrapper: [String] = [],
        environment: [String: String] = [:]
    ) throws -> DaemonUnderTest {
        let before = RunningProgram.text(path(name) + ".err").utf8.count
        let program = try start(
            wrapper + [Products.historyd, "--config", configuration] + arguments, name,
            environment: environment.merging(["STATE_DIRECTORY": path("state")]) { $1 })
        return DaemonUnderTest(program, logFrom: before)
    }

    /// Runs the daemon to its end with some option.
    func runDaemon(_ arguments: String...) async throws -> (
        status: RunningProgram.Ending, output: String, log: [String]
    ) {
        let daemon = try launchDaemon(arguments, name: "historyd-\(arguments.joined())-\(UUID().uuidString)")
        let ending = try await daemon.program.end()
        return (ending, daemon.program.output, daemon.log)
    }

    // MARK: Misbehaviour

    /// Makes a hook misbehave, as `Plugins` tells, from its next call on.
    func misbehave(_ manner: String, _ hook: String) throws { try folder.write("\(manner)-\(hook)", "") }
    func behave(_ manner: String, _ hook: String) throws {
        try FileManager.default.removeItem(atPath: path("\(manner)-\(hook)"))
    }

    // MARK: End

    /// Ends everything that was started, and what that started.
    fileprivate func end() async throws {
        // A task of its own, so that this is done also where the test was cancelled at its time limit.
        try await Task { try await endAll() }.value
    }

    private func endAll() async throws {
        for program in programs.withLock({ $0 }) { try await program.destroy() }
        for program in programs.withLock({ $0 })
        where program.arguments.contains(Products.historyd) && !program.wasStopped {
            LoopStalls.check(program.errors)
        }
        // A plugin ends with its standard input, or it was killed with its group; what is left of
        // a daemon that was killed may take a moment.
        let folder = folder.path
        do {
            try await eventually("the end of all processes of \(folder)", within: .seconds(10)) {
                Processes.naming(folder).isEmpty
            }
        } catch {
            for process in Processes.naming(folder) { kill(process, SIGKILL) }
            throw error
        }
    }
}

/// Runs a test on a workbench of its own, of which nothing is left.
func withWorkbench(
    _ journal: Journal = .wal, schema: String = Workbench.schema, _ body: (Workbench) async throws -> Void
) async throws {
    await Turnstile.shared.enter()
    let result: Result<Void, any Error>
    do {
        let bench = try Workbench(journal)
        do {
            try await bench.sql("PRAGMA journal_mode = \(journal.rawValue);" + schema)
            result = .success(try await body(bench))
            try await bench.end()
        } catch {
            try? await bench.end()
            throw error
        }
    } catch {
        await Turnstile.shared.leave()
        throw error
    }
    await Turnstile.shared.leave()
    try result.get()
}

/// A value that threads share.
final class Locked<Value>: Sendable {
    private let lock = NSLock()
    nonisolated(unsafe) private var value: Value

    init(_ value: sending Value) { self.value = value }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try lock.withLock { try body(&value) }
    }
}
