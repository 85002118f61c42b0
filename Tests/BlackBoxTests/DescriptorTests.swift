import Foundation
import TestSupport
import Testing

/// A daemon that may have fewer descriptors than its stores need.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct DescriptorTests {
    private static let stores = 20

    private func prepare(_ bench: Workbench) async throws {
        let paths = (0..<Self.stores).map { "s\($0)" }
        for path in paths { try await bench.sql(Workbench.schema, of: bench.path("\(path).sqlite")) }
        let stores = paths.map { name in
            StoreSetup(
                name: name, path: "\(name).sqlite", entities: #"{"person": {}}"#,
                authors:
                    #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "\#(name)-replica.sqlite"}]}]"#
            ).json
        }
        let shell = #"["/bin/sh", "-c", "echo soft $(ulimit -Sn) >&2; exec cat"]"#
        try bench.folder.write(
            "plugins.json",
            #"{"version": 1, "plugins": [{"name": "limits", "mode": "coprocess", "command": \#(shell), "hooks": [{"name": "all", "kind": "observer", "store": "s0"}]}]}"#
        )
        try bench.folder.write(
            "historyd.json",
            #"{"version": 1, "stores": [\#(stores.joined(separator: ", "))], "plugins": ["plugins.json"]}"#)
    }

    private func ids(_ bench: Workbench) async throws -> [String] {
        var ids: [String] = []
        for number in 0..<Self.stores {
            ids += try await bench.sql(
                "SELECT value FROM historyd_store WHERE key = 'id'",
                of: bench.path("s\(number).sqlite")
            ).split(separator: "\n").map(String.init)
        }
        return ids
    }

    @Test("Stores that do not fit wait alone and say what they need; the daemon answers, and goes on with more")
    func tooFew() async throws {
        try await withWorkbench { bench in
            try await prepare(bench)
            let daemon = try bench.launchDaemon(under: ["/usr/bin/prlimit", "--nofile=200:200"])
            try await daemon.ready()
            let line = try await daemon.logged("needs 15 descriptors")
            #expect(line.contains("the limit is 200") && line.contains("LimitNOFILE="), "\(line)")
            let waiting = daemon.log.count { $0.contains("needs 15 descriptors") }
            #expect(waiting > 0 && waiting < Self.stores)
            #expect(!daemon.log.contains { $0.contains("permission") || $0.contains("Too many open files") })
            let status = try await bench.steer("status")
            #expect(status.contains("needs 15 descriptors"))
            let reload = try await bench.steer("reload")
            #expect(reload.contains("needs 15 descriptors"))
            let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(daemon.processID)/fd")
                .count
            #expect(files < 190)

            do {
                try await bench.start(
                    ["/usr/bin/prlimit", "--pid", "\(daemon.processID)", "--nofile=1000:1000"], "prlimit"
                ).succeed()
            } catch {
                print("skipped: the limit of another process is raised only with CAP_SYS_RESOURCE: \(error)")
                return try await daemon.stop()
            }
            try await daemon.logged("\" is open at", times: Self.stores)
            let ids = try await ids(bench)
            #expect(Set(ids).count == Self.stores && !ids.contains { $0.hasPrefix("00000000") }, "\(ids)")
            try await daemon.stop()
        }
    }

    @Test("A daemon that can open nothing any more stops in order")
    func stops() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await daemon.quiet()
            let limit = ["/usr/bin/prlimit", "--pid", "\(daemon.processID)", "--nofile=3:3"]
            try await bench.start(limit, "prlimit").succeed()
            try await daemon.stop()
        }
    }

    private static func filesOfStores(_ process: Int32) throws -> Int {
        let folder = "/proc/\(process)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).count {
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
            return path?.contains(".sqlite") == true || path?.hasSuffix(".lock") == true
        }
    }

    @Test("The daemon takes all that it may have; its plugins keep the limit that it was started with")
    func raised() async throws {
        try await withWorkbench { bench in
            try await prepare(bench)
            let daemon = try bench.launchDaemon(under: ["/usr/bin/prlimit", "--nofile=200:4096"])
            try await daemon.ready()
            try await daemon.logged("\" is open at", times: Self.stores)
            try await daemon.logged("soft 200")
            #expect(!daemon.log.contains { $0.contains("descriptors") })
            // What a store takes is what it says that it needs.
            try await bench.sql("INSERT INTO person VALUES (1, 'Ada', NULL, NULL)", of: bench.path("s0.sqlite"))
            try await daemon.quiet()
            #expect(try Self.filesOfStores(daemon.processID) <= 15 * Self.stores + 1)
            try await daemon.stop()
        }
    }
}
