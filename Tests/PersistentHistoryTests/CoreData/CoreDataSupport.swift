import CoreDataStores
import Foundation
import Testing

@testable import PersistentHistory

/// Stores that Apple's frameworks wrote, beside the project.
enum AppleStores {
    static let folder = URL(fileURLWithPath: #filePath)
        .appending(path: "../../../../../shared/coredata").standardizedFileURL.path

    static let areThere = FileManager.default.fileExists(atPath: folder + "/expected")

    static let names = [
        "CartKitSwiftData_v1.sqlite", "Photos-13.5.1-compare-1.sqlite", "Photos-13.5.1-compare-2.sqlite",
        "RMAdminStore-Local.sqlite", "knowledgec-10.13.db",
    ]

    static func path(_ name: String) -> String { folder + "/" + name }

    /// A store's history as others have decoded it.
    static func expected(_ name: String) throws -> [[String: Any]] {
        let stem = (name as NSString).deletingPathExtension
        return try String(contentsOfFile: folder + "/expected/\(stem).jsonl", encoding: .utf8)
            .split(separator: "\n").map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
    }

    /// Copies a store with its log.
    static func copy(_ name: String, to folder: String) throws -> String {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path(name) + suffix) {
            try FileManager.default.copyItem(atPath: path(name) + suffix, toPath: "\(folder)/\(name)\(suffix)")
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o644], ofItemAtPath: "\(folder)/\(name)\(suffix)")
        }
        return folder + "/" + name
    }
}

extension HistoryReading {
    /// The whole history.
    func all(_ filter: HistoryFilter = HistoryFilter(), changes limit: Int = 5000) throws
        -> [HistoryTransaction]
    {
        var transactions: [HistoryTransaction] = []
        var position: Int64 = 0
        while true {
            let batch = try batch(
                after: position, isPosition: false, through: .max, changes: limit, filter: filter)
            transactions += batch.transactions
            if batch.isLast { return transactions }
            #expect(batch.end > position)
            position = batch.end
        }
    }
}

/// A history in the words of the generator, of what was read and of what was written.
struct Told: Equatable {
    var transactions: [String]

    init(_ transactions: [HistoryTransaction]) {
        self.transactions = transactions.map { transaction in
            let application = transaction.application
            let head = Self.head(
                transaction.token.number, transaction.author, transaction.context, application?.process,
                application?.bundleID, transaction.timestamp.milliseconds)
            return head + transaction.changes.map { Self.told($0) }.joined()
        }
    }

    init(_ store: GeneratedStore) {
        transactions = store.transactions.map { transaction in
            let milliseconds = Int64((transaction.time * 1e6).rounded() / 1000 + 978_307_200_000)
            let time = Int64(((transaction.time * 1e6).rounded() / 1000).rounded(.down)) + 978_307_200_000
            precondition(abs(milliseconds - time) <= 1)
            let head = Self.head(
                transaction.number, transaction.origin.author, transaction.origin.context,
                transaction.origin.process, transaction.origin.bundleID, time)
            return head + transaction.changes.map { Self.told($0, in: store) }.joined()
        }
    }

    private static func head(
        _ number: Int64, _ author: String?, _ context: String?, _ process: String?, _ bundle: String?,
        _ time: Int64
    ) -> String {
        "\(number) \(author ?? "-") \(context ?? "-") \(process ?? "-") \(bundle ?? "-") \(time)"
    }

    private static func told(_ change: HistoryChange) -> String {
        var text = "\n  \(change.operation) \(change.entity.name) \(change.objectID.values)"
        if change.operation == .update {
            text += " \(change.changedProperties) \(change.unnamedProperties.map { "\($0)" } ?? "all")"
        }
        for (column, value) in change.tombstone?.values ?? [] { text += " \(column.name)=\(value)" }
        return text
    }

    private static func told(_ change: GeneratedStore.Change, in store: GeneratedStore) -> String {
        let id = [HistoryValue.integer(change.object)]
        switch change.operation {
        case .insert: return "\n  insert \(change.entity) \(id)"
        case .update(let properties):
            let known = store.layouts[change.entity]?.known(properties) ?? (names: [], unnamed: [])
            return
                "\n  update \(change.entity) \(id) \(known.names) \(known.unnamed.isEmpty ? "all" : "\(known.unnamed)")"
        case .delete(let kept):
            // A null says nothing.
            let values = store.preserved(change.entity).compactMap { attribute in
                kept[attribute.name].map { " \(attribute.name)=\(Self.read($0, attribute.type))" }
            }
            return "\n  delete \(change.entity) \(id)" + values.joined()
        }
    }

    /// A value as it is to be read.
    static func read(_ value: StoredValue, _ type: StoreModel.AttributeType) -> HistoryValue {
        switch (type, value) {
        case (.date, .real(let seconds)):
            let formatter = ISO8601DateFormatter()
            let whole = seconds.rounded(.down)
            let text = formatter.string(from: Date(timeIntervalSinceReferenceDate: whole))
            // Six digits at most, as they were made.
            let digits = String(format: "%06d", Int(((seconds - whole) * 1e6).rounded()))
            var fraction = digits
            while fraction.hasSuffix("0"), fraction.count > 3 { fraction.removeLast() }
            return .text(text.dropLast() + (fraction == "000" ? "Z" : ".\(fraction)Z"))
        case (.uuid, .blob(let bytes)):
            var text = bytes.map { String(format: "%02X", $0) }.joined()
            for place in [20, 16, 12, 8] { text.insert("-", at: text.index(text.startIndex, offsetBy: place)) }
            return .text(text)
        case (_, .null): return .null
        case (_, .integer(let integer)): return .integer(integer)
        case (_, .real(let real)): return .real(real)
        case (_, .text(let text)): return .text(text)
        case (_, .blob(let bytes)): return .blob(bytes)
        }
    }
}
