/// What the application's triggers may do amid a foreign key's action.
///
/// SQLite changes a row, then the rows that refer to it, and only then runs the triggers that follow the change.
///
/// - Where a trigger on those rows ends the statement by RAISE(FAIL), what was done is kept, and the change of the
///   first row is not recorded: SQLite offers nothing to do it with. So that replicas, which copy such a table
///   whole, are not left behind, an update that names no column is recorded before each such change.
/// - Where a trigger puts the first row there again, its insert is recorded before its delete, and so once more after.
extension StoreSchema {
    /// The application's triggers that may run while foreign keys act on a change of a table.
    func triggersAmidActions(on parent: String) -> [(name: String, definition: TriggerDefinition)] {
        var triggers: [(name: String, definition: TriggerDefinition)] = []
        var seen: Set<BinaryText> = []
        var next = tablesActedOn(by: SQLText.folded(parent))
        while let name = next.popLast() {
            guard seen.insert(name), let table = table(name) else { continue }
            for trigger in table.triggers {
                guard let definition = trigger.definition else { continue }
                triggers.append((trigger.name, definition))
                next += definition.writesTo.sorted().map(\.text)
            }
            next += tablesActedOn(by: name)
        }
        return triggers
    }

    /// The folded names of the tables whose rows a foreign key changes with those of a parent.
    private func tablesActedOn(by parent: String) -> [String] {
        (children[parent] ?? []).sorted().map(\.text).filter { child in
            table(child)?.foreignKeys.contains {
                $0.acts && SQLText.folded($0.parent).hasSameBytes(as: parent)
            } ?? false
        }
    }
}

extension TriggerWriter {
    func failingActionsTriggers() -> [(name: String, sql: String)] {
        guard table.mayLoseActions else { return [] }
        let body = [record(.update, key("OLD"), "0")]
        return [
            trigger("acts_on_update", "BEFORE UPDATE" + of(namesThatConflict), when: nil, body),
            trigger("acts_on_delete", "BEFORE DELETE", when: nil, body),
        ]
    }

    /// The same of a row that is about to be replaced.
    func announce(_ conflicts: [Conflict], sparing own: String? = nil) -> [String] {
        guard table.mayLoseActions else { return [] }
        let notSelf = own.map { " AND NOT (\(key(row)) IS \(key($0)))" } ?? ""
        return conflicts.map {
            record(
                "SELECT \(values(.update, key(row), "0")) FROM \(tableAsRow) WHERE \($0.condition)\(notSelf)")
        }
    }

    /// The row with OLD's key, if there is one again.
    ///
    /// - Parameter updated: Whether NEW is there, which has OLD's key where nothing but its rowid has changed.
    func recordReturned(besidesNew updated: Bool = false) -> [String] {
        guard table.mayReturn else { return [] }
        let same =
            keyColumns.isEmpty
            ? ["\(rowid(row)) = \(rowid("OLD"))"]
            : keyColumns.map { "\(column(row, $0)) IS \(column("OLD", $0))" }
                + ["\(key(row)) IS \(key("OLD")) COLLATE BINARY"]
                // 1 and 1.0 are equal, and two objects.
                + keyColumns.filter { columnsThatKeepStorageClass.contains($0) }.map {
                    "typeof(\(column(row, $0))) = typeof(\(column("OLD", $0)))"
                }
        let sameColumns = keyColumns.map { "NOT \(differs($0))" }
        let isNew = ([isRow("NEW")] + sameColumns).joined(separator: " AND ")
        let conditions = same + (updated ? ["NOT (\(isNew))"] : [])
        return [
            record(
                "SELECT \(values(.insert, key(row), "NULL")) FROM \(tableAsRow) WHERE \(conditions.joined(separator: " AND "))"
            )
        ]
    }
}

/// Updates that do not come to their end, of tables that are recorded by known rows.
///
/// The row that an UPDATE replaces may take the updated row with it, by a foreign key that leads back to the table
/// (see `StoreSchema.refersToItself`). The UPDATE then writes nothing, and no trigger runs but for the row that went
/// with the other. So an update is noted while it is under way; where its row is deleted, all known rows are looked at.
extension TriggerWriter {
    func interruptedUpdatesTriggers() -> [(name: String, sql: String)] {
        guard table.refersToItself else { return [] }
        return [
            trigger(
                "before_update", "BEFORE UPDATE" + of(namesThatMayReplace), when: nil,
                [
                    // Those of an update that was ignored are left.
                    "DELETE FROM historyd_conflict WHERE \(ofThisShape) AND at < \(now)",
                    "INSERT INTO historyd_conflict (shape, at, updating) "
                        + "VALUES (\(entity.shape), \(now), \(updatedRow))",
                ]),
            trigger(
                "interrupted", "AFTER DELETE",
                when: "EXISTS (SELECT 1 FROM historyd_conflict WHERE \(isUnderWay))",
                forgetDeleted(isGone) + endUpdate),
        ]
    }

    /// Forgets the update of a row that has come to its end.
    var endUpdate: [String] {
        table.refersToItself ? ["DELETE FROM historyd_conflict WHERE \(isUnderWay)"] : []
    }

    private var isUnderWay: String { "\(ofThisShape) AND updating IS \(updatedRow)" }

    private var updatedRow: String { table.rowid == nil ? key("OLD") : rowid("OLD") }

    /// A generated column changes with others.
    private var namesThatMayReplace: [String]? {
        let generated = Set<BinaryText>(names: table.columns.filter(\.isGenerated).map(\.name))
        let isGenerated = table.uniqueness.contains { $0.columns.contains { generated.contains($0) } }
        return isGenerated ? nil : namesThatConflict
    }
}
