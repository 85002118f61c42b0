/// Reads a history in bounded memory, however large a transaction is, for programs that show it.
extension HistoryReading {
    /// The next transactions that a filter selects. A large one (`isLarge`) has no changes.
    ///
    /// - Parameter number: The end of the previous page; 0 for the start of the history.
    package func page(after number: Int64, filter: HistoryFilter) throws -> HistoryBatch {
        guard let source = self as? any HistorySource else { return try batch(after: number, filter: filter) }
        return try source.page(after: number, filter: filter)
    }

    /// The same backwards.
    ///
    /// - Parameter number: The end of the previous page; nil for the newest transactions.
    package func reversedPage(before number: Int64?, filter: HistoryFilter) throws -> HistoryBatch {
        guard let source = self as? any HistorySource else {
            return try reversedBatch(before: number, filter: filter)
        }
        return try source.reversedPage(before: number, filter: filter)
    }

    /// Reads the changes of a large transaction in order, as many at a time as fit into memory.
    ///
    /// - Parameter body: Called at least once. The last call is marked as such.
    package func forEachPart(
        of transaction: HistoryTransaction, filter: HistoryFilter,
        _ body: (_ changes: [HistoryChange], _ isLast: Bool) throws -> Void
    ) throws {
        guard let source = self as? any HistorySource, transaction.isLarge else {
            return try body(transaction.changes, true)
        }
        for part in UnreadChanges.parts(of: transaction) {
            let changes = try source.changes(part).changes.filter { change in
                filter.accepts(change.entity, change.operation) && filter.accepts(change.objectID)
                    && filter.accepts(change)
            }
            try body(changes, part.part?.isLast ?? true)
        }
    }
}
