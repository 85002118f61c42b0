/// Handles what the application's triggers may do during a foreign key's action.
///
/// SQLite changes a row, then the rows that refer to it, and only then runs the AFTER triggers of the
/// change.
///
/// - If a trigger on those rows ends the statement with RAISE(FAIL), earlier work is kept, and the change
///   of the first row is not recorded: SQLite offers no way to do so. Therefore an update that names no
///   column is recorded before each such change, so that replicas, which copy such a table completely,
///   are not left behind.
/// - If a trigger inserts the first row again, its insert is recorded before its delete, and therefore
///   once more afterwards.
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

    /// The folded names of the tables whose rows a foreign key changes together with a parent's.
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

    /// The same for a row that is about to be replaced.
    func announce(_ conflicts: [Conflict], sparing own: String? = nil) -> [String] {
        guard table.mayLoseActions else { return [] }
        let notSelf = own.map { " AND NOT (\(key(row)) IS \(key($0)))" } ?? ""
        return conflicts.map {
            record(
                "SELECT \(values(.update, key(row), "0")) FROM \(tableAsRow) WHERE \($0.condition)\(notSelf)")
        }
    }

    /// Records the row with OLD's key if it exists again.
    ///
    /// - Parameter updated: Whether NEW exists, which has OLD's key if only its rowid has changed.
    func recordReturned(besidesNew updated: Bool = false) -> [String] {
        guard table.mayReturn else { return [] }
        let same =
            keyColumns.isEmpty
            ? ["\(rowid(row)) = \(rowid("OLD"))"]
            : keyColumns.map { "\(column(row, $0)) IS \(column("OLD", $0))" }
                + ["\(key(row)) IS \(key("OLD")) COLLATE BINARY"]
                // 1 and 1.0 are equal, but are two objects.
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

/// Handles updates that do not complete, in tables that are recorded by known rows.
///
/// The row that an UPDATE replaces may delete the updated row, through a foreign key that leads back to
/// the table (see `StoreSchema.refersToItself`). The UPDATE then writes nothing, and only the deleted
/// row's trigger runs. So an update is noted while it is in progress, and if its row is deleted, all
/// known rows are compared.
extension TriggerWriter {
    func interruptedUpdatesTriggers() -> [(name: String, sql: String)] {
        guard table.refersToItself else { return [] }
        return [
            trigger(
                "before_update", "BEFORE UPDATE" + of(namesThatMayReplace), when: nil,
                [
                    // Notes of an update that was ignored may be left.
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

    /// Removes the note of a completed update.
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
