/// The values that one hook's call, or one line of a feed, gives with its objects.
package struct CallValues: Sendable {
    /// What texts and blobs of one call have at most together.
    package static let mostBytes = 32 << 20

    let rows: RowValues
    /// Longer texts and blobs are cut.
    let maximumBytes: Int

    /// Nil where none are wanted.
    init?(_ rows: RowValues?, _ maximumBytes: Int?) {
        guard let rows, let maximumBytes else { return nil }
        self.rows = rows
        self.maximumBytes = maximumBytes
    }
}

/// Writes the values of one call or line, straight into bytes.
struct ValueWriter {
    private let values: CallValues
    private var rest = CallValues.mostBytes

    init?(_ values: CallValues?) {
        guard let values else { return nil }
        self.values = values
    }

    /// The member `valuesAt`.
    func writePosition(to json: inout JSONBytes) {
        json.name("valuesAt")
        HistoryJSON.write(values.rows.position, to: &json)
    }

    /// The member `values`, and `cutValues` where texts or blobs were cut; nothing for a row that is gone.
    mutating func write(_ object: ObjectID, of entity: Entity, to json: inout JSONBytes) {
        guard let row = values.rows.row(of: object, in: entity) else { return }
        var cut: [(column: Int, size: Int)] = []
        json.name("values")
        json.object { json in
            for (column, value) in row.values.enumerated() {
                let limit = min(values.maximumBytes, rest)
                let count = value.byteCount
                if let size = row.sizes[column] ?? (count > limit ? count : nil) { cut.append((column, size)) }
                rest -= min(count, limit)
                json.members(row.names.members[column])
                HistoryJSON.write(count > limit ? value.prefix(limit) : value, to: &json)
            }
        }
        if cut.isEmpty { return }
        json.name("cutValues")
        json.object { json in
            for (column, size) in cut {
                json.members(row.names.members[column])
                json.integer(size)
            }
        }
    }
}
