import FoundationEssentials

/// The saved result of a run, to compare it with another run.
struct RunRecord: Codable {
    struct Fact: Codable {
        let name: String
        let value: String
    }

    let machine: [Fact]
    let figures: [Figure]
    /// What could not be measured, and why.
    let omissions: [String]

    func save(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(self) + [0x0A]).write(to: URL(filePath: path))
    }

    static func load(_ path: String) throws -> RunRecord {
        do {
            return try JSONDecoder().decode(RunRecord.self, from: Data(contentsOf: URL(filePath: path)))
        } catch {
            throw BenchError("'\(path)' holds no results of a run: \(error)")
        }
    }
}

/// The folder where runs are kept, a file each.
struct RunFolder {
    static let usual = ".build/bench"

    let path: String

    /// The file of a run.
    func file(_ name: String) -> String { name.contains("/") ? name : "\(path)/\(name).json" }

    func save(_ record: RunRecord, as name: String) throws -> String {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let file = file(name)
        try record.save(to: file)
        return file
    }

    /// Names, the newest first.
    func names() throws -> [String] {
        let manager = FileManager.default
        guard manager.fileExists(atPath: path) else { return [] }
        let files = try manager.contentsOfDirectory(atPath: path).filter { $0.hasSuffix(".json") }
        let dated = try files.map { file in
            let attributes = try manager.attributesOfItem(atPath: "\(path)/\(file)")
            return (
                name: String(file.dropLast(5)), date: attributes[.modificationDate] as? Date ?? .distantPast
            )
        }
        return dated.sorted { ($0.date, $0.name) > ($1.date, $1.name) }.map(\.name)
    }
}
