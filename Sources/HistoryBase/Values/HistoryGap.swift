/// Numbers that are missing in the middle of a history.
///
/// The numbers of Core Data's transactions, and of recorded changes, are consecutive: a rollback returns
/// its numbers, and a purge or a cleanup deletes only up to the floor. Anything else that is missing was
/// deleted by other means, or was in a damaged page.
@usableFromInline package struct HistoryGap: Error, Sendable, Equatable {
    @usableFromInline package let numbers: ClosedRange<Int64>

    init(_ numbers: ClosedRange<Int64>) { self.numbers = numbers }

    /// The gap between two existing numbers; nil if there is none.
    ///
    /// - Parameter floor: Numbers up to here may be missing.
    @inlinable package init?(after last: Int64, before next: Int64, floor: Int64) {
        let known = max(last, floor)
        // A damaged store may contain any number.
        guard known < next, known + 1 < next else { return nil }
        numbers = known + 1...next - 1
    }

    /// The position from which a reader is not affected by the gap.
    package var end: Int64 { numbers.upperBound }

    /// `4`, `4 to 6`.
    var text: String {
        numbers.lowerBound == numbers.upperBound
            ? "\(numbers.lowerBound)" : "\(numbers.lowerBound) to \(numbers.upperBound)"
    }
}

/// The end of the known gaps in a store's history. Gaps are not searched in advance: a reader finds each
/// one while reading, and all connections to the store then know it.
package final class KnownGaps: Sendable {
    private let end = Locked<Int64>(0)

    package init() {}

    /// No gap is known after this position.
    var floor: Int64 { end.withLock(\.self) }

    package func note(_ position: Int64) { end.withLock { $0 = max($0, position) } }
}

extension HistoryBounds {
    /// The same with known gaps: the history can be read from the end of the last one.
    package func with(_ gaps: KnownGaps) -> HistoryBounds {
        HistoryBounds(store: store, floor: max(floor, min(gaps.floor, end)), end: end)
    }
}

extension HistoryError {
    /// - Parameters:
    ///   - what: What the numbers count: "transactions".
    ///   - oldest: The oldest token of the store that is still valid.
    package static func missing(_ gap: HistoryGap, _ what: String, oldest: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenExpired,
            "The history has a gap: the \(what) \(gap.text) are missing. The oldest token that still works is \(oldest).",
            hint:
                "They were deleted by another hand, or a page is damaged. Start over from a copy of the data and that token; `historyctl history --salvage` shows what is there."
        )
    }
}
