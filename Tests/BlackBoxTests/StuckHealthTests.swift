import Foundation
import TestSupport
import Testing

/// A lock that stays: health names what it keeps from going on, whatever SQLite answers, and does not change its mind
/// meanwhile.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StuckHealthTests {
    /// What health says now.
    private func health(_ bench: Workbench) async throws -> (verdict: String?, causes: [String], text: String) {
        let outcome = try await bench.ctl("health", "--format", "json")
        let report = try outcome.json()
        return (
            report["verdict"].text, report["reasons"].list.compactMap { $0["cause"].text }, outcome.output
        )
    }

    /// Waits until it fails for a cause, watches that it goes on failing, and then ends the lock, after which it is healthy.
    private func isNamed(
        _ cause: String, _ bench: Workbench, holding holder: RunningProgram,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        var seen = ""
        try await eventually("\(cause)", within: .seconds(30), state: { seen }) {
            let report = try await health(bench)
            seen = report.text
            return report.verdict == "failing" && report.causes.contains(cause)
        }
        // The line for the service manager says no less.
        for _ in 0..<12 {
            try await observe(for: .milliseconds(500))
            let report = try await health(bench)
            #expect(
                report.verdict == "failing" && report.causes.first == cause, "\(report)",
                sourceLocation: sourceLocation)
        }
        try await holder.destroy()
        try await eventually("health", state: { seen }) {
            let report = try await health(bench)
            seen = report.text
            return report.verdict == "healthy"
        }
    }

    /// Holds a lock on a database.
    private func hold(_ path: String, _ begin: String, _ bench: Workbench, exclusively: Bool = false)
        async throws
        -> RunningProgram
    {
        let pragma = exclusively ? ", 'locking_mode = EXCLUSIVE'" : ""
        let holder = try await bench.startPython(
            """
            connection = connect('\(path)', None, None\(pragma))
            for statement in '''\(begin)'''.split(';'): connection.execute(statement)
            open(bench + '/held', 'w').close()
            time.sleep(600)
            """)
        try await eventually("a lock", state: { holder.errors }) {
            FileManager.default.fileExists(atPath: bench.path("held"))
        }
        return holder
    }

    @Test("A writer in exclusive mode keeps its lock after a commit to a store with a rollback journal")
    func exclusiveWriter() async throws {
        try await withWorkbench(.delete) { bench in
            try bench.configure(StoreSetup(more: #""healthyLag": "1h""#))
            let daemon = try await bench.startDaemon()
            let holder = try await hold(
                bench.store, "INSERT INTO person (id) VALUES (1)", bench, exclusively: true)
            try await isNamed("storeStuck", bench, holding: holder)
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test("The state is locked", arguments: ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    func state(begin: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(more: #""healthyLag": "1h""#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForCursor(at: 1, daemon)
            let holder = try await hold(try bench.stateDatabase(), begin, bench)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await isNamed("stateNotWritable", bench, holding: holder)
            try await bench.waitForCursor(at: 2, daemon)
            try await daemon.stop()
        }
    }

    @Test("A replica is locked", arguments: ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    func replica(begin: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored("MainApp"), more: #""healthyLag": "1h""#))
            let daemon = try await bench.startDaemon()
            let holder = try await hold(bench.path("replica.sqlite"), begin, bench)
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await isNamed("replicaNotWritable", bench, holding: holder)
            try await eventually("the row") {
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "1\n"
            }
            try await daemon.stop()
        }
    }
}
