import ArgumentParser
import HistoryConfiguration
import PersistentHistory

struct Describe: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "describe",
        abstract: "Show what is tracked in a store, or the model of a store that Core Data writes.",
        discussion: "The first token is the oldest one after which the history can be read.")

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Option(help: "A table to read, or JSON for programs.")
    var format = OutputFormat.table

    func run() throws {
        var output = StandardOutput()
        if let found = try Self.coreData(store) {
            let report = CoreDataReport(description: found)
            if format == .json { try output.write(report.json) } else { try report.write(to: &output) }
            return try output.flush()
        }
        let description = try StoreDescription(path: store)
        switch format {
        case .json: try output.write(Self.json(description))
        case .table:
            for (title, value) in facts(description) { try output.writeLine(title + "  " + value) }
            try output.writeLine("")
            var table = TextTable(["ENTITY", "CHANGES", "PRESERVED"])
            try table.write(
                description.entities.map { [$0.name, "\($0.changes)", $0.preserved.joined(separator: ", ")] },
                to: &output)
        }
        try output.flush()
    }

    /// Describes a Core Data store, even one without a history; nil for another store.
    private static func coreData(_ store: String) throws -> CoreDataDescription? {
        do {
            guard let reader = try StoreHistory.open(store) as? CoreDataReader else { return nil }
            return try CoreDataDescription(reader)
        } catch let error as HistoryError where error.code == .notTracked {
            // For a store that Core Data does not write, the error says more.
            guard let description = try? CoreDataDescription(anyStore: store) else { throw error }
            return description
        }
    }

    private func facts(_ description: StoreDescription) -> [(String, String)] {
        [
            ("Store id   ", description.storeID.text),
            ("First token", description.firstToken?.description ?? "none"),
            ("Last token ", description.lastToken?.description ?? "none"),
            ("Changes    ", String(description.changes)),
            ("Bytes      ", description.bytes.map { String($0) } ?? "unknown"),
        ]
    }

    /// What `describe` reports of a store, as JSON.
    static func json(_ store: String) throws -> [UInt8] {
        if let found = try coreData(store) { return CoreDataReport(description: found).json }
        return json(try StoreDescription(path: store))
    }

    private static func json(_ description: StoreDescription) -> [UInt8] {
        var json = JSONBytes()
        json.object { json in
            json.member("storeID", description.storeID.text)
            json.member("firstToken", description.firstToken?.description)
            json.member("lastToken", description.lastToken?.description)
            json.member("changes", description.changes)
            json.member("bytes", description.bytes)
            json.name("entities")
            json.array { json in
                for entity in description.entities {
                    json.object { json in
                        json.member("name", entity.name)
                        json.member("preserved", entity.preserved)
                        json.member("changes", entity.changes)
                    }
                }
            }
        }
        json.endLine()
        return json.bytes.array
    }
}
