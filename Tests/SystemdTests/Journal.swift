import FoundationEssentials
import TestSupport
import Testing

/// One entry of the journal: its fields that are text.
struct JournalEntry: Decodable, Sendable {
    private let fields: [String: String]

    subscript(_ field: String) -> String? { fields[field] }
    var message: String { fields["MESSAGE"] ?? "" }

    /// As journalctl sees it: `FIELD=VALUE`, or `--unit=…` for what the unit and what systemd says of it.
    fileprivate func fits(_ match: String) -> Bool {
        let parts = match.split(separator: "=", maxSplits: 1).map(String.init)
        let names = parts[0] == "--unit" ? ["_SYSTEMD_UNIT", "UNIT"] : [parts[0]]
        return names.contains { fields[$0] == parts[1] }
    }

    private enum Value: Decodable {
        case text(String)
        case other

        init(from decoder: any Decoder) throws {
            // What is no text, or comes several times, is an array.
            self = (try? decoder.singleValueContainer().decode(String.self)).map(Value.text) ?? .other
        }
    }

    init(from decoder: any Decoder) throws {
        fields = try decoder.singleValueContainer().decode([String: Value].self).compactMapValues {
            if case .text(let text) = $0 { text } else { nil }
        }
    }
}

/// A place in the journal: the tests share one.
struct JournalMark: Sendable {
    fileprivate let cursor: String

    fileprivate func isAt(_ entry: JournalEntry) -> Bool { entry["__CURSOR"] == cursor }
}

extension Container {
    /// The end of the journal as it is now.
    func markJournal() async throws -> JournalMark {
        try await succeed("journalctl", "--sync")
        let output = try await succeed("journalctl", "--lines=1", "--show-cursor", "--output=cat", "--quiet")
        return JournalMark(cursor: String(try #require(output.split(separator: "-- cursor: ").last)))
    }

    /// The entries after the mark, in order, that match (see journalctl(1): `FIELD=VALUE`, `--unit=…`).
    func journal(after mark: JournalMark, _ matches: String...) async throws -> [JournalEntry] {
        try await succeed("journalctl", "--sync")
        let command = query(from: mark, matches) + ["--quiet"]
        return try await SystemdTests.run(enter(command)).output.split(separator: "\n").map(decode)
            .filter { !mark.isAt($0) }
    }

    /// Waits for the first entry after the mark that matches and is what is looked for, or for the
    /// `count`th of them. The matches are applied here: a journalctl that follows with matches can miss
    /// the first entry that comes after it found none.
    ///
    /// - Throws: `ChildProcess.Failure` with the end of the journal, if there is none within five minutes.
    @discardableResult
    func waitForJournal(
        after mark: JournalMark, _ matches: String..., count: Int = 1,
        until isFound: @Sendable (JournalEntry) -> Bool = { _ in true }
    ) async throws -> JournalEntry {
        // Each reading begins at the mark: what one that follows has missed, the next one finds.
        for _ in 0..<10 {
            var missing = count
            let found = try await followJournal(after: mark) { entry in
                guard matches.allSatisfy(entry.fits), isFound(entry) else { return false }
                missing -= 1
                return missing == 0
            }
            if let found { return found }
        }
        let end = try await succeed("journalctl", "--lines=40", "--no-hostname")
        let unit = try await run("systemctl", "status", "--lines=0", ServiceTests.unit).output
        throw ChildProcess.Failure(
            description: "The journal has no such entry: \(matches), \(count) times.\n\(unit)\n\(end)")
    }

    /// Reads the journal from the mark on, for half a minute.
    private func followJournal(
        after mark: JournalMark, until isFound: (JournalEntry) -> Bool
    ) async throws -> JournalEntry? {
        // By itself it would go on for ever, and a signal would reach nsenter, but not what it started.
        let command = enter(
            ["bash", "-c", #""$@" & read -r -t 30 _; kill $!"#, "bash"]
                + query(from: mark, []) + ["--follow", "--lines=all"])
        let journalctl = try Conversation(command, errors: .file("/dev/null"))
        defer { journalctl.finish() }
        for await line in journalctl.lines {
            // A line that is cut at the end of the time is read whole by the next reading.
            guard let entry = try? decode(Substring(line)) else { continue }
            if !mark.isAt(entry), isFound(entry) { return entry }
        }
        try Task.checkCancellation()
        return nil
    }

    /// With `--after-cursor` and matches, journalctl leaves out the first entry that matches.
    private func query(from mark: JournalMark, _ matches: [String]) -> [String] {
        ["journalctl", "--output=json", "--all", "--cursor=\(mark.cursor)"] + matches
    }

    private func decode(_ line: Substring) throws -> JournalEntry {
        try JSONDecoder().decode(JournalEntry.self, from: Data(line.utf8))
    }
}
