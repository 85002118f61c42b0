import Foundation
import TestSupport
import Testing

/// What the other tests here run programs with.
@Suite(.timeLimit(.minutes(60))) struct CtlCommandTests {
    @Test func statusAndBothOutputsComeBack() async throws {
        let outcome = try await Command(
            "sh", ["-c", "cat; echo \"$X\"; echo no >&2; exit 3"], input: "in\n", environment: ["X": "x"]
        ).run()
        #expect(outcome.status == .exited(3))
        #expect(outcome.output == "in\nx\n")
        #expect(outcome.errors == "no\n")
        #expect(try await Command("sh", ["-c", "kill -9 $$"]).run().status == .killed(signal: 9))
    }

    /// A program whose children hold its output open would make a test hang for ever.
    @Test func whatDoesNotEndIsKilledWithItsChildren() async throws {
        let folder = try TemporaryFolder()
        let pipe = folder.file("pipe")
        try await Command("mkfifo", [pipe]).succeed()
        // The reader of the pipe ends when its last writer does: the program and its child.
        async let end = Command("cat", [pipe], limit: .seconds(50)).run()
        await #expect(throws: Command.Failure.self) {
            try await Command("sh", ["-c", "exec 3>\(pipe); sleep 1000 & wait"], limit: .seconds(2)).run()
        }
        // Where the machine was so busy that the program did not get to open the pipe, its reader still waits.
        try await Command("sh", ["-c", ": <>\(pipe)"]).succeed()
        #expect(try await end.status == .exited(0))
    }

    @Test func theBuildsProductsAreFound() async throws {
        for path in [BuiltProducts.historyd, BuiltProducts.historyctl, try await BuiltProducts.libhistory()] {
            #expect(FileManager.default.fileExists(atPath: path), "\(path)")
        }
    }
}
