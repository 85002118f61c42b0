import PersistentHistory

/// Changes as lines of comma-separated values (RFC 4180, with line feeds).
struct ChangeRecord: ~Copyable {
    private static let titles =
        "token,timestamp,author,context,process,bundleID,operation,entity,objectID,objectIDURL,changedProperties,changedPropertiesUnknown,tombstone"

    /// Whether there is a column for labels.
    var hasLabels = false
    /// Whether there are columns for the values before and after.
    var hasValues = false
    private(set) var bytes = ByteBuffer()
    /// A buffer for members in JSON.
    private var json = JSONBytes()
    /// The transaction's fields, with which all its lines begin.
    private var origin: [UInt8] = []

    var titles: String { Self.titles + (hasLabels ? ",label" : "") + (hasValues ? ",before,after" : "") }

    var count: Int { bytes.count }

    mutating func removeAll() { bytes.removeAll() }

    mutating func begin(_ transaction: HistoryTransaction) {
        var fields = ByteBuffer()
        for (index, field) in transaction.origin.enumerated() {
            if index > 0 { fields.append(UInt8(ascii: ",")) }
            Self.append(field, to: &fields)
        }
        origin = fields.array
    }

    /// Begins a transaction of which only the token is known.
    mutating func begin(token: String) { origin = Array("\(token),,,,,".utf8) }

    mutating func write(_ change: HistoryChange, of store: StoreID, isDated: Bool = true) {
        bytes.append(origin)
        field(change.operation.rawValue)
        field(change.entity.name)
        field { HistoryJSON.write(change.objectID, to: &$0) }
        field(HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: store))
        let names = change.changedProperties + (change.unnamedProperties ?? [])
        field(names.joined(separator: " "))
        field(change.operation == .update ? String(change.unnamedProperties != nil) : "")
        if let tombstone = change.tombstone {
            field {
                HistoryJSON.write(
                    tombstone, isTyped: change.entity.source == .coreData, isDated: isDated, to: &$0)
            }
        } else {
            field("")
        }
        if hasLabels { field(change.shownLabel ?? "") }
        if hasValues {
            for state in [change.shownValues?.before, change.shownValues?.after] {
                if let state { field { HistoryJSON.write(state, to: &$0) } } else { field("") }
            }
        }
        bytes.append("\n")
    }

    /// A line without an entity stands for a transaction without changes.
    mutating func write(recreated entity: String) { write(operation: "recreated", entity) }
    mutating func writeNoChange() { write(operation: "", "") }

    /// Writes a line that is not a change.
    mutating func write(token: String, _ operation: String, _ text: String) {
        begin(token: token)
        write(operation: operation, text)
    }

    private mutating func write(operation: String, _ entity: String) {
        bytes.append(origin)
        field(operation)
        field(entity)
        bytes.append(",,,,,")
        if hasLabels { bytes.append(",") }
        bytes.append(hasValues ? ",,\n" : "\n")
    }

    private mutating func field(_ text: String) {
        bytes.append(",")
        Self.append(text, to: &bytes)
    }

    private mutating func field(_ write: (inout JSONBytes) -> Void) {
        json.removeAll()
        write(&json)
        bytes.append(",")
        // Always in quotes.
        json.bytes.withBytes { Self.appendQuoted($0, to: &bytes) }
    }

    private static func append(_ text: String, to bytes: inout ByteBuffer) {
        var text = text
        text.withUTF8 { utf8 in
            let needsQuotes = utf8.contains { $0 == 0x22 || $0 == 0x2c || $0 == 0x0a || $0 == 0x0d }
            if needsQuotes { appendQuoted(utf8, to: &bytes) } else { bytes.append(utf8) }
        }
    }

    private static func appendQuoted(_ text: UnsafeBufferPointer<UInt8>, to bytes: inout ByteBuffer) {
        let quote = UInt8(ascii: "\"")
        bytes.append(quote)
        for byte in text {
            if byte == quote { bytes.append(quote) }
            bytes.append(byte)
        }
        bytes.append(quote)
    }
}

extension HistoryTransaction {
    /// The transaction's token, time, author, context, process and bundle.
    var origin: [String] {
        [
            token.description, timestamp.description, author ?? "", context ?? "",
            application?.process ?? processID.map { String($0) } ?? "", application?.bundleID ?? "",
        ]
    }
}
