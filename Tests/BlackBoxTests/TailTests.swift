import Foundation
import TestSupport
import Testing

/// What people read beside a daemon that runs.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct TailTests {
    @Test("A line of tail says that its time is UTC's, whatever the zone")
    func zone() async throws {
        try await withWorkbench(.wal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Widget")))
            let daemon = try await bench.startDaemon()
            let tail = try bench.startCtl(["tail"], environment: ["TZ": "Asia/Tokyo"])
            // It begins with what comes from now on: rows are written until it shows one.
            var id = 0
            let line = try await eventually("a line of tail", state: { tail.errors }) {
                id += 1
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
                return tail.output.wholeLines.first
            }
            let parts = try #require(
                line.wholeMatch(of: /(\d\d:\d\d:\d\d\.\d{3}Z) Widget\S* insert person p\d+ ?/), "\(line)")
            let history = try await bench.steer("history", bench.store, "--format", "json")
            #expect(history.contains("T\(parts.1)\""), "\(parts.1) in \(history)")
            try await daemon.stop()
        }
    }
}
