import PersistentHistory
internal import FoundationEssentials

/// Which tables go through: all, or only those that a list names. Names are compared without case, as SQLite
/// does.
package struct EntityChoice: Hashable, Sendable {
    /// Sorted; nil for all.
    private let names: [String]?
    private let folded: Set<BinaryText>

    package static let all = EntityChoice(nil)

    /// The `detail` of an emptied change that stands for those which were left out up to it.
    static let mark = "passed over"

    package init(_ names: [String]?) {
        self.names = names?.sorted { $0.precedes($1) }
        folded = Set(names: (names ?? []).map(SQLText.folded))
    }

    package var isAll: Bool { names == nil }

    package func contains(_ name: String) -> Bool { isAll || folded.contains(BinaryText(SQLText.folded(name))) }

    /// The chosen names that no table has.
    package func missing(in tables: some Sequence<String>) -> [String] {
        let present = Set(names: tables.map(SQLText.folded))
        return (names ?? []).filter { !present.contains(BinaryText(SQLText.folded($0))) }
    }

    /// The same for the same tables, without their names; nil for all.
    package var digest: String? {
        get throws {
            guard !isAll else { return nil }
            // A name has no zero byte.
            let text = folded.sorted().map(\.text).joined(separator: "\0")
            return String(try SHA256.of(Array(text.utf8)).prefix(16))
        }
    }
}

extension MirrorSchema {
    /// Without the other tables, their shapes and their names.
    func only(_ choice: EntityChoice) -> MirrorSchema {
        guard !choice.isAll else { return self }
        var schema = withTables(of: choice)
        schema.shapes.removeAll { !choice.contains($0.name) }
        schema.leftOut.removeAll { !choice.contains($0) }
        return schema
    }

    /// Without the other tables. Their shapes stay, as those of tables that are not tracked: by them, their
    /// changes are known.
    func passingOverOthers(than choice: EntityChoice) -> MirrorSchema {
        guard !choice.isAll else { return self }
        var schema = withTables(of: choice)
        schema.shapes = schema.shapes.map { shape in
            choice.contains(shape.name)
                ? shape
                : Shape(shape: shape.shape, name: shape.name, definition: shape.definition, tracked: 0)
        }
        return schema
    }

    private func withTables(of choice: EntityChoice) -> MirrorSchema {
        var schema = self
        schema.tables.removeAll { !choice.contains($0.name) }
        schema.indexes.removeAll { !choice.contains($0.table) }
        return schema
    }
}
