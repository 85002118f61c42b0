import Foundation
import TestSupport
import Testing

/// Stores that cannot be watched wait alone.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: Users.obstacle == nil, Comment(rawValue: Users.obstacle ?? "")), .timeLimit(.minutes(60)))
struct WatchTroubleTests {
    /// Two stores, the second in a folder of its own, all of the daemon's user.
    private func prepare(_ bench: Workbench) async throws {
        try bench.configure(
            StoreSetup(), StoreSetup(name: "other", path: "closed/other.sqlite"), plugins: [])
        try await asRoot(
            bench,
            "mkdir state closed; sqlite3 closed/other.sqlite 'PRAGMA journal_mode = WAL' '\(Workbench.schema)'; chown -R \(Users.daemon):\(Users.daemon) .; chmod 755 ."
        )
    }

    private func asRoot(_ bench: Workbench, _ script: String) async throws {
        try await bench.start(
            ["/bin/sh", "-ec", "cd '\(bench.folder.path)'; \(script)"], "root-\(UUID().uuidString)"
        ).succeed()
    }

    @Test("An unreadable folder is one store's trouble, until it can be read")
    func unreadable() async throws {
        try await withWorkbench { bench in
            try await prepare(bench)
            // It may be passed and written, not read.
            try await asRoot(bench, "chown root:\(Users.daemon) closed; chmod 730 closed")
            let daemon = try bench.launchDaemon(under: Users.run(as: Users.daemon))
            try await daemon.ready()
            let line = try await daemon.logged("event=watchFailed")
            #expect(
                line.contains("Store \"other\" cannot be watched")
                    && line.contains("setfacl -m u:\(Users.daemon):rwx"), "\(line)")
            try await daemon.logged("Store \"contacts\" is open at")
            let status = try await bench.steer("status")
            #expect(status.contains("waiting") && status.contains("Cannot watch"), "\(status)")
            let reload = try await bench.steer("reload")
            #expect(reload.contains("warning: Store \"other\" waits. Cannot watch"), "\(reload)")
            let check = try bench.launchDaemon(
                ["--check-config"], name: "check", under: Users.run(as: Users.daemon))
            #expect(try await check.program.end() == .exited(0))
            #expect(check.log.contains { $0.contains("Store \"other\" would wait. Cannot watch") })
            #expect(check.log.allSatisfy { !$0.contains("\"contacts\"") })
            try await daemon.sparing()
            let command = try #require(line.firstMatch(of: /As root: (.*) event=/)?.1)
            try await asRoot(bench, String(command))
            try await daemon.logged("Store \"other\" is open at")
            #expect(daemon.log.count { $0.contains("event=watchFailed") } == 1)
            // Lost while it runs: what was not read again is noticed when the way has to be followed again.
            try await asRoot(
                bench,
                "setfacl -b closed; chmod 730 closed; cp -p closed/other.sqlite copy; mv copy closed/other.sqlite"
            )
            try await daemon.logged("event=watchFailed", times: 2)
            try await asRoot(bench, "chmod 770 closed")
            try await daemon.logged("Store \"other\" is open at", times: 2)
            try await daemon.stop()
            // The groups that a unit adds are not this process's.
            try await asRoot(bench, "chown root:\(Users.app) closed; chmod 770 closed")
            let grouped = try bench.launchDaemon(
                ["--check-config"], name: "grouped", under: Users.run(as: Users.daemon))
            #expect(try await grouped.program.end() == .exited(0))
            #expect(
                grouped.log.contains {
                    $0.contains(
                        "Store \"other\" would wait, unless its unit has SupplementaryGroups=\(Users.app),")
                }, "\(grouped.log)")
        }
    }

    @Test("Without inotify all wait, the daemon serves its socket, and what is polled goes on")
    func noInstance() async throws {
        try await withWorkbench { bench in
            try await prepare(bench)
            try bench.configure(
                StoreSetup(), StoreSetup(name: "other", path: "closed/other.sqlite", more: #""poll": "100ms""#),
                plugins: [])
            try await asRoot(bench, "chown -R 0:0 .")
            // In a user namespace of its own, which has its own count of instances.
            let limited = [
                "/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c",
                "echo 0 > /proc/sys/user/max_inotify_instances; exec \"$@\"", "sh",
            ]
            let daemon = try bench.launchDaemon(under: limited)
            try await daemon.ready()
            let line = try await daemon.logged("event=watchFailed")
            #expect(
                line.contains("Store \"contacts\" cannot be watched") && line.contains("max_user_instances"),
                "\(line)")
            try await daemon.logged("Store \"other\" is open at")
            try await daemon.stop()
        }
    }
}
