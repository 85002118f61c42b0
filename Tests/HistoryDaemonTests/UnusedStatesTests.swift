import Foundation
import TestSupport
import Testing

@testable import HistoryDaemon

/// Which states go, and how often a plugin that fails is told of.
@Suite struct UnusedStatesTests {
    private static let day = 86_400

    @Test func onlyWhatIsOldAndNobodyAsksForGoes() {
        func state(_ id: String, days: Int, store: String? = nil) -> UnusedStates.State {
            UnusedStates.State(id: id, files: [id], changedAt: 1000 * Self.day - days * Self.day, store: store)
        }
        let states = [
            state("old", days: 91, store: "/replaced"), state("young", days: 89, store: "/replaced"),
            state("served", days: 1000, store: "/here"), state("waiting", days: 1000, store: "/unmounted"),
            state("homeless", days: 91),
        ]
        let expired = UnusedStates.expired(
            states, served: ["served"], waiting: ["/unmounted"], now: 1000 * Self.day)
        #expect(expired.map(\.id) == ["old", "homeless"])
    }

    @Test func aStateIsAllItsFilesAndNoOthers() throws {
        let folder = try TemporaryFolder()
        let id = UUID().uuidString.lowercased()
        for name in [
            "\(id).sqlite", "\(id).sqlite-wal", "\(id).sqlite.damaged-20261122T023000Z", "historyd.lock",
            "notes.sqlite", "hooks.d/\(id).store",
        ] {
            try folder.write(name, "")
        }
        try folder.write("\(id).store", "/srv/contacts.sqlite")
        let states = try UnusedStates.find(in: folder.path)
        // One that was damaged stays as long, whether or not its store is served.
        #expect(states.map(\.id) == [id, "\(id).sqlite.damaged-20261122T023000Z"])
        #expect(states[0].files.sorted() == ["\(id).sqlite", "\(id).sqlite-wal", "\(id).store"])
        #expect(states[0].store == "/srv/contacts.sqlite")
        #expect(states[0].changedAt > 1_700_000_000)
    }

    @Test func aPluginThatEndsAgainAndAgainIsToldOfOnceAnHour() {
        var pace = PluginLog.Pace()
        let start = ContinuousClock.now
        var words: [PluginLog.Pace.Word] = []
        for count in 1...300 { words.append(pace.word(count: count, at: start + .seconds(30 * count))) }
        #expect(words[0] == .first && words[4] == .failing)
        #expect(words.indices.filter { words[$0] != .repeated } == [0, 4, 124, 244])
        #expect(pace.word(count: 1, at: start) == .first, "it has worked in between")
    }
}
