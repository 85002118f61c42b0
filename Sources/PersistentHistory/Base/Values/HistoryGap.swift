/// Numbers that are missing in the middle of a history.
///
/// The numbers of Core Data's transactions, and of recorded changes, follow each other: a rollback gives its numbers back,
/// and what a purge or a cleanup deletes lies up to the floor. What else is missing was deleted by another hand, or lay in
/// a page that is damaged.
package struct HistoryGap: Error, Sendable, Equatable {
    let numbers: ClosedRange<Int64>

    init(_ numbers: ClosedRange<Int64>) { self.numbers = numbers }

    /// What is missing between two numbers that are there; nil if nothing is.
    ///
    /// - Parameter floor: Numbers up to here may be missing.
    package init?(after last: Int64, before next: Int64, floor: Int64) {
        let known = max(last, floor)
        // A damaged store may have any numbers.
        guard known < next, known + 1 < next else { return nil }
        numbers = known + 1...next - 1
    }

    /// Where a reader has to stand that this gap does not concern.
    var end: Int64 { numbers.upperBound }

    /// `4`, `4 to 6`.
    var text: String {
        numbers.lowerBound == numbers.upperBound
            ? "\(numbers.lowerBound)" : "\(numbers.lowerBound) to \(numbers.upperBound)"
    }
}

/// Up to where a store's history is known to have gaps. They are not looked for ahead of time: a reader finds each where it
/// reads on, and what it has found holds for all connections to the store.
final class KnownGaps: Sendable {
    private let end = Locked<Int64>(0)

    /// From here on no gap is known.
    var floor: Int64 { end.withLock(\.self) }

    func note(_ position: Int64) { end.withLock { $0 = max($0, position) } }
}

extension HistoryBounds {
    /// The same where gaps are known: the history can be read from the end of the last one on.
    func with(_ gaps: KnownGaps) -> HistoryBounds {
        HistoryBounds(store: store, floor: max(floor, min(gaps.floor, end)), end: end)
    }
}

extension HistoryError {
    /// - Parameters:
    ///   - what: What the numbers count: "transactions".
    ///   - oldest: The oldest token of the store that still works.
    static func missing(_ gap: HistoryGap, _ what: String, oldest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenExpired,
            "The history has a gap: the \(what) \(gap.text) are missing. The oldest token that still works is \(oldest).",
            hint:
                "They were deleted by another hand, or a page is damaged. Start over from a copy of the data and that token; `historyctl history --salvage` shows what is there."
        )
    }
}
