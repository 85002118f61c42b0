import Logging
import PersistentHistory
import Testing

@testable import HistoryDaemon

@Suite struct JournalEntryTests {
    private func fields(_ entry: JournalEntry) -> [String] {
        var start = 0
        return entry.ends.map { end in
            defer { start = end }
            return String(decoding: entry.bytes[start..<end], as: UTF8.self)
        }
    }

    @Test func knownKeysBecomeFieldsAndTheOthersText() {
        let entry = JournalEntry(
            level: .error, message: "A hook failed.",
            metadata: [
                "store": "contacts", "hook": "audit/new-people", "attempt": "3", "reason": "exit status 1",
                "event": .string(MessageCode.hookHeld.rawValue),
            ])
        #expect(
            fields(entry) == [
                "MESSAGE=A hook failed. attempt=3 reason=\"exit status 1\"",
                "PRIORITY=3",
                "MESSAGE_ID=\(MessageCode.hookHeld.rawValue)",
                "HISTORYD_HOOK=audit/new-people",
                "HISTORYD_STORE=contacts",
            ])
    }

    @Test func valuesAreKeptByteForByte() {
        let value = "two\nlines = \"and\" a tab\t\u{1F5C4}"
        let entry = JournalEntry(level: .info, message: value, metadata: ["author": .string(value)])
        #expect(fields(entry).first == "MESSAGE=\(value)")
        #expect(fields(entry).last == "HISTORYD_AUTHOR=\(value)")
    }

    /// journald drops any other field without a word.
    @Test(arguments: JournalEntry.fieldNames.values.sorted())
    func fieldNamesAreOnesThatJournaldTakes(name: String) {
        #expect((1...64).contains(name.utf8.count))
        #expect(!name.hasPrefix("_"))
        #expect(name.allSatisfy { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") })
    }

    /// Metadata comes from anywhere: a key is never the name of a field, and no MESSAGE_ID is made up.
    @Test func unknownKeysNeverNameAField() {
        let entry = JournalEntry(
            level: .info, message: "m",
            metadata: ["MESSAGE_ID": "x", "_PID": "1", "priority": "0", "event": "birthday"])
        #expect(fields(entry).count == 2)
        #expect(fields(entry)[0] == "MESSAGE=m MESSAGE_ID=x _PID=1 event=birthday priority=0")
    }

    @Test(arguments: zip(Logger.Level.allCases, [7, 7, 6, 5, 4, 3, 2]))
    func levelsArePriorities(level: Logger.Level, priority: Int) {
        #expect(level.syslogPriority == priority)
    }
}

@Suite struct JournalTextTests {
    @Test func aLineIsLevelMessageAndMetadataInOrder() {
        let line = LogText.line(
            level: .warning, message: "A hook failed.",
            metadata: ["store": "contacts", "attempt": "3", "event": .string(MessageCode.hookFailed.rawValue)])
        #expect(line == "warning: A hook failed. attempt=3 event=hookFailed store=contacts")
    }

    @Test(arguments: [
        ("plain", "key=plain"), ("", "key=\"\""), ("two words", "key=\"two words\""),
        ("say \"no\" \\", "key=\"say \\\"no\\\" \\\\\""), ("a\nb", "key=\"a\\nb\""), ("Grüße", "key=Grüße"),
    ])
    func valuesAreQuotedWhereTheyMustBe(value: String, pair: String) {
        #expect(LogText.pair("key", .string(value)) == pair)
    }

    /// One event is one line, and nothing that a plugin prints can steer the reader's terminal.
    @Test func whateverIsLoggedStaysOnOneLine() {
        let controls = (UInt32(0)..<0xa0).compactMap(Unicode.Scalar.init)
        for scalar in controls + ["\u{2028}", "\u{2029}"] {
            let text = "before\(scalar)after"
            let line = LogText.line(level: .info, message: text, metadata: ["key": .string(text)])
            #expect(
                line.unicodeScalars.allSatisfy {
                    ![.control, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
                }, "\(scalar.value)")
        }
    }
}
