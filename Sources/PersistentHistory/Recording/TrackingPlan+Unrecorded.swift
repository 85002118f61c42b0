import GRDB

/// Which entities may have unrecorded changes.
extension TrackingPlan {
    /// The entities whose changes may have gone unrecorded until now. Their tables may have been written
    /// to even since the plan was made.
    func unrecorded(_ db: Database) throws -> Set<BinaryText> {
        guard let catalog else { return unrecorded }
        return try steps.reduce(into: unrecorded) { names, step in
            guard try mayHaveMissedChanges(step, catalog, db) || takesAName(step, catalog) else { return }
            names.insert(step.table.name)
            names.formUnion(catalog.names(like: step.table.name))
            if let current = step.current { names.insert(current.name) }
        }
    }

    /// Whether a table was given the name of another that consumers know. They would take its rows for
    /// those of the other, although each change was recorded.
    private func takesAName(_ step: Step, _ catalog: EntityCatalog) -> Bool {
        guard let current = step.current, !SQLText.areSame(current.name, step.table.name) else { return false }
        // A table that has its own name back is the same table.
        let renamedTo = namesBefore[step.table.name]?.renamedTo?.text
        if renamedTo.map({ SQLText.areSame($0, current.name) }) == true { return false }
        return !catalog.names(like: step.table.name).isEmpty
    }

    private func mayHaveMissedChanges(_ step: Step, _ catalog: EntityCatalog, _ db: Database) throws -> Bool {
        if let current = step.current {
            return catalog.guards[current.shape]?.mayHaveMissedChanges(of: current, on: step.table) ?? true
        }
        // A table that was tracked before, or has rows already, differs from what consumers know.
        if !catalog.names(like: step.table.name).isEmpty { return true }
        return try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(SQLText.name(step.table.name)))")
            ?? false
    }
}
