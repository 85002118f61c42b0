import Foundation
import TestSupport
import Testing

/// No transaction of an application fails because historyd writes to its store.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .serialized, .timeLimit(.minutes(60)))
struct GuestTests {
    @Test(
        "Applications that read and then write fail no more than without historyd, whatever it does meanwhile",
        arguments: [
            "cleaned after each notification", "no pause between transactions", "50 ms between read and write",
            "several applications and readers", "cleaned by time", "a transaction that stays open",
            "historyctl clean", "tables are made", "track and untrack", "the daemon is killed",
        ])
    func noFailures(name: String) async throws {
        let printed = try await Command(
            "/usr/bin/python3",
            [Sources.path("Tests/Tools/Guests/guests.py"), "check", "--seconds", "3", "--only", name],
            environment: ["HISTORYD_BIN": (Products.historyd as NSString).deletingLastPathComponent]
        ).succeed()
        #expect(printed.trimmingCharacters(in: .whitespacesAndNewlines) == "ok")
    }
}
