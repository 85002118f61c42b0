import Foundation
import TestSupport
import Testing

/// No transaction of an application fails because historyd writes to its store.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(15)))
struct GuestTests {
    @Test(
        "Applications that read and then write fail no more than without historyd, whatever it does meanwhile")
    func noFailures() async throws {
        let printed = try await Command(
            "/usr/bin/python3", [Sources.path("Tests/Guests/guests.py"), "check", "--seconds", "3"],
            environment: ["HISTORYD_BIN": (Products.historyd as NSString).deletingLastPathComponent]
        ).succeed()
        #expect(printed.trimmingCharacters(in: .whitespacesAndNewlines) == "ok")
    }
}
