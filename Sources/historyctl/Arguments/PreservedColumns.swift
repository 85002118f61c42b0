import PersistentHistory

/// The columns that `--preserve ENTITY.COLUMN` names.
///
/// Both names may contain dots: every way to read the text is tried against the store's tables. If
/// several fit, an entity that is named in the command comes first, then the longest.
struct PreservedColumns {
    /// The store's tables and their columns.
    let tables: [String: [String]]
    /// The entities that the command names.
    let named: [String]

    func entities(preserving texts: [String]) throws -> [String: [String]?] {
        var entities: [String: [String]?] = [:]
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
        for dot in text.indices.reversed() where text[dot] == "." {
            guard let table = tableName(String(text[..<dot])) else { continue }
            let column = String(text[text.index(after: dot)...])
            if tables[table]?.contains(where: { Self.same($0, column) }) == true {
                readings.append((table, column))
            }
        }
        let isNamed = { (reading: (table: String, column: String)) in
            named.contains { Self.same($0, reading.table) }
        }
        if let reading = readings.first(where: isNamed) ?? readings.first { return reading }
        throw HistoryError(
            .notAnEntity, "The store has no column \"\(text)\" to preserve.",
            hint: "Columns are named ENTITY.COLUMN; `sqlite3 STORE .schema` lists them.")
    }

    private func tableName(_ name: String) -> String? { tables.keys.first { Self.same($0, name) } }

    /// SQLite ignores the case of ASCII letters.
    private static func same(_ a: String, _ b: String) -> Bool {
        a.utf8.elementsEqual(b.utf8) { lowercased($0) == lowercased($1) }
    }

    private static func lowercased(_ letter: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(letter) ? letter + 32 : letter
    }
}
