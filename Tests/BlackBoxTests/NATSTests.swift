import Foundation
import Glibc
import TestSupport
import Testing

/// A store and its mirror, with a real nats-server between them: `Tests/Tools/NATS/nats.py`.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/bin/nats-server")
            || FileManager.default.isExecutableFile(atPath: "/usr/sbin/nats-server"),
        "needs nats-server"), .timeLimit(.minutes(60)))
struct NATSTests {
    @Test("A mirror is equal, and a hook behind it has every transaction in order")
    func basic() async throws { try await run("basic") }

    @Test("Restored, diverged, cleaned, passed by, removed: a snapshot makes the mirror equal")
    func losses() async throws { try await run("losses") }

    @Test(
        "Streams lost, trimmed, expired or of another store, and nothing written: the mirror is equal, or says why not"
    )
    func stale() async throws { try await run("stale") }

    @Test("Messages of somebody else are skipped; the mirror is equal afterwards")
    func foreign() async throws { try await run("foreign") }

    @Test(
        "A server that is silent is noticed, a damaged mirror is filled again, a server without JetStream is named"
    )
    func operating() async throws { try await run("operating") }

    @Test("The permissions of the page NATS are enough, and a follower's user cannot publish")
    func permissions() async throws { try await run("permissions") }

    @Test(
        "Tables altered, renamed, made again, between groups and within one: the mirror is equal, in the same words"
    )
    func ddl() async throws { try await run("ddl") }

    @Test("A server whose messages are smaller than a part, before and after it is started with other limits")
    func payload() async throws { try await run("payload") }

    @Test("A request for a snapshot that is lost on its way to the server")
    func requests() async throws { try await run("requests") }

    @Test("The system's clock is set: new sessions begin")
    func clock() async throws { try await run("clock") }

    @Test("A snapshot that its publisher abandoned, while the follower was applying it")
    func abandoned() async throws { try await run("abandoned") }

    @Test("A slow network does not prolong the read transaction of a snapshot")
    func slow() async throws { try await run("slow") }

    @Test(
        "A full disk of the mirror, of the publisher's spool folder, of the server",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)))
    func disks() async throws { try await run("disks") }

    private static let hasPostgreSQL =
        FileManager.default.isExecutableFile(atPath: "/usr/bin/psql")
        && !((try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []).isEmpty

    @Test(
        "The page's samples print changes, and feed a table of PostgreSQL exactly once",
        .enabled(if: hasPostgreSQL, "needs PostgreSQL: apt-get install postgresql"),
        .enabled(if: StreamPackages.areThere, StreamPackages.missing))
    func samples() async throws { try await run("samples", StreamPackages.python) }

    @Test(
        "Bad days: slow links, mute servers, lost requests, copies, two publishers, snapshots that do not fit",
        arguments: [
            "words", "unsigned", "status_header", "remade", "lost_consumer", "mute", "slow_publisher",
            "slow_follower", "between", "expired", "copied", "two_publishers", "two_followers", "beat",
            "domain", "foreign_rate",
        ])
    func adversity(scenario: String) async throws { try await run(scenario, in: "adversity.py") }

    @Test("What goes through to mirrors, and one that becomes the source", arguments: ["entities", "promote"])
    func choices(scenario: String) async throws { try await run(scenario, in: "choices.py") }

    @Test(
        "What goes through to mirrors, with the newest server",
        .enabled(if: StreamPackages.areThere, StreamPackages.missing), arguments: ["entities", "promote"])
    func newestChoices(scenario: String) async throws { try await runOnNewest(scenario, in: "choices.py") }

    @Test(
        "The newest server: its words, losses and loads",
        .enabled(if: StreamPackages.areThere, StreamPackages.missing),
        arguments: ["words", "remade", "beat", "refused_snapshot", "domain", "compressed", "foreign_rate"])
    func newestServer(scenario: String) async throws {
        try await runOnNewest(scenario, in: "adversity.py")
    }

    private func runOnNewest(_ scenario: String, in script: String) async throws {
        let server = URL(filePath: StreamPackages.python).deletingLastPathComponent().appending(
            path: "nats-server")
        try await run(scenario, in: script, environment: ["NATS_SERVER": server.path])
    }

    private func run(
        _ arguments: String..., in script: String = "nats.py", environment: [String: String] = [:]
    ) async throws {
        try await withWorkbench { bench in
            _ = try await BuiltProducts.libhistory()
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../Tools/NATS/\(script)").standardized.path
            let programs = URL(filePath: Products.historyd).deletingLastPathComponent().path
            let run = try bench.start(
                [Products.python, script, programs] + arguments, "nats",
                environment: environment.merging(["TMPDIR": bench.folder.path]) { $1 })
            let ending = try await run.end(within: .seconds(500))
            print(run.output)
            #expect(ending == .exited(0), "\(run.output)\n\(run.errors)")
        }
    }
}
