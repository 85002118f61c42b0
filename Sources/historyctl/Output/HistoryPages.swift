import PersistentHistory

/// Reads the requested transactions page by page, so that a history of any length takes the memory of one page.
struct HistoryPages {
    private let reader: any HistoryReading
    private let filter: HistoryFilter
    private let isReversed: Bool
    /// Where to stop: transactions at or beyond this number are not wanted.
    private let bound: Int64?
    /// Where the next page starts; nil if a backward walk starts at the end.
    private var position: Int64?
    private var remaining: Int
    private var isAtEnd = false

    init(
        _ reader: any HistoryReading, after: HistoryToken?, before: HistoryToken?, filter: HistoryFilter,
        limit: Int?,
        isReversed: Bool
    ) throws {
        if let after { try reader.check(after: after) }
        let start = try before.map { try reader.start(of: $0) }
        self.reader = reader
        self.filter = filter
        self.isReversed = isReversed
        position = isReversed ? start : after?.number ?? 0
        bound = isReversed ? after?.number : start
        remaining = limit ?? .max
    }

    /// The next transactions, possibly none; nil at the end.
    mutating func next() throws -> [HistoryTransaction]? {
        guard !isAtEnd, remaining > 0 else { return nil }
        let batch =
            isReversed
            ? try reader.reversedPage(before: position, filter: filter)
            : try reader.page(after: position ?? 0, filter: filter)
        position = batch.end
        isAtEnd = batch.isLast || isOutside(batch.end)
        let wanted = batch.transactions.filter { !isOutside($0.token.number) }.prefix(remaining)
        remaining -= wanted.count
        return Array(wanted)
    }

    private func isOutside(_ number: Int64) -> Bool {
        guard let bound else { return false }
        return isReversed ? number <= bound : number >= bound
    }
}
