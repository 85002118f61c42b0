import PersistentHistory

/// A change as a line of comma-separated values (RFC 4180, with line feeds).
enum ChangeRecord {
    static let titles =
        "token,timestamp,author,context,process,bundleID,operation,entity,objectID,objectIDURL,changedProperties,changedPropertiesUnknown,tombstone"

    static func line(_ change: HistoryChange, _ transaction: HistoryTransaction) -> String {
        let store = transaction.token.store
        let unnamed = change.unnamedProperties ?? []
        return line(
            transaction.origin + [
                change.operation.rawValue, change.entity.name,
                json { HistoryJSON.write(change.objectID, to: &$0) },
                HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: store),
                (change.changedProperties + unnamed).joined(separator: " "),
                change.operation == .update ? String(change.unnamedProperties != nil) : "",
                change.tombstone.map { tombstone in
                    json { HistoryJSON.write(tombstone, isTyped: change.entity.source == .coreData, to: &$0) }
                } ?? "",
            ])
    }

    static func line(recreated entity: String, _ transaction: HistoryTransaction) -> String {
        line(transaction.origin + ["recreated", entity, "", "", "", "", ""])
    }

    private static func json(_ write: (inout JSONBytes) -> Void) -> String {
        var json = JSONBytes()
        write(&json)
        return json.bytes.text
    }

    private static func line(_ fields: [String]) -> String { fields.map(quoted).joined(separator: ",") }

    private static func quoted(_ field: String) -> String {
        guard field.utf8.contains(where: { [0x22, 0x2c, 0x0a, 0x0d].contains($0) }) else { return field }
        return "\"" + field.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
            + "\""
    }
}

extension HistoryTransaction {
    /// Its token, time, author, context, process and bundle.
    var origin: [String] {
        [
            token.description, timestamp.description, author ?? "", context ?? "",
            application?.process ?? processID.map { String($0) } ?? "", application?.bundleID ?? "",
        ]
    }
}
