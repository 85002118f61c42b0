import Foundation
import TestSupport
import Testing

/// Consumers that are not woken by commits of no concern to them: there is no difference to see.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct IdleConsumerTests {
    private static let setup = PluginSetup(hooks: [
        #"{"name": "items", "kind": "observer", "entity": "item", "consumer": "MainApp"}"#
    ])

    private static func cursors(_ bench: Workbench) async throws -> [String: String] {
        let consumers = try await bench.report("consumers")["consumers"].list
        return Dictionary(
            uniqueKeysWithValues: consumers.compactMap { consumer in
                guard let name = consumer["consumer"].text, let cursor = consumer["cursor"].text else {
                    return nil
                }
                return (name, cursor)
            })
    }

    @Test("Their cursors are told, waited for and kept, over a kill, too; and what concerns them comes once")
    func cursors() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: #"[{"name": "MainApp"}, {"name": "Idle"}]"#), plugins: [Self.setup])
            var daemon = try await bench.startDaemon()
            var told = 0
            for round in 1...3 {
                var token = ""
                for number in 1...20 {
                    token = try await bench.commit("INSERT INTO person (id) VALUES (\(round * 100 + number))")
                }
                for consumer in ["MainApp", "Idle"] {
                    let place = try await bench.steer(
                        "wait", "--consumer", consumer, "--token", token, "--timeout", "60s")
                    #expect(place == "\(token)\n")
                }
                #expect(try await Self.cursors(bench) == ["MainApp": token, "Idle": token])
                #expect(try bench.calls().count == told)

                _ = try await bench.commit("INSERT INTO item (code) VALUES ('\(round)')")
                told += 1
                try await bench.calls(told, of: daemon)
                if round == 1 {
                    // What is under way when it is killed may come twice.
                    try await daemon.quiet()
                    try await daemon.kill()
                    daemon = try await bench.startDaemon()
                }
            }
            try await daemon.quiet()
            #expect(try bench.calls().count == told)
            try await daemon.stop()
        }
    }

    @Test("A hook that is added wakes its consumer, and a hold holds it")
    func changes() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            let first = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", first, "--timeout", "60s")

            try await bench.steer("pause")
            let second = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            let early = try await bench.ctl(
                "wait", "--consumer", "MainApp", "--token", second, "--timeout", "1s")
            #expect(early.status != .exited(0))
            try await bench.steer("resume")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", second, "--timeout", "60s")

            let plugin = PluginSetup().json(folder: bench.folder.path)
            try bench.folder.write("more.json", #"{"version": 1, "plugins": [\#(plugin)]}"#)
            try await bench.steer("hooks", "add", bench.path("more.json"))
            let third = try await bench.commit("INSERT INTO person (id) VALUES (3)")
            try await bench.calls(1, of: daemon)
            #expect(try bench.calls().map(\.params.transaction?.token) == [third])
            try await daemon.stop()
        }
    }

    @Test("What they have passed without being woken is cleaned")
    func cleaning() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(more: #""clean": {"strategy": "byNotification", "times": 3}"#), plugins: [])
            let daemon = try await bench.startDaemon()
            for number in 1...4 {
                let token = try await bench.commit("INSERT INTO person (id) VALUES (\(number))")
                try await bench.steer("wait", "--consumer", "MainApp", "--token", token, "--timeout", "60s")
            }
            try await daemon.logged("event=cleaned")
            try await daemon.stop()
        }
    }
}
