import FoundationEssentials
import PersistentHistory

/// Writes a history as one self-contained HTML file: it fetches nothing.
///
/// The transactions are JSON, in parts that the page reads when they are to be shown. Each part follows an
/// index, from which the timeline is drawn. The store's content is data, never a part of the page.
struct ReportWriter: ~Copyable {
    /// The kind of an item in a part, as in report.js.
    private enum Kind: Int {
        case whole, missing, orphans, more, recreated
    }

    /// How much of a part is read at once.
    private static let partSize = 1 << 18

    /// Reads the parts of large transactions; nil if there are none.
    private let reader: (any HistoryReading)?
    private let filter: HistoryFilter
    private let notes: ChangeNotes
    /// Only the page's own scripts and styles have it; writers of the store cannot know it.
    private let nonce = UUID().uuidString
    private var part = JSONBytes(reservingCapacity: 2 * partSize)
    private var index = JSONBytes()
    private var authors = ReportLanes()
    private var processes = ReportLanes()
    private var (transactions, changes) = (0, 0)
    private var last: HistoryToken?

    init(
        _ reader: (any HistoryReading)?, filter: HistoryFilter = HistoryFilter(),
        notes: ChangeNotes = ChangeNotes()
    ) {
        self.reader = reader
        self.filter = filter
        self.notes = notes
        // JavaScript rounds integers beyond 2^53.
        part.largeIntegers = .text
    }

    func begin(_ record: ReportRecord, to output: inout StandardOutput) throws {
        let policy =
            "default-src 'none'; style-src 'nonce-\(nonce)'; script-src 'nonce-\(nonce)'; base-uri 'none'; form-action 'none'"
        try output.writeLine(
            """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><title>History</title>
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <style nonce="\(nonce)">
            """)
        try output.write(PackageResources.report_css)
        try output.writeLine("</style></head>")
        try output.write(PackageResources.report_html)
        try writeData("id=\"record\"", record.json, to: &output)
    }

    mutating func write(_ transactions: [HistoryTransaction], to output: inout StandardOutput) throws {
        for transaction in try notes.add(to: transactions) {
            guard transaction.isLarge, let reader else {
                try write(transaction, transaction.changes, to: &output)
                continue
            }
            try reader.forEachPart(of: transaction, filter: filter) { changes, _ in
                try write(transaction, notes.add(to: changes, of: transaction), to: &output)
            }
        }
    }

    /// Writes what can be read of a damaged history.
    mutating func write(_ finding: CoreDataSalvage.Finding, to output: inout StandardOutput) throws {
        switch finding {
        case .transaction(let transaction): try write([transaction], to: &output)
        case .missing(let numbers):
            SalvageWriter.write(missing: numbers, to: &part)
            note(nil, [], .missing)
        case .changes(let changes, let token):
            SalvageWriter.write(changes, of: token, to: &part)
            note(nil, changes, .orphans)
        }
        try flush(to: &output)
    }

    private mutating func write(
        _ transaction: HistoryTransaction, _ changes: [HistoryChange], to output: inout StandardOutput
    ) throws {
        let isMore = last == transaction.token
        if changes.count == transaction.changes.count, !isMore {
            HistoryJSON.write(transaction, to: &part)
        } else {
            HistoryJSON.write(changes, of: transaction, isFirst: true, isLast: true, to: &part)
        }
        last = transaction.token
        if !isMore { transactions += 1 }
        note(transaction, changes, isMore ? .more : transaction.recreated.isEmpty ? .whole : .recreated)
        if part.count >= Self.partSize { try flush(to: &output) }
    }

    /// `[time, author, process, inserts, updates, deletes, kind]`
    private mutating func note(_ transaction: HistoryTransaction?, _ changes: [HistoryChange], _ kind: Kind) {
        var counts = [ChangeOperation: Int]()
        for change in changes { counts[change.operation, default: 0] += 1 }
        self.changes += changes.count
        let process = transaction.flatMap { $0.application?.process ?? $0.processID.map { String($0) } }
        let lanes = (authors.number(transaction?.author), processes.number(process))
        index.array { json in
            if let transaction { json.integer(transaction.timestamp.milliseconds) } else { json.null() }
            json.integer(lanes.0)
            json.integer(lanes.1)
            for operation in [ChangeOperation.insert, .update, .delete] { json.integer(counts[operation] ?? 0) }
            json.integer(kind.rawValue)
        }
    }

    private mutating func flush(to output: inout StandardOutput) throws {
        guard index.count > 0 else { return }
        try writeData("class=\"index\"", "[".utf8 + index.bytes.array + "]".utf8, to: &output)
        try writeData("class=\"part\"", "[".utf8 + part.bytes.array + "]".utf8, to: &output)
        index.removeAll()
        part.removeAll()
    }

    /// Writes data that is not a script: no tag of the page can start inside it.
    private func writeData(_ attribute: String, _ json: [UInt8], to output: inout StandardOutput) throws {
        try output.write("<script type=\"application/json\" \(attribute)>".utf8)
        for piece in json.split(separator: UInt8(ascii: "<"), omittingEmptySubsequences: false).enumerated() {
            if piece.offset > 0 { try output.write(#"\u003c"#.utf8) }
            try output.write(piece.element)
        }
        try output.writeLine("</script>")
    }

    /// Ends the page.
    ///
    /// - Parameter problems: What is missing, and why, in sentences.
    mutating func end(_ problems: [String], to output: inout StandardOutput) throws {
        try flush(to: &output)
        var end = JSONBytes()
        end.object { json in
            json.member("transactions", transactions)
            json.member("changes", changes)
            for (name, texts) in [
                ("authors", authors.names), ("processes", processes.names), ("problems", problems),
            ] {
                json.name(name)
                json.array { json in for text in texts { json.string(text) } }
            }
        }
        try writeData("id=\"end\"", end.bytes.array, to: &output)
        try output.writeLine("<script nonce=\"\(nonce)\">")
        try output.write(PackageResources.report_js)
        try output.writeLine("</script></body></html>")
        try output.flush()
    }
}

/// Numbers the names of authors or processes.
private struct ReportLanes {
    /// All further names share one lane: a store may have any number.
    private static let most = 500

    private(set) var names: [String?] = []
    private var numbers: [BinaryText?: Int] = [:]

    mutating func number(_ name: String?) -> Int {
        let key = name.map { BinaryText($0) }
        if let number = numbers[key] { return number }
        if names.count < Self.most {
            names.append(name)
        } else if names.count == Self.most {
            names.append("(others)")
        }
        numbers[key] = names.count - 1
        return names.count - 1
    }
}
