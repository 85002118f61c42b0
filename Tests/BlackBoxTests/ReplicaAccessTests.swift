import Foundation
import Glibc
import TestSupport
import Testing

/// Another user reads a replica, as the configuration says.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: Users.obstacle == nil, Comment(rawValue: Users.obstacle ?? "")), .timeLimit(.minutes(60)))
struct ReplicaAccessTests {
    private static let reader = 61003

    /// A daemon that is no root, with the umask of the unit, in the reader's group.
    private func start(_ bench: Workbench) throws -> DaemonUnderTest {
        try bench.launchDaemon(
            under: Users.run(as: Users.daemon, [Users.app]) + ["/bin/sh", "-c", "umask 077; exec \"$@\"", "sh"])
    }

    private func prepare(_ bench: Workbench, _ access: String) async throws {
        try bench.configure(
            StoreSetup(
                authors:
                    #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "view/replica.sqlite"\#(access)}]}]"#
            ),
            plugins: [])
        try await bench.start(
            [
                "/bin/sh", "-ec",
                "cd '\(bench.folder.path)'; mkdir state view; chown \(Users.daemon) state view . contacts.sqlite*; chmod 755 . view",
            ], "prepare"
        ).succeed()
    }

    private func read(_ bench: Workbench, groups: [Int]) async throws -> String {
        let program = try bench.start(
            Users.run(as: Self.reader, groups) + [
                Products.shell, "-bail", "-readonly", bench.path("view/replica.sqlite"), ".timeout 10000",
                "SELECT count(*) FROM person",
            ], "reader-\(UUID().uuidString)")
        return try await program.end() == .exited(0) ? program.output : program.errors
    }

    @Test("A group reads it while the daemon works, when it has ended, and when the replica is made again")
    func group() async throws {
        try await withWorkbench { bench in
            try await prepare(bench, #", "mode": "0640", "group": "\#(Users.app)""#)
            for round in 0..<2 {
                let daemon = try start(bench)
                try await daemon.ready()
                for count in (round * 10 + 1)...(round * 10 + 5) {
                    try await bench.write("INSERT INTO person (id) VALUES (\(count + 100))", as: "App")
                    let expected = count - round * 5
                    try await eventually("\(expected) rows", state: { daemon.log.joined(separator: "\n") }) {
                        let rows = try await read(bench, groups: [Users.app])
                        // A new one is not there, has no tables, or no side files that can be read alone, at first.
                        #expect(
                            Int(rows.dropLast()) != nil || rows.contains("no such table")
                                || rows.contains("unable to open") || rows.contains("readonly database"),
                            "\(rows)")
                        return rows == "\(expected)\n"
                    }
                }
                for name in ["", "-wal", "-shm"] {
                    var status = stat()
                    #expect(stat(bench.path("view/replica.sqlite\(name)"), &status) == 0)
                    #expect(status.st_mode & 0o777 == 0o640 && status.st_gid == Users.app, "\(name)")
                }
                #expect(try await read(bench, groups: []).contains("unable to open"))
                try await daemon.stop()
                #expect(try await read(bench, groups: [Users.app]) == "\(round * 5 + 5)\n")
                // Made again.
                for name in ["", "-wal", "-shm"] { unlink(bench.path("view/replica.sqlite\(name)")) }
            }
        }
    }

    @Test("Without a mode it is the daemon's alone, whatever the umask", arguments: ["000", "022", "077"])
    func privateByDefault(umask: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()), plugins: [])
            let daemon = try bench.launchDaemon(
                under: ["/bin/sh", "-c", "umask \(umask); exec \"$@\"", "sh"])
            try await daemon.ready()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.quiet()
            for file in ["", "-wal", "-shm"] {
                let path = bench.path("replica.sqlite\(file)")
                let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
                #expect(mode == 0o600, "\(path)")
            }
            try await daemon.stop()
        }
    }

    @Test("Everybody reads it, and a group that the daemon is not in is told of")
    func others() async throws {
        try await withWorkbench { bench in
            try await prepare(bench, #", "mode": "0644""#)
            try await bench.write("INSERT INTO item (code) VALUES ('a')", as: "App")
            var daemon = try start(bench)
            try await daemon.ready()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "App")
            try await eventually("the row") { try await read(bench, groups: []) == "1\n" }
            try await daemon.stop()
            try await prepareAgain(bench, #", "group": "61999""#)
            daemon = try start(bench)
            let line = try await daemon.logged("event=contextFailed")
            #expect(line.contains("cannot be given to group \"61999\""), "\(line)")
            try await daemon.stop()
            try await prepareAgain(bench, #", "group": "no-such-group""#)
            daemon = try start(bench)
            #expect(
                try await daemon.logged("event=contextFailed").contains("there is no group \"no-such-group\""))
            try await daemon.stop()
        }
    }

    private func prepareAgain(_ bench: Workbench, _ access: String) async throws {
        try bench.configure(
            StoreSetup(
                authors:
                    #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "view/replica.sqlite"\#(access)}]}]"#
            ),
            plugins: [])
    }
}
