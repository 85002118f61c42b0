import Foundation
import Testing

/// SIGHUP: all or nothing.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(5)))
struct ReloadTests {
    @Test("A new configuration is in force at once, and nothing is lost or repeated over it")
    func reload() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)

            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Second")))
            daemon.program.signal(SIGHUP)
            try await daemon.logged("event=ready", times: 2)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            let calls = try await bench.calls(4, of: daemon).map(\.summary)
            #expect(
                calls.filter { $0.contains(" MainApp ") } == [
                    "audit/all MainApp 1 Widget person insert p1",
                    "audit/all MainApp 2 Widget person insert p2",
                ])
            #expect(
                calls.filter { $0.contains(" Second ") } == [
                    "audit/all Second 1 Widget person insert p1", "audit/all Second 2 Widget person insert p2",
                ])
            try await daemon.stop()
        }
    }

    @Test("A wrong one is refused with its place, and the old one stays in force")
    func refused() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")))
            let daemon = try await bench.startDaemon()
            let good = try String(contentsOfFile: bench.path("historyd.json"), encoding: .utf8)
            try #"{"version": 1, "storrs": []}"#.write(
                toFile: bench.path("historyd.json"), atomically: true, encoding: .utf8)
            daemon.program.signal(SIGHUP)
            try await daemon.logged("historyd.json:1:16: storrs: ")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            #expect(
                try await bench.calls(1, of: daemon).map(\.summary) == [
                    "audit/all MainApp 1 Widget person insert p1"
                ])
            #expect(daemon.log.filter { $0.contains("event=ready") }.count == 1)
            // And a right one is taken after it.
            try good.write(toFile: bench.path("historyd.json"), atomically: true, encoding: .utf8)
            daemon.program.signal(SIGHUP)
            try await daemon.logged("event=ready", times: 2)
            try await daemon.stop()
        }
    }
}
