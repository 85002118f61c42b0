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
