import PersistentHistory

/// The history as a page.
extension History {
    func writePage() throws {
        let reader = try StoreHistory.open(store)
        let filter = try filter(for: reader)
        var pages = try pages(reader, filter)
        var output = StandardOutput()
        var writer = ReportWriter(reader, filter: filter, notes: try notes(reader))
        try writer.begin(record(isOfCoreData: reader is CoreDataReader, try Describe.json(store)), to: &output)
        do {
            while let transactions = try pages.next() { try writer.write(transactions, to: &output) }
        } catch {
            // The page shows what precedes a gap or a damaged page, and says that there is more.
            try writer.end(["\(error)"], to: &output)
            throw error
        }
        try writer.end([], to: &output)
    }

    func writePageOfWhatIsLeft() throws {
        var output = StandardOutput()
        var writer = ReportWriter(nil)
        // A damaged store may have no readable description.
        let description = (try? Describe.json(store)) ?? Array("{}".utf8)
        try writer.begin(record(isOfCoreData: true, description), to: &output)
        let summary = try CoreDataSalvage.read(store) { try writer.write($0, to: &output) }
        try writer.end(summary.isWhole ? [] : SalvageWriter.lines(summary), to: &output)
        try complain(of: summary)
    }

    private func record(isOfCoreData: Bool, _ description: [UInt8]) -> ReportRecord {
        ReportRecord(
            store, isOfCoreData: isOfCoreData, description: description,
            isReversed: reverse, command: Array(CommandLine.arguments.dropFirst()))
    }
}
