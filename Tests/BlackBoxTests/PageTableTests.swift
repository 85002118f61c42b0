import Foundation
import TestSupport
import Testing

/// What the pages list, the programs do.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PageTableTests {
    private static let pages = "Sources/PersistentHistory/PersistentHistory.docc"

    /// The rows of a page's table, by the section that it is in: cells as they are written.
    private func rows(_ page: String, _ section: String) throws -> [[String]] {
        let text = try Sources.text("\(Self.pages)/\(page).md")
        let part = try #require(text.components(separatedBy: "\n## \(section)\n").dropFirst().first)
        let own = part.components(separatedBy: "\n## ")[0]
        return own.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst().map { row in
            row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    private func codes(_ cell: String) -> [String] {
        cell.matches(of: #/`([^`]+)`/#).map { String($0.output.1) }
    }

    @Test("The state folder has the files of the table, and no others")
    func files() async throws {
        let names = try rows("Operations", "The state folder").flatMap { codes($0[0]) }
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let plugin = PluginSetup(name: "more").json(folder: bench.folder.path)
            try bench.folder.write("more.json", #"{"version": 1, "plugins": [\#(plugin)]}"#)
            try await bench.steer("hooks", "add", bench.path("more.json"), "--persist")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let found = try FileManager.default.contentsOfDirectory(atPath: bench.path("state")).map {
                let name = $0.replacing(id, with: "<store id>")
                return name == "hooks.d" ? "hooks.d/" : name
            }
            #expect(
                Set(found.filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") && $0 != "control.sock" })
                    == Set(names))
        }
    }

    @Test("Each command has the options that the table gives it, and takes the common ones")
    func options() async throws {
        // All of it from one process: each start of the program takes its time.
        let all = try Tree(
            try await Command(BuiltProducts.path("historyctl"), ["--experimental-dump-help"]).succeed()
        )["command"]
        var checked = 0
        for row in try rows("Control", "Overview") {
            let cell = codes(row[0])
            guard let first = cell.first else { continue }
            let words = first.split(separator: " ").map(String.init)
            let command = words.prefix { $0.wholeMatch(of: #/[a-z-]+/#) != nil && !$0.hasPrefix("-") }
            let found = command.reduce(all) { tree, word in
                tree["subcommands"].list.first { $0["commandName"].text == word } ?? tree["none"]
            }
            #expect(found["commandName"].text == command.last, "\(command)")
            // An option of one of its subcommands is named with them.
            let parts = [found] + found["subcommands"].list
            let options = Set(
                parts.flatMap { $0["arguments"].list }.flatMap { $0["names"].list }.compactMap(\.["name"].text))
            for option in row[0].matches(of: #/--[a-z-]+/#).map({ String($0.output) }) where option != "--all" {
                checked += 1
                #expect(options.contains(String(option.dropFirst(2))), "\(command) \(option)")
            }
            if parts.count > 1 { continue }
            let name = command.joined(separator: " ")
            let (forPeople, streams) = (["top", "tail"], ["top", "tail", "follow", "feed"])
            #expect(options.contains("format") != (forPeople + ["metrics"]).contains(name), "\(name)")
            #expect(options.contains("timeout") != streams.contains(name), "\(name)")
            #expect(options.contains("socket"), "\(name)")
        }
        #expect(checked > 8)
    }

    @Test("The exit statuses are those of the table, in the help as well, and the programs end with them")
    func statuses() async throws {
        let listed = try rows("Control", "Exit statuses").map { $0[0] }
        #expect(listed == ["0", "1", "2", "64", "65", "66", "69", "70", "74", "75", "77", "78"])
        let help = try await Command(BuiltProducts.path("historyctl"), ["--help"]).succeed()
        let nats = BuiltProducts.path("historyd-nats")
        for status in listed where (Int(status) ?? 0) >= 64 {
            #expect(help.contains("\(status) "), "\(status)")
        }
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            func expect(_ expected: (status: Int32, command: String)...) async throws {
                let programs = try expected.map {
                    try bench.startCtl($0.command.split(separator: " ").map(String.init))
                }
                for (program, expected) in zip(programs, expected) {
                    let ending = try await program.end()
                    #expect(ending == .exited(expected.status), "\(expected.command): \(program.errors)")
                }
            }
            try await expect(
                (69, "status"), (69, "history \(bench.store)"),
                (66, "history \(bench.store).other"))
            let daemon = try await bench.startDaemon()
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let foreign = "5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1"
            try await expect(
                (0, "status"), (0, "health"), (64, "status --no-such-option"),
                (64, "history \(bench.store) --after text"), (65, "history \(bench.store) --after \(foreign)"),
                (64, "wait --consumer MainApp --token text"),
                (65, "wait --consumer MainApp --token \(foreign)"),
                (65, "wait --consumer MainApp --token \(id):99"), (66, "pause nobody"))
            try bench.folder.write("historyd.json", "{")
            try await expect((78, "reload"))
            try await expect((1, "health"))
            try await daemon.stop()

            try bench.folder.write(
                "nats.json",
                #"{"version": 1, "servers": ["nats://127.0.0.1:1"], "follow": [{"name": "a", "path": "m.sqlite"}]}"#
            )
            try bench.folder.write("wrong.json", "{")
            let unknown = ["publish", "--new-epoch", "nobody", "--config"]
            for (status, arguments) in [
                (66, unknown + [bench.path("nats.json")]), (78, unknown + [bench.path("wrong.json")]),
                (69, ["status", "--socket", bench.path("none")]), (64, ["status", "--timeout", "soon"]),
            ] as [(Int32, [String])] where FileManager.default.isExecutableFile(atPath: nats) {
                let program = try bench.start([nats] + arguments, "nats-\(UUID().uuidString)")
                let ending = try await program.end()
                #expect(ending == .exited(status), "\(arguments): \(program.errors)")
            }
        }
    }
}
