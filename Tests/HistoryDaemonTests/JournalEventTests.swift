import FoundationEssentials
import Logging
import PersistentHistory
import Testing

@testable import HistoryDaemon

/// The events of the program and the catalog that explains them to operators are one list.
@Suite struct JournalEventTests {
    /// The entries of systemd/historyd.catalog by id.
    private static let catalog: [(id: String, text: String)] = {
        let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let file = package.appending(path: "systemd/historyd.catalog")
        guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
        return text.split(separator: "\n-- ").dropFirst().map { entry in
            (String(entry.prefix { $0 != "\n" }), String(entry.drop { $0 != "\n" }))
        }
    }()

    @Test func everyEventHasOneEntryAndEveryEntryAnEvent() {
        #expect(Self.catalog.map(\.id).sorted() == MessageCode.allCases.map(\.rawValue).sorted())
    }

    /// Operators look events up there.
    @Test func thePageForOperatorsHasEveryEventWithItsLevelAndID() throws {
        let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(
            contentsOf: package.appending(
                path: "Sources/PersistentHistory/PersistentHistory.docc/Messages.md"),
            encoding: .utf8)
        let rows = page.matches(of: #/\n\| `(\w+)` \| (\w+) \| [^|]+ \| `([0-9a-f]{32})` \|/#).map {
            "\($0.output.1) \($0.output.2) \($0.output.3)"
        }
        let names: [Logger.Level: String] = [.error: "err", .critical: "crit"]
        #expect(
            rows == MessageCode.allCases.map { "\($0) \(names[$0.level] ?? $0.level.rawValue) \($0.rawValue)" })
    }

    @Test(arguments: MessageCode.allCases)
    func theIDIsA128BitNumber(event: MessageCode) {
        #expect(event.rawValue.count == 32)
        #expect(event.rawValue.allSatisfy { $0.isHexDigit && !$0.isUppercase })
    }

    /// systemd.journal-fields and the catalog's own format: a subject, then what it means.
    @Test(arguments: MessageCode.allCases)
    func theEntrySaysWhatItMeansAndWhatToDo(event: MessageCode) throws {
        let entry = try #require(Self.catalog.first { $0.id == event.rawValue }).text
        #expect(entry.contains("\nSubject: "))
        #expect(entry.contains("\nDefined-By: historyd\n"))
        let paragraphs = entry.split(separator: "\n\n").dropFirst()
        #expect(paragraphs.count == 3, "cause, whether it is an error, what to do")
    }

    @Test(arguments: MessageCode.allCases)
    func theEntrySaysWhetherItIsAnErrorAsTheLevelDoes(event: MessageCode) throws {
        let entry = try #require(Self.catalog.first { $0.id == event.rawValue }).text
        switch event.level {
        case .error, .critical: #expect(entry.contains("This is an error"))
        case .warning: #expect(entry.contains("This is an error") || entry.contains("This is not an error"))
        default: #expect(entry.contains("This is not an error."))
        }
    }

    /// A variable that is no field of ours would be shown as it stands.
    @Test func entriesNameKnownFieldsOnly() {
        let known = Set(JournalEntry.fieldNames.values)
        for (id, text) in Self.catalog {
            let variables = text.split(separator: "@", omittingEmptySubsequences: false).enumerated()
                .filter { $0.offset % 2 == 1 }.map { String($0.element) }
            #expect(known.isSuperset(of: variables), "\(id)")
        }
    }
}
