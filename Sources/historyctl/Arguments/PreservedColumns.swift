import PersistentHistory

/// The columns that `--preserve ENTITY.COLUMN` names.
///
/// Both names may contain dots: each possible split is tried against the store's tables. If several fit, an
/// entity that the command names comes first, then the longest.
struct PreservedColumns {
    /// The store's tables and their columns.
    let tables: [BinaryText: [String]]
    /// The entities that the command names.
    let named: [String]

    func entities(preserving texts: [String]) throws -> [BinaryText: [String]?] {
        var entities: [BinaryText: [String]?] = [:]
        for name in named { entities.updateValue(nil, forKey: tableName(name) ?? name) }
        for text in texts {
            let (table, column) = try resolve(text)
            entities.updateValue(((entities[table] ?? nil) ?? []) + [column], forKey: table)
        }
        return entities
    }

    private func resolve(_ text: String) throws -> (table: String, column: String) {
        var readings: [(table: String, column: String)] = []
        // The longest entity first.
        for dot in text.utf8.indices.reversed() where text.utf8[dot] == UInt8(ascii: ".") {
            guard let table = tableName(String(text[..<dot])) else { continue }
            let column = String(text[text.utf8.index(after: dot)...])
            if tables[table]?.contains(where: { SQLText.areSame($0, column) }) == true {
                readings.append((table, column))
            }
        }
        let isNamed = { (reading: (table: String, column: String)) in
            named.contains { SQLText.areSame($0, reading.table) }
        }
        if let reading = readings.first(where: isNamed) ?? readings.first { return reading }
        throw HistoryError(
            .notAnEntity, "The store has no column \"\(text)\" to preserve.",
            hint: "Columns are named ENTITY.COLUMN; `sqlite3 STORE .schema` lists them.")
    }

    private func tableName(_ name: String) -> String? {
        tables.keys.first { SQLText.areSame($0.text, name) }?.text
    }
}
