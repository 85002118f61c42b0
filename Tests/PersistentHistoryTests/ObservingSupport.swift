import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A folder that is gone, with all that is in it, when `body` returns.
func withFolder<R>(
    in parent: String = FileManager.default.temporaryDirectory.path, _ body: (String) async throws -> R
) async throws -> R {
    // Without links in it, so that the paths in events are known.
    let folder = URL(fileURLWithPath: parent).resolvingSymlinksInPath().path + "/observing-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { removeAll(folder) }
    return try await body(folder)
}

private func removeAll(_ folder: String) {
    do { try FileManager.default.removeItem(atPath: folder) } catch { Issue.record(error) }
}

/// An observer that runs while `body` does.
func withObserver<R>(
    _ observer: StoreObserver? = nil, _ body: (StoreObserver) async throws -> R
) async throws -> R {
    let observer = try observer ?? StoreObserver(inotify: Inotify(), heedsMounts: false)
    async let running: Void = observer.run()
    defer { observer.stop() }
    let result = try await body(observer)
    observer.stop()
    try await running
    return result
}

extension StoreSignals {
    /// Takes signals until all of `wanted` were among them. Hangs where they do not come, until the time limit.
    func await(_ wanted: StoreSignal) async throws {
        var seen: StoreSignal = []
        while !wanted.isSubset(of: seen) {
            guard let signal = try await next() else { throw EndedEarly(wanted: wanted, seen: seen) }
            seen.formUnion(signal)
        }
    }
}

struct EndedEarly: Error {
    let wanted: StoreSignal
    let seen: StoreSignal
}

/// A probe that is closed when `body` returns, by when its connections must be.
func withProbe<R>(_ path: String, _ body: (WriterProbe) async throws -> R) async throws -> R {
    let probe = try WriterProbe(storePath: path)
    do {
        let result = try await body(probe)
        try probe.close()
        return result
    } catch {
        // The connections that the failure left open must not hide it behind another.
        do { try probe.close() } catch { Issue.record(error) }
        throw error
    }
}

/// The watches of one store, with events read when the test likes, and everything done on its thread.
struct Placing {
    let inotify: Inotify
    let watches: StoreWatches
    let key: StoreKey
    private let signals = StoreSignals()

    init(_ path: String, inotify: Inotify? = nil) throws {
        self.inotify = try inotify ?? Inotify()
        watches = StoreWatches(inotify: self.inotify, threads: .init(run: { $0() }, later: { _ in }))
        key = try watches.add(path, signals)
        _ = signals.take()
    }

    /// What the kernel has told and nobody has read yet.
    func events() throws -> [InotifyEvent] {
        try inotify.read().0
    }

    /// All signals of what has happened until now, as one.
    func read() throws -> StoreSignal {
        while true {
            let events = try events()
            watches.handle(events)
            watches.followChanging()
            if let failure = signals.failure { throw failure }
            if events.isEmpty, !watches.isChanging { return signals.take() }
        }
    }
}

// MARK: - Another process

let pythonPath = "/usr/bin/python3"
/// Debian's Python has the sqlite3 module; without it there is no other process to hear of.
let hasPython = FileManager.default.isExecutableFile(atPath: pythonPath)

/// A Python process that runs what it is sent.
final class Python {
    private let process: Conversation
    private var answers: AsyncStream<String>.AsyncIterator

    fileprivate init() throws {
        process = try Conversation([pythonPath, "-c", Python.loop])
        answers = process.lines.makeAsyncIterator()
    }

    fileprivate func end() async {
        process.finish()
        _ = await process.program.end(within: .seconds(60))
    }

    /// Runs `code` to its end. What it puts into `result` comes back.
    @discardableResult
    func run(_ code: String) async throws -> String {
        try start(code)
        return try await answer()
    }

    func start(_ code: String) throws { try process.send(code.replacing("\n", with: "\u{1e}")) }

    func answer() async throws -> String {
        guard let line = await answers.next(isolation: #isolation) else { throw Failure(text: "Python ended.") }
        guard line.hasPrefix("ok ") else { throw Failure(text: line) }
        return String(line.dropFirst(3))
    }

    /// Sends a line to what `start` began. May be called from where the answers are not awaited.
    var send: @Sendable (String) throws -> Void { { [process] line in try process.send(line) } }

    struct Failure: Error {
        let text: String
    }

    fileprivate static let loop = """
        import os, sqlite3, sys, time
        def connect(path, *pragmas):
            connection = sqlite3.connect(path, isolation_level=None, timeout=30)
            for pragma in pragmas: connection.execute('PRAGMA ' + pragma).fetchall()
            return connection
        def line():
            # Whatever it is doing, it ends with the test.
            return sys.stdin.readline() or sys.exit()
        while True:
            code = line()
            result = ''
            try:
                exec(code.replace('\\x1e', '\\n'), globals())
                print('ok', result, flush=True)
            except Exception as error:
                print('error', repr(error), flush=True)
        """
}

/// A Python process that lives while `body` runs.
func withPython<R: Sendable>(_ body: (Python) async throws -> R) async throws -> R {
    let python = try Python()
    let result: Result<R, any Error>
    do {
        result = .success(try await body(python))
    } catch {
        result = .failure(error)
    }
    await python.end()
    return try result.get()
}

// MARK: - Reading

/// Reads how far a store's table `t` has come.
struct Reader {
    let connection: DatabaseQueue

    init(_ path: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        connection = try DatabaseQueue(path: path, configuration: configuration)
    }

    /// nil where the store was too busy to be read.
    func newest() async throws -> Int? {
        do {
            return try await connection.read { try Int.fetchOne($0, sql: "SELECT max(x) FROM t") ?? 0 }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return nil
        }
    }
}

func write(_ text: String = "", to path: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
}

func move(_ from: String, _ to: String) {
    #expect(rename(from, to) == 0, "rename \(from) to \(to): \(errno)")
}

func append(to path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
    #expect(Glibc.write(file, "x", 1) == 1, "\(path): \(errno)")
    close(file)
}

extension WriterProbe {
    /// Looks until everything that a signal spoke of has been seen.
    func awaitVisibility(look: () async throws -> Bool) async throws {
        var rule = VisibilityRule()
        var step = rule.woke()
        while step != .idle {
            switch step {
            case .ask: step = rule.asked(writerActive: try isWriterActive())
            case .look: step = rule.looked(foundNew: try await look())
            case .wait(let delay):
                try await Task.sleep(for: delay)
                step = rule.waited()
            case .idle: break
            }
        }
    }
}
